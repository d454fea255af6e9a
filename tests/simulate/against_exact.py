"""Right and wrong decisions, told from the definition by a list that is added up."""


class Expected:
    """Fed with one rule's decisions; adds up what the report should say."""

    def __init__(self, limit, period_us):
        self.limit, self.period_us = limit, period_us
        self.ruled, self.own = {}, {}
        self.allowed = self.wrongly_allowed = self.wrongly_denied = 0
        self.exactly_allowed = self.most = 0

    def _inside(self, history, key, now_us):
        kept = [(at, cost) for at, cost in history.get(key, []) if at > now_us - self.period_us]
        history[key] = kept
        return sum(cost for _, cost in kept)

    def feed(self, now_us, key, cost, allowed):
        used = self._inside(self.ruled, key, now_us)
        fits = used + cost <= self.limit
        if allowed:
            self.allowed += cost
            self.wrongly_allowed += 0 if fits else cost
            self.ruled[key].append((now_us, cost))
            self.most = max(self.most, used + cost)
        else:
            self.wrongly_denied += cost if fits else 0
        if self._inside(self.own, key, now_us) + cost <= self.limit:
            self.own[key].append((now_us, cost))
            self.exactly_allowed += cost
