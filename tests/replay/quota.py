"""The oracle's quota: which window is open is settled as on a store, with a dictionary for one."""

from algorithm import Algorithm, as_much_as_fits

CLOSED = "closed"


class Quota(Algorithm):
    """The first request opens a window of one period. `opened` maps the number of an aligned period
    to the start of the window that opened in it, or to CLOSED, which keeps a late request from
    opening one in the past: every charge closes the period before its own. `counts` maps a start to
    its count.

    What lies further ahead than the margin is of a clock that was wrong, and counts as absent."""

    def __init__(self, rule, margin_us):
        self.limit, self.period_us, self.margin_us = rule.limit, rule.period_us, margin_us
        self.debt, self.count_all = rule.debt, rule.count_all
        self.opened, self.counts = {}, {}

    def read(self, number, now):
        """The value that an honest clock may have left there: a start, CLOSED, or None."""
        found = self.opened.get(number)
        moment = (number + 1) * self.period_us if found == CLOSED else found
        return found if found is not None and moment <= now + self.margin_us else None

    def find(self, now, opens):
        """The start of the window that a request now belongs to, the earliest that is not over;
        None: there is none yet."""
        number, time = now // self.period_us, now
        if opens:
            self.opened.setdefault(number - 1, CLOSED)
        before = self.read(number - 1, now)
        while True:
            if before not in (None, CLOSED) and time < before + self.period_us:
                return before
            own = self.read(number, now)
            if own != CLOSED:
                break
            before, number = CLOSED, number + 1
            time = number * self.period_us
        if own is None and opens:
            own = self.open(number, time, before)
        return own

    def open(self, number, time, before):
        """In the place of what a wrong clock left, everybody would open the same window."""
        if number in self.opened:
            time = number * self.period_us
            if before not in (None, CLOSED):
                time = before + self.period_us
        self.opened[number] = time
        return time

    def count(self, now):
        return self.counts.get(self.find(now, opens=False), 0)

    def to_end_us(self, now):
        return self.find(now, opens=False) + self.period_us - now

    def fits(self, now, cost):
        return self.count(now) + cost <= self.limit

    def charge(self, now, cost):
        start = self.find(now, opens=True)
        self.counts[start] = self.counts.get(start, 0) + cost
        return True

    def give_back(self, now, cost):
        self.counts[self.find(now, opens=False)] -= cost

    def settle(self, now, at, missing):
        """More is charged to the window of now, which opens if there is none; less goes back to the one
        that was charged."""
        if missing > 0:
            if not self.count_all:
                missing = as_much_as_fits(missing, self.limit + self.debt - self.count(now))
            if missing > 0:
                self.charge(now, missing)
            return missing
        for start in self.counts:
            if start <= at < start + self.period_us:
                self.counts[start] += missing
        return missing

    def remaining(self, now):
        return max(0, self.limit - self.count(now))

    def retry_after_us(self, now, cost):
        return self.to_end_us(now)

    def reset_after_us(self, now):
        return self.to_end_us(now) if self.find(now, opens=False) is not None else 0
