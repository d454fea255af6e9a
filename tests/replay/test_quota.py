"""The quota: by hand, against its plain meaning, and when clocks are set back."""

import random

import oracle
from cases import NEVER, SECOND, Case
from quota import CLOSED
from rules import parse_rules

W = 1_000


def plain(limit, period_us, count_all, requests):
    """The plain meaning, for times that run forward: the first request opens a window."""
    start, count = None, 0
    for now, cost in requests:
        if start is not None and now >= start + period_us:
            start, count = None, 0
        allowed = count + cost <= limit
        if allowed or count_all:
            start = now if start is None else start
            count += cost
        to_end = start + period_us - now
        yield allowed, max(0, limit - count), 0 if allowed else to_end, to_end


class Quota(Case):
    def test_first_request_opens_a_window(self):
        self.check(
            "quota:3/10s",
            (7_000, 2, (True, 1, 0, 10 * SECOND)),
            (7_001, 2, (False, 1, 9_999_000, 9_999_000)),
            (16_999, 1, (True, 0, 0, 1_000)),
            (16_999, 4, NEVER),
            (17_000, 3, (True, 0, 0, 10 * SECOND)),
        )

    def test_denied_requests_count_when_told_to(self):
        self.check(
            "quota:3/10s,count=all",
            (9_000, 2, (True, 1, 0, 10 * SECOND)),
            (10_000, 2, (False, 0, 9 * SECOND, 9 * SECOND)),
            (18_999, 1, (False, 0, 1_000, 1_000)),
            (19_000, 1, (True, 2, 0, 10 * SECOND)),
        )

    def test_windows_open_after_any_silence(self):
        self.check(
            "quota:1/10s",
            (9_999, 1, (True, 0, 0, 10 * SECOND)),
            (20_000, 1, (True, 0, 0, 10 * SECOND)),
            (39_999, 1, (True, 0, 0, 10 * SECOND)),
            (75_000, 1, (True, 0, 0, 10 * SECOND)),
            (84_999, 1, (False, 0, 1_000, 1_000)),
        )

    def test_as_a_store_keeps_it_is_its_plain_meaning_while_time_runs_forward(self):
        for seed, count_all in ((1, False), (2, True), (3, False), (4, True)):
            draw, now, requests = random.Random(seed), 10**9, []
            for _ in range(5_000):
                now += draw.choice((0, 1, W // 7, W // 3, W - 1, W, W + 1, 2 * W, 5 * W))
                requests.append((now, draw.randint(1, 5)))
            rules = parse_rules("quota:5/1ms" + ",count=all" * count_all)
            key = oracle.Key(rules, 20_000, 10_000)
            for request, wanted in zip(requests, plain(5, W, count_all, requests)):
                given = key.decide(*request)
                self.assertEqual((given.allowed, *given[2:5]), wanted, (seed, request))

    def test_steps_back_that_the_guard_holds_change_nothing_of_that(self):
        draw, latest_ms, requests, held = random.Random(5), 10**6, [], []
        for _ in range(3_000):
            time_ms = latest_ms + draw.choice((0, 1, 900, 3_000, 9_000, -1, -400, -1_000))
            latest_ms, cost = max(latest_ms, time_ms), draw.randint(1, 5)
            requests.append((time_ms, b"k", cost))
            held.append((latest_ms * 1000, cost))
        wanted = plain(5, 3 * SECOND, False, held)
        for (request, given), answer in zip(oracle.replay(parse_rules("quota:5/3s"), requests), wanted):
            self.assertEqual((given.allowed, *given[2:5]), answer, request)

    def test_windows_never_overlap_while_clocks_are_within_the_margin(self):
        for seed in range(20):
            draw, now = random.Random(seed), 100 * W
            key = oracle.Key(parse_rules("quota:5/1ms"), 10**9, 10_000)
            for _ in range(400):
                now += draw.choice((0, 1, W // 3, W, 3 * W, 9 * W, -1, -W // 2, -2 * W, -13 * W))
                key.decide(max(now, 0), draw.randint(1, 5))
            (quota,) = key.algorithms
            starts = sorted(quota.counts)
            self.assertGreater(len(starts), 10)
            self.assertTrue(all(later - start >= W for start, later in zip(starts, starts[1:])))
            self.assertLessEqual(max(quota.counts.values()), 5)

    def test_a_period_before_an_open_window_is_closed(self):
        # who is late is early for the window that was opened meanwhile
        self.check(
            "quota:2/10s",
            (25_000, 1, (True, 1, 0, 10 * SECOND)),
            (12_000, 1, (True, 0, 0, 23 * SECOND)),
            (13_500, 1, (False, 0, 21_500_000, 21_500_000)),
            deadline_us=15 * SECOND,
        )
        key = oracle.Key(parse_rules("quota:2/10s"), 15 * SECOND, 0)
        key.decide(25 * SECOND, 1)
        self.assertEqual(key.algorithms[0].opened, {1: CLOSED, 2: 25 * SECOND})
        key.decide(12 * SECOND, 1)
        self.assertEqual(key.algorithms[0].opened, {0: CLOSED, 1: CLOSED, 2: 25 * SECOND})

    def test_windows_that_only_a_wrong_clock_can_have_opened_deny_nobody_for_long(self):
        self.check(
            "quota:1/10s",
            (27_000, 1, (True, 0, 0, 10 * SECOND)),
            # that start is not believed: the window opens where its period begins
            (23_000, 1, (True, 0, 0, 7 * SECOND)),
            (29_999, 1, (False, 0, 1_000, 1_000)),
            # nor that this period is closed
            (12_000, 1, (True, 0, 0, 8 * SECOND)),
            (20_000, 1, (False, 0, 10 * SECOND, 10 * SECOND)),
            # nor this start: its window begins where the one before ends
            (39_500, 1, (True, 0, 0, 10 * SECOND)),
            (49_600, 1, (True, 0, 0, 10 * SECOND)),
            (45_000, 1, (False, 0, 4_500_000, 4_500_000)),
            (49_500, 1, (True, 0, 0, 10 * SECOND)),
        )
