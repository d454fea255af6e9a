"""The tests of the oracle share this."""

import itertools
import random
import unittest
from collections import defaultdict

import oracle
import traces
from rules import parse_rules

SECOND = 1_000_000
NEVER = (False, -1, -1, -1)


def admitted_in_order(text, trace, lines=300):
    """The charges of a generated trace, after its times were made to run forward: by key, the
    times (microseconds) and costs. Times include the delay. A part of an estimate that went back is not
    in its cost; what was charged for it later is charged then."""
    rules = parse_rules(text)
    requests = sorted(oracle.read_requests(traces.generate(trace, rules, lines)), key=lambda r: r[0])
    admitted, estimates = defaultdict(list), {}
    for (time_ms, key, cost, *mark), decision in oracle.replay(rules, requests):
        if not decision.allowed:
            continue
        if mark == [oracle.REAL]:
            place, estimate = estimates[key]
            admitted[key][place] = (admitted[key][place][0], min(estimate, decision.charged))
            admitted[key].append((time_ms * 1000, max(0, decision.charged - estimate)))
            continue
        estimates[key] = len(admitted[key]), cost
        admitted[key].append((time_ms * 1000 + decision.delay_us, cost))
    return admitted


class Case(unittest.TestCase):
    def check(self, text, *steps, **margins):
        """Each step: time_ms, cost, then (allowed, remaining, retry_after_us, reset_after_us), with
        delay_us if it is not 0."""
        rules = parse_rules(text)
        requests = [(time_ms, b"k", cost) for time_ms, cost, _ in steps]
        for (request, given), step in zip(oracle.replay(rules, requests, **margins), steps):
            with self.subTest(request=request):
                allowed, *figures = step[2]
                figures += [0] * (4 - len(figures))
                wanted = oracle.Decision(allowed, given.limit, *figures, given.rule)
                self.assertEqual(given, wanted)
                self.assertEqual(given.limit, rules[given.rule].capacity)

    def check_by_trying(self, text):
        """remaining and retry_after are what trying every cost and every microsecond finds. For
        periods of about 1 ms, so that this ends."""
        rules = parse_rules(text)
        key = oracle.Key(rules, 20, 10)
        draw, now, denied = random.Random(text), 5_000, 0
        most = min(rule.capacity for rule in rules)
        while denied < 8:
            now += draw.choice((0, 1, 15, 16, 70, 250))
            cost = draw.randint(1, most)
            decision = key.decide(now, cost)
            costs = [c for c in range(1, most + 1) if all(key.fit(now, c))]
            if len(rules) == 1 and decision.remaining != oracle.NOT_KNOWN:
                self.assertEqual(decision.remaining, max(costs, default=0))
            if not decision.allowed:
                denied += 1
                wait = next(x for x in itertools.count(1) if all(key.fit(now + x, cost)))
                self.assertEqual(decision.retry_after_us, wait)
