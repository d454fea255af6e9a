"""Traces: what replay prints, and where it stops."""

import gzip
import json
import os
import pty
import signal
import subprocess
import tempfile
import time
import unittest

from program import (NO_DECISION, PROGRAM, RULE, TIMEOUT_S, USAGE, ProgramTest, environment, run,
                     store_that_is_away)

T = 1_800_000_000_000  # ms; a multiple of a minute
TRACE = b"%d a 9\n%d a\n%d a 2\n%d b 11\n%d a 1\n" % (T, T + 1000, T + 2000, T + 2000, T + 60000)
LINES_BEYOND_A_PIPE = 20000  # once they are written, the program has begun to read
MANY_LINES = 10000000  # of a file that takes seconds
EXPECTED = (b"%d\ta\t9\tallowed\t10\t1\t0\t60000000\t0\n"
            b"%d\ta\t1\tallowed\t10\t0\t0\t59000000\t0\n"
            b"%d\ta\t2\tdenied\t10\t0\t58000000\t58000000\t0\n"
            b"%d\tb\t11\tdenied\t10\t-1\t-1\t-1\t0\n"
            b"%d\ta\t1\tallowed\t10\t9\t0\t60000000\t0\n"
            % (T, T + 1000, T + 2000, T + 2000, T + 60000))


def replay(*arguments, **options):
    return run("replay", "--rule", RULE, *arguments, **options)


class Output(ProgramTest):
    def setUp(self):
        handle, self.path = tempfile.mkstemp(prefix="weir-trace-")
        os.close(handle)
        self.addCleanup(os.unlink, self.path)

    def write(self, data):
        with open(self.path, "wb") as file:
            file.write(data)

    def assert_replayed(self, result, expected=EXPECTED):
        self.assert_ends(result, 0)
        self.assertEqual((result.stdout, result.stderr), (expected, b""))

    def test_plain_and_gzip_files_and_stdin_are_alike(self):
        for data in (TRACE, gzip.compress(TRACE), TRACE.replace(b"\n", b"\r\n"), TRACE[:-1]):
            self.write(data)
            self.assert_replayed(replay(self.path))
            self.assert_replayed(replay("-", stdin=data))
            self.assert_replayed(replay(stdin=data))

    def test_an_empty_trace_is_no_error(self):
        self.assert_replayed(replay(stdin=b""), b"")

    def test_fields_may_stand_wide_apart(self):
        self.assert_replayed(replay(stdin=TRACE.replace(b" ", b" \t  ")))

    def test_keys_of_printable_ascii_come_back_as_they_were(self):
        key = bytes(b for b in range(0x21, 0x7f) if b != ord("\\")) + b"k" * 10240
        result = replay(stdin=b"%d %s 1\n" % (T, key))
        self.assert_replayed(result, b"%d\t%s\t1\tallowed\t10\t9\t0\t60000000\t0\n" % (T, key))

    def test_json_has_one_object_a_line_with_the_same_figures(self):
        result = replay("--json", stdin=TRACE + b"%d \xff\n" % T)
        self.assert_ends(result, 0)
        answers = [json.loads(line) for line in result.stdout.splitlines()]
        names = ["time_ms", "key", "cost", "decision", "limit", "remaining", "retry_after_us",
                 "reset_after_us", "delay_us"]
        for answer in answers[:5]:
            self.assertEqual(list(answer), [*names, "source", "rule", "charged", "at_us"])
        rows = ["\t".join(str(answer[name]) for name in names) + "\n" for answer in answers[:5]]
        self.assertEqual("".join(rows).encode(), EXPECTED)
        self.assertEqual(answers[5]["key_base64"], "/w==")

    def test_every_line_of_a_long_trace_is_answered(self):
        lines = 20000
        data = b"".join(b"%d key%d\n" % (T + i, i % 100) for i in range(lines))
        result = replay(stdin=gzip.compress(data))
        self.assert_ends(result, 0)
        self.assertEqual(result.stdout.count(b"\n"), lines)
        self.assertEqual(result.stdout.count(b"\tallowed\t"), 100 * 10)


class BusyMachine(ProgramTest):
    def test_a_process_that_is_held_up_asks_again(self):
        """Every stop outlasts the deadline; without the next try one of the first ends the replay nearly always. One that falls between a charge and its
        answer still may, with an unknown outcome."""
        lines, stops = 100_000, 60
        with tempfile.NamedTemporaryFile() as trace:
            trace.write(b"".join(b"%d key%d\n" % (T + i, i % 100) for i in range(lines)))
            trace.flush()
            with subprocess.Popen([PROGRAM, "replay", "--rule", "sliding-log:100000/1d", "--store", "memory:", "--deadline", "2ms", trace.name],
                                  stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment()) as child:
                for _ in range(stops):
                    child.send_signal(signal.SIGSTOP)
                    time.sleep(0.004)
                    child.send_signal(signal.SIGCONT)
                    time.sleep(0.002)
                    if child.poll() is not None:
                        break
                child.wait(TIMEOUT_S)
                said = child.stderr.read()
                self.assertNotIn(b"before anything was charged", said)
                self.assertEqual((child.returncode, said.count(b"\n")), (NO_DECISION, 1) if b"may or may not count" in said else (0, 0), said)


class Limiter(ProgramTest):
    def test_a_known_denial_is_local_unless_the_store_is_to_be_asked(self):
        trace = b"%d k 10\n%d k\n%d k\n" % (T, T, T)
        for options, expected in (([], "local"), (["--no-local-denial"], "store")):
            result = replay("--json", *options, stdin=trace)
            self.assert_ends(result, 0)
            last = json.loads(result.stdout.splitlines()[2])
            self.assertEqual((last["decision"], last["source"]), ("denied", expected))

    def test_the_clock_error_says_which_backward_steps_are_held_back(self):
        trace = b"%d k 10\n%d k 10\n" % (T, T - 30000)
        for value, decision in (("10ms", b"allowed"), ("60s", b"denied")):
            result = replay("--clock-error", value, stdin=trace)
            self.assert_ends(result, 0)
            self.assertEqual(result.stdout.splitlines()[1].split(b"\t")[3], decision)


class Settles(ProgramTest):
    TRACE = b"0 a ~4\n0 a =6\n0 a ~2\n0 a =9\n1000 a ~1\n1000 a =5\n2000 b ~3\n2000 b =3\n"
    FIELDS = [
        [b"4", b"allowed", b"8", b"4"],
        [b"6", b"settled", b"8", b"2"],
        [b"2", b"allowed", b"8", b"0"],
        [b"5", b"settled", b"8", b"0"],
        [b"1", b"denied", b"8", b"0"],
        [b"0", b"nothing", b"0", b"0"],
        [b"3", b"allowed", b"8", b"5"],
        [b"3", b"settled", b"8", b"5"],
    ]

    def test_what_estimates_really_cost(self):
        for rule in ("quota:8/1m,debt=3", "token-bucket:8/1h,debt=3", "sliding-window:8/1h,strict,debt=3"):
            result = replay("--rule", rule, stdin=self.TRACE)
            self.assert_ends(result, 0)
            lines = [line.split(b"\t")[2:6] for line in result.stdout.splitlines()]
            self.assertEqual(lines, self.FIELDS)

    def test_in_json_what_was_cut(self):
        result = replay("--json", "--rule", "quota:8/1m,debt=3", stdin=self.TRACE)
        self.assert_ends(result, 0)
        given = json.loads(result.stdout.splitlines()[3])
        self.assertEqual((given["cost"], given["real"], given["charged"], given["cut"]), (2, 9, 5, 4))

    def test_a_rule_that_cannot_be_settled_says_so(self):
        result = replay("--rule", "leaky-bucket:8/1m,queue=7", stdin=self.TRACE)
        self.assertEqual(result.returncode, 2)
        self.assertIn(b"leaky-bucket", result.stderr)


class Holds(ProgramTest):
    TRACE = b"0 a 2\n1000 a\n2000 b\n60000 a leave\n60000 a\n60001 a leave\n60002 a leave\n"
    FIELDS = [
        [b"2", b"allowed", b"2", b"0"],
        [b"1", b"denied", b"2", b"0"],
        [b"1", b"allowed", b"2", b"1"],
        [b"2", b"released", b"0", b"0"],
        [b"1", b"allowed", b"2", b"1"],
        [b"1", b"released", b"0", b"0"],
        [b"0", b"released", b"0", b"0"],
    ]

    def test_what_is_in_flight_until_it_leaves(self):
        result = run("replay", "--rule", "in-flight:2/2m", stdin=self.TRACE)
        self.assert_ends(result, 0)
        self.assertEqual([line.split(b"\t")[2:6] for line in result.stdout.splitlines()], self.FIELDS)

    def test_what_a_trace_leaves_inside_is_gone_after_it(self):
        for _ in range(2):
            result = run("replay", "--rule", "in-flight:1/2m", stdin=b"0 a\n400000 b\n")
            self.assert_ends(result, 0)
            self.assertEqual(result.stdout.count(b"allowed"), 2)

    def test_leaving_is_of_held_rules_alone(self):
        result = run("replay", "--rule", "quota:2/1m", stdin=b"0 a leave\n")
        self.assert_error(result, USAGE, "weir: stdin:1: ", "in-flight")


class Stops(ProgramTest):
    def assert_stops(self, bad, *named, name="stdin:3: "):
        """Two good lines, a bad one, a good one: two answers."""
        good = TRACE.splitlines(keepends=True)
        result = replay(stdin=good[0] + good[1] + bad + b"\n" + good[2])
        self.assert_error(result, USAGE, "weir: " + name, *named)
        self.assertEqual(result.stdout, b"".join(EXPECTED.splitlines(keepends=True)[:2]))

    def test_at_the_first_malformed_line_and_names_it(self):
        form = "TIME_MS KEY [COST]"
        self.assert_stops(b"", "blank line", form)
        self.assert_stops(b"  \t", "blank line", form)
        self.assert_stops(b"# remark", 'TIME_MS "#"')
        self.assert_stops(b"noon k 1", 'TIME_MS "noon"', "0 to 253402300799999")
        self.assert_stops(b"-5 k 1", 'TIME_MS "-5"')
        self.assert_stops(b"253402300800000 k 1", 'TIME_MS "253402300800000"')
        self.assert_stops(b"1", "no KEY", form)
        self.assert_stops(b"1 k 1 x", '"x"', form)
        self.assert_stops(b"1 a\0b 1", "NUL", form)

    def test_at_a_cost_out_of_range(self):
        for cost in (b"0", b"-1", b"12x", b"2147483649", b"9" * 30):
            self.assert_stops(b"1 k " + cost, f'COST "{cost.decode()}"', "1 to 2147483648")

    def test_at_a_line_that_is_too_long(self):
        self.assert_stops(b"1 " + b"k" * 65535, "too long", "65536")
        self.assert_stops(b"1 " + b"k" * 1_000_000, "too long")

    def test_with_an_error_that_stays_on_one_line(self):
        self.assert_stops(b"\x1b[2J\r\x07 k", 'TIME_MS "\\x1b[2J\\x0d\\x07"')

    def test_where_gzip_data_ends_or_is_corrupt(self):
        data = gzip.compress(TRACE)
        self.assert_error(replay(stdin=data[:-9]), USAGE, "stdin:", "cut short")
        self.assert_error(replay(stdin=data[:-8] + b"....." + data[-3:]), USAGE, "corrupt")

    def test_at_a_file_that_cannot_be_read(self):
        self.assert_refused(replay("/nonexistent/t.gz"), "/nonexistent/t.gz", os.strerror(2))
        self.assert_refused(replay("/tmp"), "/tmp", os.strerror(21))
        self.assert_refused(replay(""), os.strerror(2))

    def test_when_the_store_is_away(self):
        result = run("replay", "--store", store_that_is_away(), "--rule", RULE, stdin=TRACE)
        self.assert_error(result, NO_DECISION, "stdin:1: ", "cannot be reached")
        self.assertEqual(result.stdout, b"")

    def test_when_the_output_is_lost(self):
        long_trace = b"".join(b"%d k\n" % (T + i) for i in range(10000))
        for trace in (TRACE, long_trace, TRACE + b"malformed\n"):
            with open("/dev/full", "wb") as full:
                self.assert_error(replay(stdin=trace, stdout=full), NO_DECISION,
                                  "the output cannot be written", os.strerror(28))

    def test_at_lost_output_without_reading_the_rest(self):
        with open("/dev/full", "wb") as full, subprocess.Popen(
                [PROGRAM, "replay", "--rule", RULE], stdin=subprocess.PIPE, stdout=full,
                stderr=subprocess.DEVNULL, env=environment()) as child:
            with self.assertRaises(BrokenPipeError):
                for _ in range(200_000):  # bounded, in case it reads on
                    child.stdin.write(TRACE)
            self.assertEqual(child.wait(TIMEOUT_S), NO_DECISION)
            with self.assertRaises(BrokenPipeError):
                child.stdin.close()

    def test_when_nobody_reads_on(self):
        reader, writer = os.pipe()
        os.close(reader)
        with open(writer, "wb") as pipe:
            self.assert_error(replay(stdin=TRACE, stdout=pipe), NO_DECISION, os.strerror(32))


def until_progress(*arguments, stdin=subprocess.DEVNULL):
    """The first text of weir on the terminal that stderr is; it is ended then, as its work is long."""
    reader, writer = pty.openpty()
    with subprocess.Popen([PROGRAM, *arguments], stdin=stdin, stdout=subprocess.DEVNULL, stderr=writer,
                          env=environment()) as child:
        os.close(writer)
        try:
            return os.read(reader, 4096)
        except OSError:  # it has ended
            return b""
        finally:
            os.close(reader)
            child.kill()


class Progress(ProgramTest):
    def stderr_of(self, lines, pause_s, terminal=True):
        """The text of replay on stderr while its trace comes in two parts."""
        reader, writer = pty.openpty() if terminal else os.pipe()
        with subprocess.Popen([PROGRAM, "replay", "--rule", RULE], stdin=subprocess.PIPE,
                              stdout=subprocess.DEVNULL, stderr=writer,
                              env=environment()) as child:
            os.close(writer)
            child.stdin.write(b"%d key\n" % T * lines)
            child.stdin.flush()
            time.sleep(pause_s)
            child.stdin.write(TRACE)
            child.stdin.close()
            self.assertEqual(child.wait(TIMEOUT_S), 0)
        try:
            return os.read(reader, 4096)
        except OSError:  # a terminal without anything to read whose other end is closed
            return b""
        finally:
            os.close(reader)

    def test_work_of_over_a_second_shows_on_a_terminal_and_is_wiped(self):
        written = self.stderr_of(LINES_BEYOND_A_PIPE, 1.5)
        self.assertRegex(written, rb"\A\r[0-9]+ lines, [0-9]+ lines/s\x1b\[K")
        self.assertTrue(written.endswith(b"\r\x1b[K"), written)

    def test_of_a_file_it_says_how_much_is_left(self):
        """A compressed one, from stdin: of what it takes on the disk."""
        with tempfile.TemporaryFile() as trace:
            trace.write(gzip.compress(b"%d key\n" % T * MANY_LINES, 1))
            trace.seek(0)
            written = until_progress("replay", "--rule", RULE, stdin=trace)
        self.assertRegex(written, rb"\A\r[0-9]+ lines, [0-9]+ lines/s, [0-9]+%, [0-9]+ (s|min) left\x1b\[K")

    def test_short_work_stays_silent(self):
        """On a busy machine it may not be short, so there are several tries."""
        self.assertTrue(any(self.stderr_of(1, 0) == b"" for _ in range(20)))

    def test_what_is_no_terminal_sees_nothing(self):
        self.assertEqual(self.stderr_of(LINES_BEYOND_A_PIPE, 1.5, terminal=False), b"")


if __name__ == "__main__":
    unittest.main()
