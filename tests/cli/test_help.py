"""Help fits a screen and says all that a command accepts; silence; colours."""

import os
import pty
import re
import subprocess
import unittest

from program import ALLOWED, DENIED, PROGRAM, RULE, ProgramTest, environment, run

COMMANDS = ("take", "peek", "refund", "settle", "reset", "limit", "run", "replay", "simulate", "bench", "doctor",
            "check", "explain", "serve")
LINES_MOST, COLUMNS_MOST = 36, 80


def on_a_terminal(*arguments, **variables):
    """The exit status, and what weir writes to a terminal, on stdout and stderr."""
    main, terminal = pty.openpty()
    with subprocess.Popen([PROGRAM, *arguments], stdin=subprocess.DEVNULL, stdout=terminal,
                          stderr=terminal, env=environment(**variables)) as process:
        os.close(terminal)
        written = b""
        while True:
            try:
                some = os.read(main, 4096)
            except OSError:  # the other end is closed
                some = b""
            if not some:
                break
            written += some
        os.close(main)
    return process.returncode, written


class Help(ProgramTest):
    def help_of(self, command):
        result = run("help", command)
        self.assert_output(result, 0, rb"\Aweir ")
        return result.stdout.decode("ascii")

    def test_every_command_has_its_own_which_fits_a_screen(self):
        for command in COMMANDS:
            text = self.help_of(command)
            self.assertTrue(text.startswith(f"weir {command}: "), text)
            self.assertLessEqual(len(text.splitlines()), LINES_MOST, command)
            for line in text.splitlines():
                self.assertLessEqual(len(line), COLUMNS_MOST, line)
            self.assertLess(text.index(f"  weir {command} "), text.index("usage: "))
            self.assertIn("exit status: 0 ", text)
            for asked in ([command, "--help"], [command, "-h"], [command, "k", "--help"]):
                self.assertEqual(run(*asked).stdout.decode("ascii"), text)

    def test_the_first_page_names_every_command(self):
        text = run("help").stdout.decode("ascii")
        self.assertEqual(run("--help").stdout.decode("ascii"), text)
        self.assertEqual(re.findall(r"^  (\w+) .*  \w", text, re.MULTILINE)[-len(COMMANDS) - 2:],
                         [*COMMANDS, "help", "version"])
        for line in text.splitlines():
            self.assertLessEqual(len(line), 90, line)

    def test_every_option_that_help_names_is_accepted_and_no_other(self):
        named = {command: dict(re.findall(r"^  --([a-z-]+)( [A-Z])?", self.help_of(command), re.MULTILINE))
                 for command in COMMANDS}
        for option in set().union(*named.values()):
            for command in ("take", "simulate", "bench"):  # which have nearly all
                if option == "help":
                    continue
                # A value too many or too few tells whether the option is known, and does nothing.
                known = named[command].get(option)
                probe = f"--{option}" if known else f"--{option}=x"
                expected = "needs a value" if known else "takes no"
                self.assert_refused(run(command, probe), f"--{option}", expected)

    def test_examples_are_accepted(self):
        """Each begins a real command: its options parse, whatever a store says then."""
        for command in COMMANDS:
            text = self.help_of(command)
            examples = text[:text.index("usage: ")].replace("\\\n", " ").splitlines()
            lines = [line.strip() for line in examples if "  weir " in line]
            self.assertTrue(lines, command)
            for line in lines:
                asked = line.split(" && ")[0].replace("weir ", '"$0" ', 1)
                asked = asked.replace(" -- ", " --help -- ") if " -- " in asked else asked + " --help"
                result = subprocess.run(["sh", "-c", asked, PROGRAM], env=environment(), capture_output=True, check=False)
                self.assert_ends(result, 0)
                self.assertIn(f"weir {command}: ".encode(), result.stdout)


class Quiet(ProgramTest):
    def test_the_exit_status_is_the_answer(self):
        for cost, status in (("1", ALLOWED), ("11", DENIED)):
            for command in ("take", "peek"):
                self.assert_output(run(command, "--quiet", "--rule", RULE, "--cost", cost, "k"), status, rb"\A\Z")
        self.assert_output(run("reset", "--quiet", "--rule", RULE, "k"), 0, rb"\A\Z")
        self.assert_output(run("doctor", "--quiet", "--rule", RULE), 0, rb"\A\Z")

    def test_warnings_are_left_out_and_results_are_not(self):
        self.assert_output(run("take", "--quiet", "--rule", "sliding-window:5/10ms", "k"), ALLOWED, rb"\A\Z")
        self.assert_output(run("replay", "--quiet", "--rule", "sliding-window:5/10ms", stdin=b"1 k\n"), 0,
                           rb"\A1\tk\t1\tallowed")

    def test_errors_stay(self):
        self.assert_refused(run("take", "--quiet", "--rule", "x:1/1m", "k"), "unknown algorithm")


class Colour(ProgramTest):
    def take(self, *arguments, **variables):
        return on_a_terminal("take", "--rule", RULE, *arguments, "k", TERM="xterm", **variables)

    def test_terminals_are_shown_colours(self):
        status, text = self.take(NO_COLOR=None)
        self.assertEqual(status, ALLOWED, text)
        self.assertIn(b"\x1b[32mallowed\x1b[0m", text)
        status, text = self.take("--cost", "11", NO_COLOR=None)
        self.assertEqual(status, DENIED, text)
        self.assertIn(b"\x1b[31mdenied\x1b[0m", text)
        self.assertIn(b"\x1b[31mweir:\x1b[0m ", self.take("--cost", "x", NO_COLOR=None)[1])
        self.assertIn(b"\x1b[1m", on_a_terminal("help", TERM="xterm", NO_COLOR=None)[1])

    def test_who_wants_none_is_shown_none(self):
        for wish in ({"NO_COLOR": "1"}, {"NO_COLOR": None, "TERM": "dumb"}, {"NO_COLOR": None, "TERM": None}):
            for arguments in (["help"], ["take", "--rule", RULE, "k"], ["nonsense"]):
                text = on_a_terminal(*arguments, **{"TERM": "xterm", **wish})[1]
                self.assertTrue(text)
                self.assertNotIn(b"\x1b", text)

    def test_pipes_are_shown_none(self):
        self.assertNotIn(b"\x1b", run("help", TERM="xterm", NO_COLOR=None).stdout)


if __name__ == "__main__":
    unittest.main()
