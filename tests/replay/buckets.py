"""The oracle's token and leaky buckets, in whole units of time, and their twin in fractions.

A bucket is one number, the theoretical arrival time: when the bucket will be full again (or the
queue empty). A request must not push it further than a full bucket beyond now.
"""

from fractions import Fraction

from algorithm import Algorithm, as_much_as_fits, ceil_divide
from rules import Malformed

TOKEN_UNITS_LEAST, FULL_UNITS_MOST = 1024, 2**50
LONGEST_WAIT_US = 60_000_000  # that a request may accept; the limiter's default
DEADLINE_OF_ANYBODY_US = 100_000  # unless this process's own is longer


def choose_unit(rule):
    """k and T: a token takes T units of 2^-k microseconds."""
    for unit_bits in (0, 10, 20):
        if ceil_divide(rule.period_us << unit_bits, rule.most) >= TOKEN_UNITS_LEAST:
            token_units = ceil_divide(rule.period_us << unit_bits, rule.limit)
            if rule.most > rule.limit and rule.capacity * token_units >= FULL_UNITS_MOST:
                raise Malformed(f"{rule.capacity} tokens are too many of 2^-{unit_bits} us")
            return unit_bits, token_units
    raise Malformed(f"{rule.most} per {rule.period_us} us: too fast for any unit")


class Bucket(Algorithm):
    """`arrival`, in units; None: untouched."""

    def __init__(self, rule, deadline_us, clock_error_us):
        self.capacity, self.leaky = rule.capacity, rule.algorithm == "leaky-bucket"
        self.unit_bits, self.token_units = choose_unit(rule)
        self.full_units = self.capacity * self.token_units
        self.debt_units = rule.debt * self.token_units
        margin_us = 2 * clock_error_us + max(deadline_us, DEADLINE_OF_ANYBODY_US)
        beyond_units = max(LONGEST_WAIT_US << self.unit_bits, self.debt_units)
        self.ahead_most = self.full_units + beyond_units + (margin_us << self.unit_bits)
        self.arrival = None

    def base(self, now):
        units = now << self.unit_bits
        return units if self.arrival is None else max(self.arrival, units)

    def excess(self, now, cost):
        """By how many units a cost is too early; 0 or less: it fits."""
        units = now << self.unit_bits
        return self.base(now) + cost * self.token_units - (units + self.full_units)

    def to_us(self, units):
        return ceil_divide(max(0, units), 1 << self.unit_bits)

    def look(self, now):
        """No honest clock leaves the arrival so far ahead: somebody's was wrong, and was set right.
        From now on the bucket counts as empty, no emptier."""
        units = now << self.unit_bits
        if self.base(now) - units > self.ahead_most:
            self.arrival = units + self.full_units

    def fits(self, now, cost):
        return self.excess(now, cost) <= 0

    def delay_us(self, now, cost):
        return self.to_us(self.base(now) - (now << self.unit_bits)) if self.leaky else 0

    def charge(self, now, cost):
        self.arrival = self.base(now) + cost * self.token_units
        return True

    def give_back(self, now, cost):
        self.arrival -= cost * self.token_units

    def settle(self, now, at, missing):
        """Less goes back as far as it has not drained since it was charged."""
        units = now << self.unit_bits
        if missing > 0:
            room = self.full_units + self.debt_units - (self.base(now) - units)
            missing = as_much_as_fits(missing, room // self.token_units)
            if missing > 0:
                self.charge(now, missing)
        else:
            drained = max(0, now - at) << self.unit_bits
            self.arrival -= max(0, -missing * self.token_units - drained)
        return missing

    def remaining(self, now):
        low, high = 0, self.capacity
        while low < high:
            middle = (low + high + 1) // 2
            if self.fits(now, middle):
                low = middle
            else:
                high = middle - 1
        return low

    def retry_after_us(self, now, cost):
        return self.to_us(self.excess(now, cost))

    def reset_after_us(self, now):
        return self.to_us(self.base(now) - (now << self.unit_bits))


class RationalBucket:
    """The same rule without any rounding: a token takes exactly period / limit, times `slower`."""

    def __init__(self, rule, slower=Fraction(1)):
        self.token_us = Fraction(rule.period_us, rule.limit) * slower
        self.full_us = rule.capacity * self.token_us
        self.arrival = Fraction(0)

    def fits(self, now, cost):
        return max(self.arrival, now) + cost * self.token_us <= now + self.full_us

    def charge(self, now, cost):
        self.arrival = max(self.arrival, now) + cost * self.token_us
