"""weir run: a command while a place is held, on real stores."""

import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from program import PROGRAM, TIMEOUT_S, ProgramTest, environment, run, said

NO_PLACE, FAILED, CANNOT_RUN, NOT_FOUND = 124, 125, 126, 127
RULE = "in-flight:1/2s"
TIMES = "timeout=200ms"  # as long as the rule allows


def store_of(variable):
    url = os.environ.get(variable, "")
    return f"{url}{'&' if '?' in url else '?'}{TIMES}"


def wait_until(condition, seconds=30):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise AssertionError("it did not come to that")
        time.sleep(0.01)


def lives(process):
    try:
        with open(f"/proc/{process}/stat", encoding="ascii") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


class Run(ProgramTest):
    def setUp(self):
        self.key = f"{self.id()}-{os.getpid()}-{time.time_ns()}"
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.started = []
        self.addCleanup(self.end_all)

    def end_all(self):
        for process in self.started:
            process.kill()
            process.wait()
            process.stderr.close()

    def words(self, command, options, rule=RULE):
        return ["run", "--store", self.store, "--rule", rule, "--key", self.key, *options, "--",
                *command]

    def run_in_place(self, *command, options=(), rule=RULE):
        return run(*self.words(command, options, rule))

    def run_next(self):
        """As soon as the place is free; and anew where the machine stood for so long that this one lost it as well."""
        for _ in range(5):
            result = self.run_in_place("true", options=("--wait", "30s"))
            if b"the place was lost" not in result.stderr:
                break
        self.assert_ends(result, 0)

    def start(self, *command, options=(), rule=RULE):
        process = subprocess.Popen([PROGRAM, *self.words(command, options, rule)],
                                   env=environment(), stderr=subprocess.PIPE)
        self.started.append(process)
        return process

    def start_writing(self, script="exec sleep 60", before=":", **how):
        """Answers with weir and the number of the command, once that has done `before` and runs."""
        path = os.path.join(self.folder.name, str(len(self.started)))
        process = self.start("sh", "-c", f"{before}; echo $$ >{path}.new; mv {path}.new {path}; {script}", **how)
        wait_until(lambda: os.path.exists(path))
        with open(path, encoding="ascii") as file:
            return process, int(file.read())


class Always:
    def test_the_command_says_how_it_ends(self):
        result = self.run_in_place("sh", "-c", "echo out; echo err >&2; exit 7")
        self.assertEqual((result.returncode, result.stdout, said(result.stderr)), (7, b"out\n", b"err\n"))
        self.assert_ends(self.run_in_place("true"), 0)
        for number in (signal.SIGTERM, signal.SIGKILL, signal.SIGINT):
            result = self.run_in_place("sh", "-c", f"kill -{number} $$")
            self.assert_ends(result, -number)

    def test_what_cannot_be_run_is_told_apart(self):
        self.assert_error(self.run_in_place("/nowhere/at/all"), NOT_FOUND, "/nowhere/at/all")
        self.assert_error(self.run_in_place("no-such-program-at-all"), NOT_FOUND)
        self.assert_error(self.run_in_place(self.folder.name), CANNOT_RUN)
        self.assert_ends(self.run_in_place("true"), 0)

    def test_wrong_arguments_are_failures_of_its_own(self):
        store = ("--store", self.store)
        self.assert_error(run("run", *store, "--rule", RULE, "--", "true"), FAILED, "--key")
        self.assert_error(run("run", *store, "--rule", RULE, "--key", "k"), FAILED, "COMMAND")
        self.assert_error(run("run", *store, "--rule", "quota:1/1s", "--key", "k", "true"), FAILED,
                          "in-flight")
        self.assert_error(self.run_in_place("true", options=("--lost", "never")), FAILED, "kill")
        self.assert_error(self.run_in_place("true", options=("--nothing",)), FAILED, "--nothing")
        for rule, wanted in (("in-flight:1/999ms", "1s to 1h"), ("in-flight:0/2s", "1 to 1000000000"),
                             ("in-flight:1/1s", "accepted are 1760 ms or more")):
            self.assert_error(self.run_in_place("true", rule=rule), FAILED, wanted)
            self.assert_error(run("take", *store, "--rule", rule, "k"), 2, wanted)
        for command in ("take", "refund"):
            self.assert_error(run(command, *store, "--rule", RULE, self.key), 2, "places of an in-flight rule", '"weir run"')
        self.assert_error(run("run", *store, "true"), FAILED, "run: no rule", "such as in-flight:")
        self.assert_error(run("run", *store), FAILED, "run: no COMMAND; see")
        self.assert_ends(self.run_in_place("true"), 0)

    def test_as_many_run_as_the_rule_says(self):
        first, _ = self.start_writing()
        self.assert_error(self.run_in_place("true"), NO_PLACE, "no place")
        result = self.run_in_place("true", options=("--wait", "200ms", "--quiet"))
        self.assertEqual((result.returncode, result.stderr), (NO_PLACE, b""))
        first.send_signal(signal.SIGTERM)
        self.assertEqual(first.wait(TIMEOUT_S), -signal.SIGTERM)
        self.assert_ends(self.run_in_place("true"), 0)

    def test_who_waits_runs_next(self):
        self.start_writing("sleep 1")
        result = self.run_in_place("echo", "next", options=("--wait", "30s"))
        self.assertEqual((result.returncode, result.stdout), (0, b"next\n"))

    def test_signals_are_passed_on(self):
        process, command = self.start_writing("while :; do sleep 0.05; done", "trap 'exit 9' USR1")
        process.send_signal(signal.SIGUSR1)
        self.assertEqual(process.wait(TIMEOUT_S), 9)
        self.assertFalse(lives(command))

    def test_the_command_dies_with_it(self):
        process, command = self.start_writing()
        process.kill()
        process.wait()
        wait_until(lambda: not lives(command))
        killed = time.monotonic()
        self.run_next()
        self.assertLess(time.monotonic() - killed, 6)

    def test_a_command_that_lost_its_place_is_ended(self):
        process, command = self.start_writing("while :; do sleep 0.05; done", "trap '' TERM")
        process.send_signal(signal.SIGSTOP)
        self.run_next()
        self.assertTrue(lives(command))
        process.send_signal(signal.SIGCONT)
        self.assertEqual(process.wait(TIMEOUT_S), FAILED)
        self.assertIn(b"the place was lost", process.stderr.read())
        self.assertFalse(lives(command))

    def test_a_class_leaves_places_to_others(self):
        rule = "in-flight:2/2s,classes=batch:1"
        batch = ("--class", "batch")
        self.start_writing(rule=rule, options=batch)
        denied = self.run_in_place("true", rule=rule, options=batch)
        self.assertEqual((denied.returncode, said(denied.stderr)), (NO_PLACE, b"weir: run: no place is free\n"))
        self.assertEqual(self.run_in_place("sh", "-c", "exit 7", rule=rule).returncode, 7)
        for options, says in ((("--class", "gold"), b"accepted are batch, or none"),
                              (("--class", "batch", "--wait", "1s"), b"--wait and --class: one of them is accepted")):
            refused = self.run_in_place("true", rule=rule, options=options)
            self.assertEqual(refused.returncode, FAILED)
            self.assertIn(says, refused.stderr)

    def test_a_cost_above_the_limit_never_fits(self):
        began = time.monotonic()
        result = self.run_in_place("true", options=("--cost", "2", "--wait", "30m"))
        self.assert_error(result, FAILED, "--cost 2 never fits: the limit is 1")
        self.assertLess(time.monotonic() - began, TIMEOUT_S)

    def test_or_goes_on_where_that_is_wanted(self):
        process, _ = self.start_writing("sleep 6; exit 4", options=("--lost", "continue"))
        process.send_signal(signal.SIGSTOP)
        self.run_next()
        process.send_signal(signal.SIGCONT)
        self.assertEqual(process.wait(TIMEOUT_S), 4)
        self.assertIn(b"goes on", process.stderr.read())


class OnMemcached(Always, Run):
    store = store_of("WEIR_TEST_MEMCACHED_META")

    def test_the_place_is_held_for_longer_than_a_period(self):
        first, _ = self.start_writing("sleep 5; exit 5")
        while first.poll() is None:
            result = self.run_in_place("true", options=("--quiet",))
            self.assertTrue(result.returncode == NO_PLACE or first.wait(5) == 5, result.stderr)
            time.sleep(0.05)
        self.assertEqual(first.returncode, 5)


class OnRedis(Always, Run):
    store = store_of("WEIR_TEST_REDIS")

    def test_a_command_that_ended_without_its_place_has_failed(self):
        """Both are stopped, as by a lid; another runs, and the command ends before weir looks again."""
        process, command = self.start_writing("sleep 0.1; exit 0")
        process.send_signal(signal.SIGSTOP)
        os.kill(command, signal.SIGSTOP)
        self.run_next()
        os.kill(command, signal.SIGCONT)
        wait_until(lambda: not lives(command))
        process.send_signal(signal.SIGCONT)
        self.assertEqual(process.wait(TIMEOUT_S), FAILED)
        self.assertIn(b"lost before the command had ended", process.stderr.read())

if __name__ == "__main__":
    unittest.main(argv=sys.argv)
