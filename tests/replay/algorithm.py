"""The questions that every algorithm of the oracle answers. An object stands for one key under one rule."""

NOT_KNOWN = -1


def ceil_divide(a, b):
    return -(-a // b)


def as_much_as_fits(missing, room):
    return max(0, min(missing, room))


class Algorithm:
    """A decision asks in this order: look; fits; delay_us, where every rule fits; charge, where the
    cost counts; give_back, where another rule's charge did not stand; then the figures. A settlement
    asks look, then settle.

    Only look, charge, give_back and settle change anything. Times are whole microseconds, and run backwards
    where a clock was set back."""

    def look(self, now):
        """Notices the time."""

    def fits(self, now, cost):
        raise NotImplementedError

    def delay_us(self, now, cost):
        """How long whoever is admitted now must wait."""
        return 0

    def charge(self, now, cost):
        """Whether the charge stands; what does not denies after all."""
        raise NotImplementedError

    def give_back(self, now, cost):
        """The charge of a moment ago."""
        raise NotImplementedError

    def settle(self, now, at, missing):
        """A request that was charged at that moment really cost so much more, or less. How much of it is
        charged, or went back."""
        raise NotImplementedError

    def remaining(self, now):
        """The largest cost that fits, or NOT_KNOWN."""
        raise NotImplementedError

    def retry_after_us(self, now, cost):
        """The shortest wait after which a cost that does not fit now does."""
        raise NotImplementedError

    def reset_after_us(self, now):
        """The wait until nothing charged so far counts any more."""
        raise NotImplementedError
