"""Places in flight, by hand."""

import unittest

import oracle
from cases import NEVER, SECOND, Case
from rules import Malformed, parse_rules

T = 60 * SECOND


class InFlight(Case):
    def test_nothing_leaves_by_itself(self):
        self.check(
            "in-flight:3/1m",
            (10_000, 2, (True, 1, 0, 50 * SECOND)),
            (11_000, 2, (False, 1, 50_000, 49 * SECOND)),
            (11_000, 4, NEVER),
            (600_000, 2, (False, 1, 50_000, 60 * SECOND)),
            (601_000, 1, (True, 0, 0, 59 * SECOND)),
        )

    def test_the_run_up_pays_the_next_period_too(self):
        """2 * 60 s / 16 + 20 ms = 7.52 s."""
        self.check(
            "in-flight:9/1m",
            (52_479, 1, (True, 8, 0, 7_521_000)),
            (52_480, 1, (True, 7, 0, 7_520_000 + T)),
        )

    def test_what_came_first_leaves_first(self):
        rules = parse_rules("in-flight:3/1m;fixed-window:9/1m")
        trace = b"0 k 2\n1 k\n2 k\n3 k leave\n4 k 2\n5 k leave\n6 k leave\n7 k leave\n"
        answers = list(oracle.replay(rules, oracle.read_requests(trace)))
        costs = [cost for (_, _, cost), decision in answers if decision is oracle.RELEASED]
        self.assertEqual(costs, [2, 1, 2, 0])
        self.assertEqual([decision.allowed for _, decision in answers[:5]], [True, True, False, True, True])

    def test_periods_have_ends(self):
        for text in ("in-flight:1/999ms", "in-flight:1/61m", "in-flight:1/1m,burst=2"):
            with self.assertRaises(Malformed):
                parse_rules(text)


if __name__ == "__main__":
    unittest.main()
