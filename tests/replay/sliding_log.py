"""The oracle's sliding log: the time of every admitted request, in the epochs of a store."""

from collections import defaultdict

from algorithm import NOT_KNOWN, Algorithm


class Log:
    """All logs of a stack read this: `entries` maps the number of an epoch, an aligned span of the
    longest of their periods, to the times of its requests, in the order in which they came."""

    def __init__(self, epoch_us):
        self.epoch_us = epoch_us
        self.entries = defaultdict(list)


class SlidingLog(Algorithm):
    """At most `limit` in any period. The first of several that share a log `writes` it.

    A decision knows the epoch before and its own, and the next one if it begins within the margin:
    somebody whose clock is ahead may have written there. A time that lies further ahead is of a
    clock that was wrong. It must not deny for long: whoever meets it is denied, and takes a place
    behind it, so that the next request is measured against the next time."""

    def __init__(self, rule, margin_us, log, writes):
        self.limit, self.period_us, self.margin_us = rule.limit, rule.period_us, margin_us
        self.epoch_us, self.entries, self.writes = log.epoch_us, log.entries, writes
        self.newest = self.denying = None

    def known(self, now):
        return self.known_to_here(now) + self.known_ahead(now)

    def known_to_here(self, now):
        epoch = now // self.epoch_us
        return self.entries.get(epoch - 1, []) + self.entries.get(epoch, [])

    def known_ahead(self, now):
        epoch = now // self.epoch_us
        reaches = (now + self.margin_us) // self.epoch_us > epoch
        return self.entries.get(epoch + 1, []) if reaches else []

    def deciding(self, now):
        """The time that must be over before one more fits; None: there is none."""
        known = self.known(now)
        return known[-self.limit] if len(known) >= self.limit else None

    def is_wrong(self, time, now):
        return time > now + self.margin_us

    def is_over(self, time, now):
        return now - time >= self.period_us

    def look(self, now):
        known = self.known(now)
        self.newest = known[-1] if known else None
        self.denying = self.deciding(now)

    def fits(self, now, cost):
        deciding = self.deciding(now)
        return deciding is None or self.is_wrong(deciding, now) or self.is_over(deciding, now)

    def charge(self, now, cost):
        deciding = self.denying
        if self.writes:
            self.entries[now // self.epoch_us].append(now)
        self.newest = now
        if deciding is None or not self.is_wrong(deciding, now):
            return True
        behind = self.limit - (len(self.known_ahead(now)) >= self.limit)
        self.denying = self.known(now)[-behind] if behind > 0 else None
        return False

    def give_back(self, now, cost):
        """Another that reads this log met a wrong time. The place stays taken."""

    def remaining(self, now):
        return NOT_KNOWN

    def retry_after_us(self, now, cost):
        if self.denying is None or self.is_wrong(self.denying, now):
            return 1
        return max(1, self.denying + self.period_us - now)

    def reset_after_us(self, now):
        if self.newest is None:
            return 0
        if self.is_wrong(self.newest, now):
            return self.period_us
        return max(0, self.newest + self.period_us - now)
