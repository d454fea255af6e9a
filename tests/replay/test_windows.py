"""Windows against cases worked out by hand, trying everything, and their promises."""

import itertools

import traces
from cases import NEVER, SECOND, Case, admitted_in_order


class Windows(Case):
    def test_fixed_window_starts_anew_at_its_edge(self):
        self.check(
            "fixed-window:2/10s",
            (3_000, 1, (True, 1, 0, 7 * SECOND)),
            (9_999, 1, (True, 0, 0, 1_000)),
            (9_999, 1, (False, 0, 1_000, 1_000)),
            (10_000, 1, (True, 1, 0, 10 * SECOND)),
        )

    def test_fixed_window_counts_denied_requests_when_told_to(self):
        self.check(
            "fixed-window:2/10s,count=all",
            (0, 1, (True, 1, 0, 10 * SECOND)),
            (1_000, 2, (False, 0, 9 * SECOND, 9 * SECOND)),
            (2_000, 1, (False, 0, 8 * SECOND, 8 * SECOND)),
        )

    def test_denied_request_leaves_an_untouched_window_untouched(self):
        self.check("fixed-window:2/10s", (0, 3, NEVER), (0, 2, (True, 0, 0, 10 * SECOND)))

    def test_cost_above_the_limit_is_never_charged(self):
        self.check(
            "sliding-window:2/10s,count=all", (0, 3, NEVER), (0, 2, (True, 0, 0, 12_499_999))
        )

    def test_one_cell_is_the_weighted_estimate_over_two_windows(self):
        self.check(
            "sliding-window:10/10s,cells=1",
            (9_999, 10, (True, 0, 0, 10_000_999)),
            # 10 * r / S rounds to 9 from r = 9499999 on, that is half a second into the window
            (10_000, 1, (False, 0, 500_000, 9_999_999)),
            (10_499, 1, (False, 0, 1_000, 9_500_999)),
            (10_500, 1, (True, 0, 0, 19_499_999)),
        )

    def test_strict_waits_until_nothing_of_the_oldest_cell_is_left(self):
        self.check(
            "sliding-window:10/10s,cells=1,strict",
            (9_999, 10, (True, 0, 0, 10_000_999)),
            (10_000, 1, (False, 0, 9_999_999, 9_999_999)),
            (19_999, 1, (False, 0, 999, 999)),
            (20_000, 10, (True, 0, 0, 19_999_999)),
        )

    def test_upper_bound_denies_where_the_estimate_would_admit(self):
        self.check(
            "sliding-window:8/4s",
            (500, 8, (True, 0, 0, 4_499_999)),
            (4_000, 1, (False, 0, 62_500, 999_999)),
            (4_500, 4, (True, 0, 0, 4_499_999)),
            # 4 + 1 + 8 r / S <= 8 from r = 437499 on, but 4 + 1 + 8 > 12 until r = 0
            (4_500, 1, (False, 0, 499_999, 4_499_999)),
            (5_000, 4, (True, 0, 0, 4_999_999)),
        )

    def test_retry_counts_the_denied_request_only_when_it_stays_charged(self):
        first = (0, 2, (True, 1, 0, 1_999_999))
        self.check(
            "sliding-window:3/1s,cells=1", first, (0, 2, (False, 1, 1_250_000, 1_999_999))
        )
        self.check(
            "sliding-window:3/1s,cells=1,count=all", first, (0, 2, (False, 0, 1_625_000, 1_999_999))
        )

    def test_cells_that_do_not_divide_the_window_are_rounded_up(self):
        # 1000 us in 64 cells of 16 us: at 1 ms the current cell is 62, the oldest 0, r = 15
        self.check(
            "sliding-window:1/1ms,cells=64",
            (0, 1, (True, 0, 0, 1_015)),
            (1, 1, (False, 0, 8, 15)),
            (2, 1, (True, 0, 0, 1_015)),
        )

    def test_next_cell_counts_once_the_margin_reaches_it(self):
        charged = (10_900, 1, (True, 0, 0, 4_099_999))
        self.check(
            "sliding-window:1/4s",
            charged,
            # round(r / S) is 0 from r = 499999 of cell 10 on, at 14.5 s
            (9_500, 1, (False, 0, 5 * SECOND, 5_499_999)),
            deadline_us=5 * SECOND,
        )
        self.check("sliding-window:1/4s", charged, (9_500, 1, (True, 0, 0, 4_499_999)))

    def test_at_most_one_cell_ahead_counts(self):
        self.check(
            "sliding-window:1/4s",
            (10_900, 1, (True, 0, 0, 4_099_999)),
            (8_900, 1, (True, 0, 0, 4_099_999)),
            deadline_us=5 * SECOND,
        )

    def test_retry_and_remaining_are_what_trying_everything_finds(self):
        for cells, options in itertools.product((1, 2, 4, 16, 64), ("", ",strict", ",count=all")):
            self.check_by_trying(f"sliding-window:9/1ms,cells={cells}{options}")

    def test_no_interval_of_a_window_admits_more_than_promised(self):
        promised = {1: 40, 2: 40, 4: 30, 16: 23, 64: 21}
        for (cells, most), name in itertools.product(promised.items(), traces.TRACES):
            for options, bound in (("", most), (",strict", 20)):
                text = f"sliding-window:20/10s,cells={cells}{options}"
                with self.subTest(rule=text, trace=name):
                    for admitted in admitted_in_order(text, name).values():
                        for time_us, _ in admitted:
                            recent = (c for t, c in admitted if 0 <= time_us - t < 10 * SECOND)
                            self.assertLessEqual(sum(recent), bound)
