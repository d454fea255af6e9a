"""The oracle's limits of what is in flight: what is inside, and nothing else."""

from algorithm import Algorithm

LOOK_AGAIN_US = 50_000


class InFlight(Algorithm):
    """A place is entered by a charge and left by a release. Time matters only to one figure: how long
    what is inside stays charged if nobody pays again. In the run-up to the end of an epoch that is
    paid for the next one as well."""

    def __init__(self, rule, deadline_us, clock_error_us):
        self.limit, self.period_us = rule.limit, rule.period_us
        guard_us = max(2 * clock_error_us, rule.period_us // 16)
        self.run_up_us = 2 * guard_us + deadline_us
        self.inside = 0

    def fits(self, now, cost):
        return self.inside + cost <= self.limit

    def charge(self, now, cost):
        self.inside += cost
        return True

    def give_back(self, now, cost):
        self.inside -= cost

    def release(self, cost):
        self.inside -= cost

    def remaining(self, now):
        return max(0, self.limit - self.inside)

    def retry_after_us(self, now, cost):
        """Nobody knows when: so long a denial may be repeated."""
        return LOOK_AGAIN_US

    def reset_after_us(self, now):
        left = self.period_us - now % self.period_us
        ahead = left <= self.run_up_us
        return left + ahead * self.period_us if self.inside > 0 else 0
