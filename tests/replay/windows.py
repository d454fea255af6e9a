"""The oracle's fixed and sliding windows: every count they ever made, and a search for the rest."""

from collections import defaultdict

from algorithm import Algorithm, as_much_as_fits, ceil_divide


class FixedWindow(Algorithm):
    """Aligned windows: at most `limit` in each. `counts` maps the number of a window to its count."""

    def __init__(self, rule):
        self.limit, self.period_us = rule.limit, rule.period_us
        self.debt, self.count_all = rule.debt, rule.count_all
        self.counts = defaultdict(int)

    def count(self, now):
        return self.counts.get(now // self.period_us, 0)

    def to_end_us(self, now):
        return (now // self.period_us + 1) * self.period_us - now

    def fits(self, now, cost):
        return self.count(now) + cost <= self.limit

    def charge(self, now, cost):
        self.counts[now // self.period_us] += cost
        return True

    def give_back(self, now, cost):
        self.counts[now // self.period_us] -= cost

    def settle(self, now, at, missing):
        if missing > 0 and not self.count_all:
            missing = as_much_as_fits(missing, self.limit + self.debt - self.count(now))
        self.counts[(now if missing > 0 else at) // self.period_us] += missing
        return missing

    def remaining(self, now):
        return max(0, self.limit - self.count(now))

    def retry_after_us(self, now, cost):
        return self.to_end_us(now)

    def reset_after_us(self, now):
        return self.to_end_us(now) if self.count(now) > 0 else 0


class SlidingWindow(Algorithm):
    """Weighted cells. `counts` maps the number of a cell to its count."""

    def __init__(self, rule, ahead_us):
        self.limit, self.period_us, self.strict = rule.limit, rule.period_us, rule.strict
        self.cell_us = ceil_divide(rule.period_us, rule.cells)
        self.upper_most = rule.limit + ceil_divide(2 * rule.limit, rule.cells)
        self.bound = rule.limit if rule.strict else min(self.upper_most, 2 * rule.limit)
        self.debt, self.count_all = rule.debt, rule.count_all
        self.ahead_us = ahead_us
        self.counts = defaultdict(int)

    def oldest(self, now):
        """The cell in which the window that ends now begins."""
        return (now - self.period_us) // self.cell_us

    def oldest_left_us(self, now):
        """How much of that cell is still inside the window."""
        return (self.oldest(now) + 1) * self.cell_us - 1 - (now - self.period_us)

    def seen(self, now):
        """The counts that a decision taken now knows: from the oldest cell to one ahead at most."""
        current = now // self.cell_us
        newest = min((now + self.ahead_us) // self.cell_us, current + 1)
        cells = range(self.oldest(now), newest + 1)
        return {cell: self.counts[cell] for cell in cells if self.counts.get(cell, 0) > 0}

    def sums(self, seen, now):
        """The two figures that are bounded: the estimate, and what can at most be in the window."""
        oldest, left_us = self.oldest(now), self.oldest_left_us(now)
        above = sum(count for cell, count in seen.items() if cell > oldest)
        return self.weigh(above, seen.get(oldest, 0), left_us)

    def weigh(self, above, oldest_count, left_us):
        estimate = above + (2 * oldest_count * left_us + self.cell_us) // (2 * self.cell_us)
        upper = above + (oldest_count if left_us > 0 else 0)
        return estimate, upper

    def room(self, sums):
        """The largest cost that fits on top; negative where even nothing is too much. A cost counts
        in full in both figures, because it goes to a cell newer than the oldest."""
        estimate, upper = sums
        if self.strict:
            return self.limit - upper
        return min(self.limit - estimate, self.upper_most - upper)

    def admits(self, seen, now, cost):
        return cost <= self.room(self.sums(seen, now))

    def fits(self, now, cost):
        return self.admits(self.seen(now), now, cost)

    def charge(self, now, cost):
        self.counts[now // self.cell_us] += cost
        return True

    def give_back(self, now, cost):
        self.counts[now // self.cell_us] -= cost

    def settle(self, now, at, missing):
        """Two windows that are weighed hold no more together than is promised of any period."""
        if missing > 0 and not self.count_all:
            estimate, upper = self.sums(self.seen(now), now)
            room = min(self.room((estimate, upper)), self.bound - upper) + self.debt
            missing = as_much_as_fits(missing, room)
        self.counts[(now if missing > 0 else at) // self.cell_us] += missing
        return missing

    def remaining(self, now):
        return max(0, self.room(self.sums(self.seen(now), now)))

    def reset_after_us(self, now):
        """Until nothing that is left of the newest cell with a count is inside the window."""
        seen = self.seen(now)
        return (max(seen) + 1) * self.cell_us - 1 + self.period_us - now if seen else 0

    def retry_after_us(self, now, cost):
        """As long as the same cell is the oldest, what is left of it only shrinks, and so do both
        figures: such a stretch admits somewhere if and only if it admits at its end, and from the
        first admitting moment on."""
        seen = self.seen(now)
        above = sum(seen.values())
        for oldest in range(self.oldest(now), max(seen) + 1):
            oldest_count = seen.get(oldest, 0)
            above -= oldest_count
            end = (oldest + 1) * self.cell_us - 1 + self.period_us
            low = max(now + 1, oldest * self.cell_us + self.period_us)
            if low > end or cost > self.room(self.weigh(above, oldest_count, 0)):
                continue
            high = end
            while low < high:
                middle = (low + high) // 2
                if cost <= self.room(self.weigh(above, oldest_count, end - middle)):
                    high = middle
                else:
                    low = middle + 1
            assert self.admits(seen, low, cost) and not self.admits(seen, low - 1, cost)
            return low - now
        raise AssertionError("a cost within the limit fits once every cell has left the window")
