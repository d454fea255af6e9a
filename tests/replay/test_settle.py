"""Settlements against cases worked out by hand, and the promise of what is charged with them."""

import itertools
from fractions import Fraction

import oracle
from cases import SECOND, Case, admitted_in_order
from rules import Malformed, parse_rule, parse_rules

MINUTE = 60 * SECOND


class Settlements(Case):
    def settlements(self, text, *lines):
        """The charge that each line of a trace under one key came to, and its figures."""
        requests = oracle.read_requests(b"".join(b"%d k %s\n" % line for line in lines))
        answers = oracle.replay(parse_rules(text), requests)
        return [(d.charged, d.remaining, d.reset_after_us) for r, d in answers if r[3:] == (oracle.REAL,)]

    def test_more_is_charged_up_to_the_limit_and_the_debt(self):
        lines = (0, b"~4"), (0, b"=6"), (0, b"~2"), (0, b"=9"), (1_000, b"~1"), (1_000, b"=5")
        self.assertEqual(
            self.settlements("quota:8/1m,debt=3", *lines), [(6, 2, MINUTE), (5, 0, MINUTE), (0, 0, 0)]
        )
        self.assertEqual(
            self.settlements("token-bucket:8/8s,debt=3", *lines),
            [(6, 2, 6 * SECOND), (5, 0, 11 * SECOND), (0, 0, 0)],
        )

    def test_less_goes_back_to_where_it_was_charged(self):
        lines = (9_000, b"~4"), (10_500, b"2"), (10_500, b"=1")
        self.assertEqual(self.settlements("fixed-window:8/10s", *lines), [(1, 6, 9_500_000)])
        self.assertEqual(self.settlements("quota:8/10s", *lines), [(1, 5, 8_500_000)])

    def test_of_a_bucket_goes_back_what_has_not_drained(self):
        lines = (0, b"~4"), (1_000, b"=1"), (1_000, b"~2"), (9_000, b"=0")
        self.assertEqual(
            self.settlements("token-bucket:8/8s", *lines), [(1, 7, SECOND), (0, 8, 0)]
        )

    def test_more_is_charged_to_the_window_of_now(self):
        lines = (9_000, b"~4"), (10_500, b"=7")
        self.assertEqual(self.settlements("fixed-window:8/10s", *lines), [(7, 5, 9_500_000)])
        self.assertEqual(self.settlements("quota:8/1s", *lines), [(7, 5, SECOND)])

    def test_what_is_exact_and_what_is_not_open_changes_nothing(self):
        lines = (0, b"~4"), (500, b"=4"), (600, b"=9"), (600, b"~9"), (700, b"=1"), (700, b"3"), (700, b"=1")
        self.assertEqual(
            self.settlements("fixed-window:8/10s", *lines),
            [(4, 4, 10 * SECOND), (0, 0, 0), (0, 0, 0), (0, 0, 0)],
        )

    def test_a_stack_tells_the_least_that_a_rule_was_charged(self):
        both = "fixed-window:20/10s;fixed-window:8/1m,debt=1"
        self.assertEqual(self.settlements(both, (0, b"~4"), (0, b"=30")), [(9, 0, MINUTE)])

    def test_all_that_is_charged_keeps_the_bound_and_the_debt(self):
        promised = {"cells=1": 40, "cells=2": 40, "cells=4": 30, "cells=16": 23, "strict": 20}
        for (options, bound), debt in itertools.product(promised.items(), (0, 7, 20)):
            text = f"sliding-window:20/10s,{options},debt={debt}"
            with self.subTest(rule=text):
                for charged in admitted_in_order(text, "works", 1_000).values():
                    for time_us, _ in charged:
                        recent = (c for t, c in charged if 0 <= time_us - t < 10 * SECOND)
                        self.assertLessEqual(sum(recent), bound + debt)

    def test_all_that_a_bucket_is_charged_keeps_its_rate_and_the_debt(self):
        for debt in (0, 7, 20):
            text = f"token-bucket:20/10s,debt={debt}"
            for charged in admitted_in_order(text, "works", 1_000).values():
                for first, (begin, _) in enumerate(charged):
                    sums = itertools.accumulate(cost for _, cost in charged[first:])
                    for (end, _), total in zip(charged[first:], sums):
                        most = 20 + debt + Fraction(20 * (end - begin), 10_000_000)
                        self.assertLessEqual(total, most)

    def test_some_rules_cannot_be_settled_or_have_no_such_debt(self):
        for text in ("sliding-log:9/1s", "leaky-bucket:9/1s"):
            with self.assertRaisesRegex(Malformed, "cannot be settled"):
                self.settlements(text, (0, b"~1"))
        for text in ("quota:5/1s,debt=6", "leaky-bucket:5/1s,debt=1", "quota:5/1s,count=all,debt=1"):
            with self.assertRaises(Malformed):
                parse_rule(text)
