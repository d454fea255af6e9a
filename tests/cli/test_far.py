"""Stores that are far away: commands connect ahead, and decide with the deadline that all processes share."""

import json
import pathlib
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "fixture"))

from doctor import Server, eventually
from far import Far
from program import ALLOWED, NO_DECISION, ProgramTest, run

KINDS = ("memcached", "redis")
TAKES = 10
TRIES = 8  # of each, on a machine that is busy with something else
NEAR_S = 0.006  # each way: within a deadline of 20 ms
PERHAPS_DONE = 4
FAR_S = 0.015  # each way: a round trip of 30 ms is not


class Distance(ProgramTest):
    def setUp(self):
        self.key = "%s-%d" % (self.id(), time.time_ns())

    def take(self, store, rule, *options, command="take"):
        return run(command, *options, "--store", store, "--rule", rule, self.key)


class FirstDecision(Distance):
    def test_a_single_request_has_its_deadline_for_itself(self):
        """All are decided on a quiet machine, and none where the greeting takes the time."""
        for kind in KINDS:
            with self.subTest(kind), Server(kind) as server, Far(server.url, NEAR_S) as far:
                left = TAKES
                for _ in range(TRIES * TAKES):
                    end = self.take(far.url(), "sliding-window:1000/1h")
                    left -= (end.returncode, end.stderr) == (ALLOWED, b"")
                    if left == 0:
                        break
                self.assertEqual(left, 0, end.stderr)

    def test_every_command_connects_ahead(self):
        rule = "fixed-window:10/400d"
        with Server("redis") as server, Far(server.url, NEAR_S) as far:
            def ask_all():
                taken = self.take(far.url(), rule, "--json")
                self.assertEqual(taken.returncode, ALLOWED, taken.stderr)
                at_us = json.loads(taken.stdout)["at_us"]
                refund = ["--at", str(at_us), "--deadline", "60ms"]  # reads first: two round trips
                for command, options in (("peek", []), ("refund", refund), ("reset", [])):
                    end = self.take(far.url(), rule, *options, command=command)
                    self.assertEqual((end.returncode, end.stderr), (0, b""), command)
            eventually(ask_all)

    def test_a_benchmark_begins_on_a_connection(self):
        with Server("memcached") as server, Far(server.url, NEAR_S) as far:
            def measure():
                end = run("bench", "--json", "--store", far.url(), "--rule", "fixed-window:10/1h", "--keys", "1",
                          "--duration", "200ms", "--rounds", "2")
                self.assertEqual((end.returncode, end.stderr), (0, b""))
            eventually(measure)


class TooFar(Distance):
    def test_the_message_names_the_time_that_would_do(self):
        for kind in KINDS:
            with self.subTest(kind), Server(kind) as server, Far(server.url, FAR_S) as far:
                result = self.take(far.url(), "sliding-window:1000/1h")
                self.assert_error(result, NO_DECISION, "a round trip takes ", "the deadline is 20ms", "in every process")
                told = result.stderr.decode().split("timeout=")[1].split("ms ")[0]
                self.assertGreaterEqual(int(told), 160)  # four round trips in three quarters
                again = self.take(far.url(f"timeout={told}ms"), "sliding-window:1000/1h")
                self.assert_ends(again, ALLOWED)

    def test_what_may_have_been_charged_is_told_apart(self):
        rule = "quota:100/1d,debt=50"
        for kind in KINDS:
            with self.subTest(kind), Server(kind) as server, Far(server.url, FAR_S) as far:
                settle = ["--cost", "10", "--real", "30"]
                sent = self.take(far.url("timeout=20ms"), rule, *settle, command="settle")
                self.assert_error(sent, PERHAPS_DONE, "may or may not count")
                self.assert_ends(self.take(server.url, rule, *settle, command="settle"), 0)
                url = server.url
            gone = self.take(url, rule, *settle, command="settle")
            self.assert_error(gone, NO_DECISION, "nothing was charged")

    def test_a_deadline_of_its_own_is_named_as_such(self):
        with Server("redis") as server, Far(server.url, FAR_S) as far:
            result = self.take(far.url(), "quota:9/1h", "--deadline", "25ms")
            self.assert_error(result, NO_DECISION, "the deadline is 25ms", "--deadline 1")

    def test_a_store_that_is_away_is_not_called_far(self):
        with Server("redis") as server:
            server.order("kill")
            result = self.take(server.url, "quota:9/1h")
            self.assert_error(result, NO_DECISION, "Connection refused")
            self.assertNotIn(b"round trip", result.stderr)


class Replay(Distance):
    def test_a_trace_has_time_for_stores_far_away(self):
        trace = b"".join(b"%d %s-%d\n" % (1_800_000_000_000 + i, self.key.encode(), i % 2) for i in range(6))
        for kind in KINDS:
            for rule in ("quota:2/1h", "sliding-log:2/1h", "token-bucket:2/1h"):
                with self.subTest(kind, rule=rule), Server(kind) as server, Far(server.url, FAR_S) as far:
                    options = ["--rule", rule, "--store"]
                    there = run("replay", *options, far.url("namespace=there"), stdin=trace)
                    here = run("replay", *options, "memory:", stdin=trace)
                    self.assertEqual((there.returncode, there.stderr), (0, b""))
                    self.assertEqual(there.stdout, here.stdout)

    def test_its_own_deadline_is_nothing_to_warn_of(self):
        for rule, warnings in (("sliding-window:100/1s", 0), ("sliding-window:100/10ms", 1)):
            result = run("replay", "--store", "memory:", "--rule", rule, stdin=b"0 k\n")
            self.assertEqual(result.returncode, 0)
            self.assertEqual(result.stderr.count(b"warning"), warnings, result.stderr)


if __name__ == "__main__":
    unittest.main()
