"""The log: by hand, against every admitted time, and where epochs meet."""

import random

import oracle
from cases import SECOND, Case
from rules import parse_rules


def plain(limit, period_us, times):
    """The plain meaning, for times that run forward: at most `limit` in the last period."""
    admitted = []
    for now in times:
        inside = [time for time in admitted if now - time < period_us]
        allowed = len(inside) < limit
        retry_after_us = 0 if allowed else inside[-limit] + period_us - now
        if allowed:
            admitted.append(now)
        yield allowed, -1, retry_after_us, admitted[-1] + period_us - now


class SlidingLog(Case):
    def test_each_request_counts_for_one_period(self):
        self.check(
            "sliding-log:2/10s",
            (3_000, 1, (True, -1, 0, 10 * SECOND)),
            (8_000, 1, (True, -1, 0, 10 * SECOND)),
            (12_999, 1, (False, -1, 1_000, 5_001_000)),
            (13_000, 1, (True, -1, 0, 10 * SECOND)),
            (17_999, 1, (False, -1, 1_000, 5_001_000)),
            (41_000, 1, (True, -1, 0, 10 * SECOND)),
        )

    def test_in_epochs_it_is_its_plain_meaning_while_time_runs_forward(self):
        for limit in (1, 2, 7, 40):
            draw, now, times = random.Random(limit), 10**6, []
            for _ in range(4_000):
                now += draw.choice((0, 0, 1, 10, 1_000 // limit, 999, 1_000, 1_001, 2_500))
                times.append(now)
            key = oracle.Key(parse_rules(f"sliding-log:{limit}/1ms"), 20, 10)
            for now, wanted in zip(times, plain(limit, 1_000, times)):
                given = key.decide(now, 1)
                self.assertEqual((given.allowed, *given[2:5]), wanted, (limit, now))

    def test_several_on_one_log_are_each_their_plain_meaning(self):
        limits = ((3, 1), (7, 4), (16, 50))  # in milliseconds
        for order in (limits, limits[::-1], limits[1:] + limits[:1]):
            draw, now, admitted = random.Random(len(order)), 10**6, []
            key = oracle.Key(parse_rules(";".join(f"sliding-log:{l}/{ms}ms" for l, ms in order)), 20, 10)
            for _ in range(4_000):
                now += draw.choice((0, 0, 1, 10, 333, 999, 1_000, 1_001, 4_000, 17_000))
                waits = []
                for limit, period_ms in order:
                    inside = [time for time in admitted if now - time < period_ms * 1_000]
                    full = len(inside) >= limit
                    waits.append(inside[-limit] + period_ms * 1_000 - now if full else 0)
                admitted += [] if any(waits) else [now]
                given = key.decide(now, 1)
                self.assertEqual((given.allowed, given.retry_after_us), (not any(waits), max(waits)), now)
                if any(waits):
                    self.assertEqual(given.rule, waits.index(max(waits)))

    def test_steps_back_that_the_guard_holds_change_nothing_of_that(self):
        draw, latest_ms, requests, held = random.Random(5), 10**6, [], []
        for _ in range(3_000):
            time_ms = latest_ms + draw.choice((0, 1, 100, 500, 2_000, -1, -400, -1_000))
            latest_ms = max(latest_ms, time_ms)
            requests.append((time_ms, b"k", 1))
            held.append(latest_ms * 1000)
        answers = oracle.replay(parse_rules("sliding-log:5/3s"), requests, 5 * SECOND)
        for (request, given), wanted in zip(answers, plain(5, 3 * SECOND, held)):
            self.assertEqual((given.allowed, *given[2:5]), wanted, request)

    def test_entries_of_the_next_epoch_count_once_the_margin_reaches_it(self):
        ahead = (20_500, 1, (True, -1, 0, 10 * SECOND))
        self.check(
            "sliding-log:1/10s",
            ahead,
            (19_000, 1, (False, -1, 11_500_000, 11_500_000)),
            deadline_us=5 * SECOND,
        )
        self.check("sliding-log:1/10s", ahead, (19_000, 1, (True, -1, 0, 10 * SECOND)))

    def test_an_entry_ahead_within_the_margin_denies(self):
        self.check(
            "sliding-log:2/10s",
            (19_000, 1, (True, -1, 0, 10 * SECOND)),
            (11_000, 1, (True, -1, 0, 10 * SECOND)),
            (12_500, 1, (False, -1, 16_500_000, 8_500_000)),
            deadline_us=7 * SECOND,
        )

    def test_an_entry_that_only_a_wrong_clock_can_have_left_denies_once(self):
        self.check(
            "sliding-log:2/10s",
            (19_000, 1, (True, -1, 0, 10 * SECOND)),
            (11_000, 1, (True, -1, 0, 10 * SECOND)),
            (12_500, 1, (False, -1, 8_500_000, 10 * SECOND)),
            (12_600, 1, (False, -1, 8_400_000, 9_900_000)),
            (21_000, 1, (True, -1, 0, 10 * SECOND)),
        )

    def test_in_a_stack_that_denial_charges_no_other_rule(self):
        rules = parse_rules("sliding-log:1/10s,hold=5ms;fixed-window:9/10s;token-bucket:9/9s;quota:9/10s")
        requests = [(19_000, b"k", 1), (12_500, b"k", 1), (22_500, b"k", 1)]
        ahead, denied, admitted = (d for _, d in oracle.replay(rules, requests))
        self.assertEqual(ahead, (True, 9, 8, 0, 10 * SECOND, 0, 1))
        self.assertEqual(denied, (False, 1, -1, 10 * SECOND, 10 * SECOND, 5_000, 0))
        self.assertEqual(admitted, (True, 9, 8, 0, 10 * SECOND, 0, 1))
