"""weir bench: counts that do not depend on how busy the machine is, and what it refuses."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cli"))
from program import PROGRAM, ProgramTest, environment, run  # noqa: E402

MEMCACHED = os.environ.get("WEIR_TEST_MEMCACHED_META", "")
CLASSIC = os.environ.get("WEIR_TEST_MEMCACHED_CLASSIC", "")
REDIS = os.environ.get("WEIR_TEST_REDIS", "")
WINDOW = "sliding-window:1000000000/1h"
BRIEF = ["--duration", "100ms", "--rounds", "2", "--deadline", "10s"]


class Bench(ProgramTest):
    def bench(self, *options):
        result = run("bench", *BRIEF, *options)
        self.assertEqual((result.returncode, result.stderr), (0, b""))
        return result.stdout.decode()

    def lines(self, *options):
        return [json.loads(line) for line in self.bench("--json", *options).splitlines()]

    def test_stores_and_their_raw_loops_are_counted_by_their_servers(self):
        # A sliding window reads the cell before as well while that may still change.
        found = self.lines("--rule", "fixed-window:1000000000/1d", "--baseline", "--keys", "10",
                           "--store", MEMCACHED, "--store", CLASSIC, "--store", REDIS, "--store",
                           "memory:")
        self.assertEqual([line["raw_loop"] for line in found],
                         [False, True, False, True, False, True, False])
        commands = [line["median"]["commands_per_decision"] for line in found]
        for number, wanted in ((0, 1), (1, 1), (2, 1), (3, 1), (4, 2), (5, 1)):
            self.assertTrue(wanted <= commands[number] < wanted + 0.2, (number, commands))
        self.assertIsNone(commands[6])
        for line in found:
            self.assertGreater(line["median"]["decisions_per_second"], 0)
            self.assertEqual(len(line["rounds"]), 2)
            self.assertEqual("ratio_to_raw_loop" in line, line["store"] != "memory:" and
                             not line["raw_loop"])

    def test_a_raw_pair_is_two_commands_on_redis_alone(self):
        found = self.lines("--rule", WINDOW, "--baseline-pair", "--batch", "8", "--keys", "80",
                           "--store", MEMCACHED, "--store", REDIS)
        self.assertEqual([(line["raw_loop"], line["raw_pair"]) for line in found],
                         [(False, False), (True, False), (False, False), (True, True)])
        for line, wanted in ((found[1], 1), (found[3], 2)):
            self.assertTrue(wanted <= line["median"]["commands_per_decision"] < wanted + 0.2, line)
        text = self.bench("--rule", WINDOW, "--baseline-pair", "--keys", "80", "--store", MEMCACHED, "--store", REDIS)
        self.assertIn("  raw loop of pairs", text)

    def test_what_is_answered_locally_is_said(self):
        told = "was answered locally, without the store"
        over = ["--rule", "fixed-window:1/1d", "--keys", "10", "--store", "memory:"]
        found = self.bench(*over)
        self.assertRegex(found, r"\n\n(9\d|100)% of what was counted at memory:\n" + told + ":\nmore --keys")
        self.assertLessEqual(max(map(len, found.splitlines())), 80)
        self.assertNotIn(told, self.bench(*over, "--no-local-denial"))
        self.assertNotIn(told, self.bench("--rule", WINDOW, "--store", "memory:"))
        leased = self.bench("--rule", WINDOW + ",lease=100ms", "--keys", "1", "--store", "memory:")
        self.assertIn(told + ", mostly from what was leased", leased)

    def test_a_hot_key_over_its_limit_is_answered_locally(self):
        line = self.lines("--rule", "quota:5/1d", "--hot", "--store", MEMCACHED)[0]["median"]
        self.assertGreater(line["local_share"], 0.9)
        self.assertLess(line["commands_per_decision"], 0.1)
        self.assertEqual(line["admitted"], 5)
        self.assertGreaterEqual(line["allowed"], 5)

    def test_places_are_entered_and_left(self):
        # Commands are of entering and of leaving, on Redis 6 where the key is empty in between; twice as many
        # before the end of a period.
        found = self.lines("--rule", "in-flight:10/2m", "--keys", "10", "--baseline", "--store", MEMCACHED, "--store", REDIS)
        for line, least, most in ((found[0], 2, 4.3), (found[2], 5, 12.3)):
            self.assertTrue(least <= line["median"]["commands_per_decision"] < most, line)
            self.assertIsNone(line["median"]["allowed"])
            self.assertGreater(line["median"]["admitted"], 0)
        line = self.lines("--rule", "in-flight:10/2m,lease=1s", "--hot", "--store", MEMCACHED)[0]["median"]
        self.assertGreater(line["local_share"], 0.9)
        self.assertLess(line["commands_per_decision"], 0.1)

    def test_processes_and_threads_share_one_limit(self):
        # Few enough for the busiest machine to ask for all of them in the time of a round.
        line = self.lines("--rule", "token-bucket:10/1d", "--hot", "--processes", "3", "--threads",
                          "2", "--store", REDIS)[0]
        self.assertEqual(line["median"]["admitted"], 10)
        self.assertEqual((line["processes"], line["threads"]), (3, 2))

    def test_a_hot_key_with_leases_needs_few_commands(self):
        for rule in (WINDOW, "quota:1000000000/1h", "token-bucket:1000000000/1h"):
            for store in (MEMCACHED, REDIS):
                with self.subTest(rule, store=store):
                    line = self.lines("--rule", rule + ",lease=1s", "--hot", "--processes", "2",
                                      "--store", store)[0]["median"]
                    self.assertGreater(line["local_share"], 0.9)
                    self.assertLess(line["commands_per_decision"], 0.1)
                    self.assertGreater(line["leased"], 0)
                    self.assertGreater(line["lease_used"], 0)
                    self.assertLessEqual(line["lease_used"], line["admitted"])

    def test_leases_are_shown_where_the_rule_has_some(self):
        names = ("leased", "lease_used", "lease_returned", "lease_lost")
        rule = WINDOW + ",lease=100ms"
        for options, known in (((rule,), True), ((rule, "--no-leases"), False), ((WINDOW,), False)):
            with self.subTest(options):
                found = self.lines("--hot", "--store", MEMCACHED, "--rule", *options)[0]
                for name in names:
                    self.assertEqual(found["median"][name] is not None, known)
                title = self.bench("--hot", "--store", MEMCACHED, "--rule", *options)
                shown = [name in title.split() for name in ("leased", "used", "returned", "lost")]
                self.assertEqual(shown, [known] * 4)

    def test_a_batch_is_one_round_trip(self):
        line = self.lines("--rule", WINDOW, "--batch", "50", "--keys", "500", "--store", MEMCACHED)[0]
        self.assertAlmostEqual(line["median"]["round_trips_per_decision"], 1 / 50, places=3)

    def test_the_table_shows_neither_passwords_nor_options(self):
        url = REDIS.replace("redis://", "redis://:se%40cret@") + "?timeout=9s"
        result = run("bench", *BRIEF, "--rule", WINDOW, "--store", url)
        self.assertEqual(result.returncode, 3)  # this server has no password
        self.assertNotIn(b"cret", result.stdout + result.stderr)
        text = self.bench("--rule", WINDOW, "--store", MEMCACHED + "&timeout=9s", "--zipf")
        self.assertIn("by zipf", text)
        self.assertNotIn("timeout", text)

    def test_the_table_fits_a_terminal(self):
        for line in self.bench("--rule", WINDOW + ",lease=100ms", "--store", MEMCACHED, "--baseline").splitlines():
            self.assertLessEqual(len(line), 80, line)

    def test_what_was_finished_before_an_interrupt_is_told(self):
        for json_or_not in ([], ["--json"]):
            with subprocess.Popen([PROGRAM, "bench", "--store", "memory:", "--rule", WINDOW, "--duration", "60s",
                                   "--rounds", "100", *json_or_not], stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, env=environment()) as bench:
                time.sleep(4)
                bench.send_signal(signal.SIGINT)
                output, errors = bench.communicate(timeout=30)
                self.assertEqual((bench.returncode, errors), (0, b""))
                if json_or_not:
                    self.assertIn(len(json.loads(output)["rounds"]), range(1, 99))
                else:
                    self.assertRegex(output, rb"medians of \d+ turns of 0.60 s; stopped before all 100 were done")

    def test_a_plot_that_cannot_be_written_is_refused_before_the_run(self):
        for path in ("/nowhere/there/a.svg", tempfile.gettempdir() + "/."):
            begin = time.monotonic()
            result = run("bench", "--duration", "60s", "--store", "memory:", "--rule", WINDOW, "--plot", path)
            self.assert_refused(result, "--plot")
            self.assertLess(time.monotonic() - begin, 30)
            self.assert_refused(run("simulate", "--rule", WINDOW, "--generate", "uniform:requests=2000000000",
                                    "--plot", path), "--plot")

    def test_figures_are_drawn(self):
        with tempfile.TemporaryDirectory() as folder:
            for name, begin in (("a.svg", b"<?xml"), ("a.png", b"\x89PNG")):
                path = os.path.join(folder, name)
                self.bench("--rule", WINDOW, "--store", "memory:", "--plot", path)
                with open(path, "rb") as picture:
                    self.assertEqual(picture.read(len(begin)), begin)

    def test_bad_input_is_named(self):
        for options, part in (
            (["--threads", "0"], "--threads"),
            (["--threads", "257"], "--threads"),
            (["--processes", "65"], "--processes"),
            (["--keys", "1000001"], "--keys"),
            (["--batch", "1025"], "--batch"),
            (["--rounds", "102"], "--rounds"),
            (["--duration", "99ms"], "--duration"),
            (["--duration", "100ms", "--rounds", "6"], "--duration"),
            (["--hot", "--zipf"], "--zipf"),
            (["--plot", "a.gif"], "a.gif"),
            (["--rule", "fixed-window:1/1s"], "one --rule"),
            (["--store", "nowhere:"], "nowhere"),
            (["KEY"], "KEY"),
            (["--cost", "2"], "--cost"),
        ):
            with self.subTest(options):
                result = run("bench", "--rule", WINDOW, *options)
                self.assertEqual(result.returncode, 2)
                self.assertIn(part, result.stderr.decode())
                self.assertEqual(result.stderr.count(b"\n"), 1)

    def test_requests_say_their_class_and_tenant(self):
        # Of 1000 keys two: a batch that is asked in the plain way would be admitted up to all of the limit.
        for more in ([], ["--batch", "2"]):
            line = self.lines("--rule", "fixed-window:1000000/1d,classes=low:10", "--keys", "2", "--class", "low", *more,
                              "--store", "memory:", "--store", MEMCACHED)
            self.assertEqual([one["class"] for one in line], ["low", "low"])
            for one in line:
                self.assertLessEqual(one["median"]["admitted"], 20)  # 10 of each key, most of them before the clock runs
        held = self.lines("--rule", "in-flight:5/90s,classes=low:4", "--keys", "2", "--class", "low", "--store", "memory:")
        self.assertGreater(held[0]["median"]["admitted"], 0)
        shares = ["--rule", "shared-window:60000000/800s,cells=8,weights=a:1|b:1", "--tenant", "a", "--keys", "3"]
        for more in ([], ["--batch", "3"]):
            line = self.lines(*shares, *more, "--store", "memory:", "--store", REDIS)
            self.assertEqual([one["tenant"] for one in line], ["a", "a"])
            for one in line:
                self.assertGreater(one["median"]["admitted"], 0)
        self.assertIn(", one tenant", self.bench(*shares, "--store", "memory:"))

    def test_what_is_said_wrongly_is_named(self):
        for options, said in ((["--class", "gold", "--rule", "quota:5/1d,classes=low:1"], b"accepted are low, or none"),
                              (["--tenant", "a", "--rule", "quota:5/1d"], b"this rule has no tenants"),
                              (["--rule", "shared-window:60000/800s,cells=8,weights=a:1"], b"accepted are --tenant NAME"),
                              (["--class", "a", "--via", "redis://127.0.0.1:1/api"], b"bench --class: --via does not go")):
            result = run("bench", *BRIEF, *options)
            self.assertEqual(result.returncode, 2, result.stderr)
            self.assertIn(said, result.stderr)

    def test_a_batch_of_places_is_refused(self):
        self.assert_refused(run("bench", "--rule", "in-flight:1/10s", "--batch", "2"), "a batch of 2 places")

    def test_a_store_that_is_away_ends_it(self):
        result = run("bench", *BRIEF, "--rule", WINDOW, "--store", "memcached://127.0.0.1:1")
        self.assertEqual(result.returncode, 3)
        self.assertIn(b"127.0.0.1:1", result.stderr)
        self.assertEqual(result.stdout, b"")


if __name__ == "__main__":
    unittest.main()
