"""Truths about every rule, and how several rules become one decision."""

import copy
import random
import unittest

import oracle
from cases import NEVER, SECOND, Case
from rules import Malformed, parse_rule, parse_rules


class Clock(Case):
    def test_small_backward_steps_are_held_and_large_ones_believed(self):
        self.check(
            "fixed-window:1/1s",
            (5_000, 1, (True, 0, 0, SECOND)),
            (4_500, 2, NEVER),
            (4_000, 1, (False, 0, SECOND, SECOND)),
            (3_999, 1, (True, 0, 0, 1_000)),
            (4_999, 1, (True, 0, 0, 1_000)),
            (5_000, 1, (False, 0, SECOND, SECOND)),
        )

    def test_request_that_can_never_fit_moves_the_guard_as_well(self):
        self.check(
            "fixed-window:1/1s", (5_000, 2, NEVER), (4_500, 1, (True, 0, 0, SECOND))
        )

    def test_clock_error_widens_the_guard(self):
        steps = (5_000, 1, (True, 0, 0, SECOND)), (3_000, 1, (False, 0, SECOND, SECOND))
        self.check("fixed-window:1/1s", *steps, clock_error_us=2 * SECOND)


class Stacks(Case):
    def decisions(self, text, *requests):
        """Decides (time_ms, cost), under one key."""
        requests = [(time_ms, b"k", cost) for time_ms, cost in requests]
        return [decision for _, decision in oracle.replay(parse_rules(text), requests)]

    def test_the_rule_that_denies_longest_speaks(self):
        self.assertEqual(
            self.decisions("fixed-window:2/1s;fixed-window:2/10s", (0, 2), (0, 1), (1_000, 1)),
            [
                (True, 2, 0, 0, 10 * SECOND, 0, 0),
                (False, 2, 0, 10 * SECOND, 10 * SECOND, 0, 1),
                (False, 2, 0, 9 * SECOND, 9 * SECOND, 0, 1),
            ],
        )

    def test_an_admitted_request_hears_the_rule_with_least_left(self):
        self.assertEqual(
            self.decisions("fixed-window:9/1s;token-bucket:4/1s;quota:3/1m", (0, 1), (900, 1)),
            [(True, 3, 2, 0, 60 * SECOND, 0, 2), (True, 3, 1, 0, 59_100_000, 0, 2)],
        )

    def test_a_log_knows_no_remaining_and_leaves_the_word_to_others(self):
        both = "sliding-log:1/1s;fixed-window:900/1s"
        self.assertEqual(
            self.decisions(both, (0, 1), (400, 1), (1_000, 1)),
            [
                (True, 900, 899, 0, SECOND, 0, 1),
                (False, 1, -1, 600_000, 600_000, 0, 0),
                (True, 900, 899, 0, SECOND, 0, 1),
            ],
        )

    def test_what_one_rule_denies_is_charged_to_none(self):
        self.assertEqual(
            self.decisions("quota:5/1m;token-bucket:1/10s", (0, 1), (5_000, 1), (10_000, 1)),
            [
                (True, 1, 0, 0, 60 * SECOND, 0, 1),
                (False, 1, 0, 5 * SECOND, 55 * SECOND, 0, 1),
                (True, 1, 0, 0, 50 * SECOND, 0, 1),
            ],
        )

    def test_a_denied_request_opens_no_quota(self):
        answers = self.decisions("quota:1/1m;leaky-bucket:1/1d", (0, 1), (70_000, 1))
        day = 86_400 * SECOND
        self.assertEqual(answers[0], (True, 1, 0, 0, day, 0, 0))
        self.assertEqual(answers[1], (False, 1, 0, day - 70 * SECOND, day - 70 * SECOND, 0, 1))
        key = oracle.Key(parse_rules("quota:1/1m;leaky-bucket:1/1d"), 0, 0)
        key.decide(0, 1), key.decide(70 * SECOND, 1)
        self.assertEqual(key.algorithms[0].find(70 * SECOND, opens=False), None)

    def test_windows_that_count_everything_count_what_another_denies(self):
        text = "fixed-window:1/1s;fixed-window:3/1m,count=all"
        self.assertEqual(
            self.decisions(text, (0, 1), (0, 1), (0, 1), (0, 1)),
            [
                (True, 1, 0, 0, 60 * SECOND, 0, 0),
                (False, 1, 0, SECOND, 60 * SECOND, 0, 0),
                # now full itself: the same request would not fit a second later
                (False, 3, 0, 60 * SECOND, 60 * SECOND, 0, 1),
                (False, 3, 0, 60 * SECOND, 60 * SECOND, 0, 1),
            ],
        )

    def test_a_cost_above_any_capacity_is_never_charged(self):
        text = "fixed-window:5/1s,count=all;fixed-window:2/1s,hold=9ms;fixed-window:1/1m,count=all"
        never, fits = self.decisions(text, (0, 3), (0, 1))
        self.assertEqual(never, (False, 2, -1, -1, -1, 9_000, 1))
        self.assertEqual(fits, (True, 1, 0, 0, 60 * SECOND, 0, 2))

    def test_the_longest_hold_of_those_that_deny_is_the_delay(self):
        holds = "fixed-window:2/1s,hold=5ms;fixed-window:3/1s,hold=7ms;fixed-window:9/1s,hold=1m"
        delays = [d.delay_us for d in self.decisions(holds, (0, 2), (0, 1), (0, 2), (1_000, 1))]
        self.assertEqual(delays, [0, 5_000, 7_000, 0])

    def test_the_longest_queue_is_the_delay_of_the_admitted(self):
        queues = "leaky-bucket:1/1s,queue=5;leaky-bucket:1/2s,queue=5,hold=3ms"
        delays = [d.delay_us for d in self.decisions(queues, *[(0, 1)] * 7)]
        self.assertEqual(delays, [n * 2 * SECOND for n in range(6)] + [3_000])

    def test_a_stack_is_its_rules_asked_one_by_one(self):
        text = "token-bucket:9/1s;sliding-window:40/7s,hold=1ms;quota:60/20s;leaky-bucket:2/1s,queue=40"
        draw, now = random.Random(1), 1_000_000
        together = oracle.Key(parse_rules(text), 20_000, 10_000)
        alone = [oracle.Key([rule], 20_000, 10_000) for rule in parse_rules(text)]
        speakers = set()
        for _ in range(2_000):
            now += draw.choice((0, 1, 30_000, 400_000, 2_000_000))
            cost = draw.choice((1, 1, 2, 5))
            trials = copy.deepcopy(alone)
            asked = [key.decide(now, cost) for key in trials]
            given = together.decide(now, cost)
            self.assertEqual(given.allowed, all(d.allowed for d in asked))
            self.assertEqual(given.retry_after_us, max(d.retry_after_us for d in asked))
            spoken = asked[given.rule]
            self.assertEqual(given.remaining, spoken.remaining)
            speakers.add((given.allowed, given.rule))
            if given.allowed:
                alone = trials
                self.assertEqual(given.remaining, min(d.remaining for d in asked))
                self.assertEqual(given.reset_after_us, max(d.reset_after_us for d in asked))
                self.assertEqual(given.delay_us, max(d.delay_us for d in asked))
        self.assertGreater(len(speakers), 5)

    def test_retry_of_a_stack_is_what_trying_finds(self):
        self.check_by_trying("fixed-window:5/1ms;token-bucket:7/1ms;sliding-window:9/2ms,cells=8")
        self.check_by_trying("quota:5/1ms;leaky-bucket:7/1ms,queue=5;sliding-window:9/1ms,strict")
        self.check_by_trying("fixed-window:6/1ms,count=all;sliding-window:9/2ms,count=all")


class Text(unittest.TestCase):
    def test_lines_have_the_format_of_replay(self):
        rules = parse_rules("fixed-window:1/1s")
        requests = oracle.read_requests(b"7 a\n8 \xc3\xa4%{ 1\n9 b 2\n")
        lines = [oracle.format_line(*pair) for pair in oracle.replay(rules, requests)]
        self.assertEqual(
            lines,
            [
                b"7\ta\t1\tallowed\t1\t0\t0\t993000\t0\n",
                b"8\t\\xc3\\xa4%{\t1\tallowed\t1\t0\t0\t992000\t0\n",
                b"9\tb\t2\tdenied\t1\t-1\t-1\t-1\t0\n",
            ],
        )

    def test_malformed_lines_are_refused(self):
        for line in (b"", b"1", b"x k", b"1 k x", b"1 k 0", b"1 k 2147483649", b"1 k 1 1", b"-1 k"):
            with self.subTest(line=line), self.assertRaises(Malformed):
                oracle.parse_line(line, 1)

    def test_malformed_rules_are_refused(self):
        malformed = (
            "fixed-window:1/1",
            "fixed-window:0/1s",
            "fixed-window:1/401d",
            "fixed-window:1/1s,strict",
            "fixed-window:1/1s,hold=0ms",
            "fixed-window:1/1s,hold=61s",
            "fixed-window:1/1s,count=some",
            "quota:1/1s,lease=0ms",
            "quota:1/1s,lease=1001ms",
            "fixed-window:1/1s,count=all,lease=1s",
            "sliding-log:1/1s,lease=1s",
            "leaky-bucket:1/1s,lease=1s",
            "token-bucket:20/1s,burst=20,lease=251ms",
            "token-bucket:1/1s,burst=1,lease=1ms",
            "quota:1/1s,lease=1s;fixed-window:1/1s",
            "sliding-window:1/s,cells=3",
            "sliding-log:100001/1s",
            "sliding-log:1/1s,count=all",
            "quota:1/1s,burst=2",
            "token-bucket:1/1s,burst=0",
            "token-bucket:1/1s,burst=2,burst=2",
            "token-bucket:1/400d,burst=2",
            "token-bucket:1/1s,queue=1",
            "leaky-bucket:1/1d,queue=400",
            "leaky-bucket:1/1s,burst=1",
            "sliding-log:1/1s;quota:1/1s;sliding-log:2/1s",
            "quota:1/1s,count=all;fixed-window:1/1s",
            "token-bucket:1/1s;fixed-window:1/1s,count=all",
            "fixed-window:1/1s;",
            ";".join(f"fixed-window:1/{n}s" for n in range(1, 10)),
        )
        for text in malformed:
            with self.subTest(rule=text), self.assertRaises(Malformed):
                parse_rules(text)

    def test_capacities_are_what_fits_at_once(self):
        capacities = {
            "quota:7/1m": 7,
            "sliding-log:7/1m": 7,
            "token-bucket:7/1m": 7,
            "token-bucket:7/1m,burst=9": 9,
            "leaky-bucket:7/1m": 1,
            "leaky-bucket:7/1m,queue=9": 10,
            "token-bucket:1/400d": 1,
        }
        for text, capacity in capacities.items():
            self.assertEqual(parse_rule(text).capacity, capacity)

    def test_a_log_takes_requests_one_by_one(self):
        rules = parse_rules("fixed-window:2/1s;sliding-log:9/1s")
        with self.assertRaisesRegex(Malformed, r"cost 3 for rule 2 \(sliding-log\): accepted is 1"):
            list(oracle.replay(rules, [(0, b"k", 1), (0, b"k", 3)]))


if __name__ == "__main__":
    unittest.main()
