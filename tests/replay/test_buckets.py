"""Buckets against cases worked out by hand, and against exact fractions."""

import itertools
import random
from fractions import Fraction

import traces
from buckets import Bucket, RationalBucket, choose_unit
from cases import NEVER, SECOND, Case, admitted_in_order
from rules import Malformed, parse_rule

DAY = 86_400 * SECOND
RATES = (
    "1/400d", "1/1d", "5/1m", "1/1s", "3/1s", "7/1s", "999/1s", "1000/1s", "977/1s", "1024/1s",
    "300000/1s", "999999/1s", "1000000/1s", "999999999/1s", "1000000000/1s", "1000000000/400d",
    "976563/1ms", "1000001/1s", "3/1ms", "1000000/1ms", "123456789/17h",
)  # fmt: skip
NEARLY = 1 + Fraction(1, 1000)


def bucket_of(text):
    return Bucket(parse_rule(text), deadline_us=20_000, clock_error_us=10_000)


class Buckets(Case):
    def test_bucket_refills_one_token_at_a_time(self):
        self.check(
            "token-bucket:2/1s",
            (10_000, 1, (True, 1, 0, 500_000)),
            (10_000, 1, (True, 0, 0, SECOND)),
            (10_000, 1, (False, 0, 500_000, SECOND)),
            (10_499, 1, (False, 0, 1_000, 501_000)),
            (10_500, 1, (True, 0, 0, SECOND)),
            (10_500, 2, (False, 0, SECOND, SECOND)),
            (11_250, 1, (True, 0, 0, 750_000)),
            (60_000, 2, (True, 0, 0, SECOND)),
            (60_000, 3, NEVER),
        )

    def test_burst_is_apart_from_the_rate(self):
        self.check(
            "token-bucket:1/1s,burst=5",
            (0, 4, (True, 1, 0, 4 * SECOND)),
            (0, 2, (False, 1, SECOND, 4 * SECOND)),
            (1_000, 2, (True, 0, 0, 5 * SECOND)),
            (1_999, 1, (False, 0, 1_000, 4_001_000)),
        )

    def test_a_lease_keeps_back_what_drains_meanwhile(self):
        self.check(
            "token-bucket:2/1s,burst=5,lease=600ms",
            (0, 4, NEVER),
            (0, 2, (True, 1, 0, SECOND)),
            (0, 2, (False, 1, 500_000, SECOND)),
            (500, 2, (True, 0, 0, 1_500_000)),
        )

    def test_token_that_takes_no_whole_number_of_units_takes_one_more(self):
        # T = 333334 us, and 3414 of 1/1024 us, which is 3.334 us
        self.check("token-bucket:3/1s", (0, 3, (True, 0, 0, 1_000_002)))
        self.check("token-bucket:300000/1s", (0, 1, (True, 299_999, 0, 4)))
        self.check("token-bucket:300000/1s", (0, 300_000, (True, 0, 0, 1_000_196)))

    def test_queue_says_how_long_to_wait(self):
        self.check(
            "leaky-bucket:2/1s,queue=2,hold=40ms",
            (0, 1, (True, 2, 0, 500_000)),
            (0, 1, (True, 1, 0, SECOND, 500_000)),
            (100, 1, (True, 0, 0, 1_400_000, 900_000)),
            (100, 1, (False, 0, 400_000, 1_400_000, 40_000)),
            (500, 1, (True, 0, 0, 1_500_000, SECOND)),
            (2_000, 3, (True, 0, 0, 1_500_000)),
        )

    def test_without_a_queue_requests_are_spaced(self):
        self.check(
            "leaky-bucket:4/1s",
            (0, 1, (True, 0, 0, 250_000)),
            (249, 1, (False, 0, 1_000, 1_000)),
            (250, 1, (True, 0, 0, 250_000)),
            (250, 2, NEVER),
        )

    def test_arrival_that_no_honest_clock_left_counts_as_an_empty_bucket(self):
        first = (900_000, 1, (True, 0, 0, 2 * SECOND))
        rule = "token-bucket:1/2s,burst=1"  # ahead by 2 s + 60 s + 20 ms + 100 ms at most
        self.check(rule, first, (839_880, 1, (False, 0, 62_120_000, 62_120_000)))
        self.check(
            rule,
            first,
            (839_879, 1, (False, 0, 2 * SECOND, 2 * SECOND)),
            (841_878, 1, (False, 0, 1_000, 1_000)),
            (841_879, 1, (True, 0, 0, 2 * SECOND)),
        )
        # a cost that never fits does not even look
        self.check(
            rule,
            first,
            (839_879, 2, NEVER),
            (840_879, 1, (False, 0, 61_121_000, 61_121_000)),
        )

    def test_figures_are_what_trying_everything_finds(self):
        for text in ("token-bucket:9/1ms", "token-bucket:40/3ms,burst=7", "leaky-bucket:9/2ms,queue=4"):
            with self.subTest(rule=text):
                self.check_by_trying(text)

    def test_unit_is_the_coarsest_that_is_fine_enough(self):
        for rate in RATES:
            rule = parse_rule(f"leaky-bucket:{rate}")
            unit_bits, token_units = choose_unit(rule)
            token_us = Fraction(rule.period_us, rule.limit)
            with self.subTest(rate=rate):
                self.assertIn(unit_bits, (0, 10, 20))
                self.assertGreaterEqual(token_units, 1024)
                self.assertLess(0 if unit_bits == 0 else token_us * 2 ** (unit_bits - 10), 1024)
                self.assertTrue(token_us <= Fraction(token_units, 2**unit_bits) < token_us * NEARLY)

    def test_rate_that_no_unit_is_fine_enough_for_is_refused(self):
        self.assertEqual(choose_unit(parse_rule("token-bucket:1024999/1ms")), (20, 1024))
        with self.assertRaises(Malformed):
            choose_unit(parse_rule("token-bucket:1025001/1ms"))

    def test_full_bucket_admits_its_burst_one_by_one(self):
        for rate, burst in itertools.product(("3/1s", "300000/1s", "1000000000/1s"), (1, 2, 333)):
            bucket, now = bucket_of(f"token-bucket:{rate},burst={burst}"), 17 * DAY + 1
            for left in reversed(range(burst)):
                self.assertTrue(bucket.fits(now, 1))
                bucket.charge(now, 1)
                self.assertEqual(bucket.remaining(now), left)
            self.assertFalse(bucket.fits(now, 1))

    def test_never_more_than_exact_and_never_less_than_a_thousandth_slower(self):
        """The same requests are charged to all three, those that the oracle's bucket admits."""
        for rate, burst in itertools.product(RATES, (1, 7, 1_000)):
            rule = parse_rule(f"token-bucket:{rate}")._replace(capacity=burst)
            bucket = Bucket(rule, deadline_us=20_000, clock_error_us=10_000)
            exact, slower = RationalBucket(rule), RationalBucket(rule, NEARLY)
            draw, now, outcomes = random.Random(rate), DAY, set()
            token_us = rule.period_us / rule.limit
            for _ in range(300):
                now += int(draw.choice((0, 0, 1, draw.random(), burst * draw.random())) * token_us)
                cost = draw.randint(1, burst)
                fits = bucket.fits(now, cost)
                self.assertLessEqual(slower.fits(now, cost), fits)
                self.assertLessEqual(fits, exact.fits(now, cost))
                outcomes.add(fits)
                for each in (bucket, exact, slower) if fits else ():
                    each.charge(now, cost)
            self.assertEqual(outcomes, {False, True}, rate)

    def test_sustained_rate_is_kept_and_short_by_less_than_a_thousandth(self):
        """Asks as soon as it may, cost 1 or as much as a few microseconds give."""
        for rate in RATES:
            rule = parse_rule(f"token-bucket:{rate}")._replace(capacity=100_000)
            bucket, begin = Bucket(rule, deadline_us=20_000, clock_error_us=10_000), 400 * DAY
            per_us = Fraction(rule.limit, rule.period_us)
            cost = max(1, int(7 * per_us))
            bucket.charge(begin, rule.capacity)
            now, admitted = begin, 0
            for _ in range(3_000):
                now += bucket.retry_after_us(now, cost)
                self.assertTrue(bucket.fits(now, cost))
                bucket.charge(now, cost)
                admitted += cost
            due = (now - begin) * per_us
            with self.subTest(rate=rate):
                self.assertLessEqual(admitted, due)
                self.assertGreater(admitted, due / NEARLY - per_us - cost)

    def test_no_interval_admits_more_than_its_share_and_a_burst(self):
        for burst, name in itertools.product((1, 20, 90), traces.TRACES):
            text = f"token-bucket:20/10s,burst={burst}"
            with self.subTest(burst=burst, trace=name):
                for admitted in admitted_in_order(text, name).values():
                    for first, (begin, _) in enumerate(admitted):
                        sums = itertools.accumulate(cost for _, cost in admitted[first:])
                        for (end, _), total in zip(admitted[first:], sums):
                            self.assertLessEqual(total, burst + Fraction(20 * (end - begin), 10_000_000))

    def test_places_in_a_queue_are_apart_by_what_was_charged(self):
        for queue, name in itertools.product((0, 19, 90), traces.TRACES):
            with self.subTest(queue=queue, trace=name):
                starts = admitted_in_order(f"leaky-bucket:20/10s,queue={queue}", name)
                for admitted in starts.values():
                    for (start, cost), (later, _) in itertools.pairwise(admitted):
                        self.assertGreaterEqual(later - start, cost * 500_000)
