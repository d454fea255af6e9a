#!/usr/bin/env python3
"""Generated traces: what real ones do not contain. The same arguments give the same trace.

    traces.py [NAME...] [--seed N] [--lines N] [--rule RULE]

Lines are "TIME_MS KEY COST". The rule sets the scale: times cluster around its period and cells,
costs around what it admits. With several rules, each sets it for a while. Keys are named for their
trace, so that several can follow each other; without a name, all do that are worth it.
"""

import argparse
import random
import sys
from math import ceil

import oracle
from algorithm import ceil_divide
from buckets import choose_unit
from rules import BUCKETS, parse_rules

ONES_LIMIT = 7  # where every cost is 1, as many requests are about a limit
CROWD_MOST = 1000
EPOCH_UNITS = 2**52  # after so many, a store without compare-and-swap keeps a bucket under a new key
STRETCH = 20  # lines between two changes of scale
START_MS = 1_700_000_000_123
COST_MOST = oracle.COST_MOST
ODD_KEYS = [
    b"%", b"%41", b"%%", b"{", b"}", b"{}", b"}{", b"{a}", b"a}:{b", b":", b"a:b", b"a%3Ab", b"'",
    b'"', b"\\", b"\\n", b"#", b"-1", b"0", b"*", b"$5", b"get", b"noreply", b"\xc3\xa4", b"\xe2\x82\xac",
    b"\xf0\x9f\x9a\xb0", b"\xff\xfe", b"\xc3", b"\x01", b"\x7f", b"\xc2\xa0", b"~", b"A", b"a",
    b"k" * 250, b"k" * 251, b"k" * 5000, b"k" * 4999 + b"l", b"\xc3\xa4" * 100,
]  # fmt: skip



class Scale:
    """The lengths and sizes of a rule that are worth hitting. In a stretch of the trace the times are
    those of one rule; costs are such that every rule admits them, or the tightest would be the only
    one that ever denies."""

    def __init__(self, rules):
        self.rules = rules
        self.limit = min(COST_MOST, *(rule.capacity for rule in rules))
        self.crowd = min(self.limit, CROWD_MOST)
        self.ones = any(rule.algorithm == "sliding-log" for rule in rules)
        if self.ones:
            self.limit = min(self.limit, ONES_LIMIT)
        units = [choose_unit(rule)[0] for rule in rules if rule.algorithm in BUCKETS]
        self.shortest_ms = min(rule.period_us for rule in rules) // 1000
        self.epoch_ms = EPOCH_UNITS / 1000 / 2 ** max(units, default=0)
        self.turn(0)

    def turn(self, number):
        rule = self.rules[number % len(self.rules)]
        self.period_us = rule.period_us
        if rule.algorithm in BUCKETS:
            self.period_us = rule.period_us * rule.capacity // rule.limit
        self.period_ms = self.period_us // 1000
        self.pace_ms = self.period_us * self.limit / (1000 * rule.capacity)
        self.cell_us = ceil_divide(self.period_us, rule.cells)


def some_cost(draw, scale):
    """Mostly small, now and then about the limit."""
    pick = draw.random()
    if pick < 0.6:
        return max(1, draw.randint(1, 4) * scale.limit // 16)
    if pick < 0.8:
        return 1
    return min(COST_MOST, max(1, scale.limit + draw.randint(-2, 1)))


def some_gap_ms(draw, scale, requests):
    """So many come while the limit may be spent once."""
    return int(draw.expovariate(requests / scale.pace_ms))


def costs(draw, scale):
    """Heavy-tailed costs, a few above the limit; three keys."""
    now = START_MS
    while True:
        now += some_gap_ms(draw, scale, 20)
        cost = int(draw.paretovariate(0.7) * scale.limit / 64)
        yield now, b"cost-%d" % draw.randrange(3), min(max(cost, 1), COST_MOST)


def boundary(draw, scale):
    """Requests where a cell begins, where one leaves the window and where a window begins, and one
    millisecond to either side."""
    now = START_MS
    while True:
        cells = (now * 1000 // scale.cell_us + draw.randint(1, 3)) * scale.cell_us
        windows = (now * 1000 // scale.period_us + 1) * scale.period_us
        edge_us = draw.choice((cells, cells + scale.period_us % scale.cell_us, windows))
        for offset_ms in (-1, 0, 1, 2):
            now = max(now, edge_us // 1000 + offset_ms)
            for _ in range(draw.choice((0, 1, 1, 2))):
                yield now, b"edge-%d" % draw.randrange(2), some_cost(draw, scale)


def bursts(draw, scale):
    """Silence, then many requests within one millisecond or two."""
    now = START_MS
    while True:
        now += some_gap_ms(draw, scale, 2)
        key = b"burst-%d" % draw.randrange(4)
        for _ in range(draw.randint(5, 40)):
            now += draw.random() < 0.05
            yield now, key, max(1, draw.randint(1, 3) * scale.limit // 20)


def hot(draw, scale):
    """One key that takes nearly everything, far over its limit, and two that are lost beside it."""
    now = START_MS
    while True:
        now += some_gap_ms(draw, scale, 200)
        key = draw.choices((b"hot", b"warm", b"cool"), (90, 8, 2))[0]
        yield now, key, max(1, draw.randint(1, 5) * scale.limit // 40)


def steps(draw, scale):
    """A clock that steps back a little (held), back a lot (believed) and ahead by years. Not back to
    an earlier epoch: what a bucket has charged since is then known in some stores only."""
    now = START_MS
    back_ms = (1_001, 1_500, 5_000, 60_000, 86_400_000, 40 * 86_400_000)
    while True:
        pick, before = draw.random(), now
        if pick < 0.10:
            now -= draw.choice((1, 10, 500, 999, 1_000))
        elif pick < 0.16:
            now -= draw.choice(back_ms)
        elif pick < 0.20:
            now -= draw.choice((scale.cell_us // 1000, scale.period_ms, 3 * scale.period_ms))
        elif pick < 0.22:
            now += draw.choice((scale.period_ms, 2 * scale.period_ms + 1))
        elif pick < 0.23:
            now += draw.randint(1, 3) * 366 * 86_400_000
        else:
            now += some_gap_ms(draw, scale, 12)
        now = max(now, 0)
        if now // scale.epoch_ms < before // scale.epoch_ms:
            now = before
        yield now, b"step-%d" % draw.randrange(2), some_cost(draw, scale)


def rolls(draw, scale):
    """Around the begin of an epoch, and as long after it as anything from before may count. Back by
    little, but not over that begin, as in `steps`."""
    now, epoch = START_MS, int(START_MS // scale.epoch_ms)
    while True:
        epoch += 1
        edge_ms = int(epoch * scale.epoch_ms)
        now = edge_ms - draw.randint(0, 2 * scale.period_ms)
        while now < edge_ms + 3 * scale.period_ms + 80_000:
            for _ in range(draw.choice((1, 1, 2, 5))):
                yield now, b"roll-%d" % draw.randrange(2), some_cost(draw, scale)
            now += some_gap_ms(draw, scale, 12)
            if draw.random() < 0.1:
                earlier_ms = now - draw.choice((1, 1_000, 1_500, 3_000))
                now = earlier_ms if (earlier_ms < edge_ms) == (now < edge_ms) else now
            if draw.random() < 0.1:
                now = max(now, edge_ms + draw.randint(-1, 1))
            if draw.random() < 0.1:
                now += 20_000


def ahead(draw, scale):
    """A clock set right again and again by just over what is held back, across the edge of a cell,
    so that the cell ahead of the current one already holds something."""
    edge_us = START_MS * 1000
    while True:
        edge_us = (edge_us // scale.cell_us + draw.choice((1, 1, 2))) * scale.cell_us
        edge_ms = ceil_divide(edge_us, 1000)
        early_ms = draw.randint(1, 1_200)
        for now in (edge_ms + draw.randint(0, 900), edge_ms - early_ms, edge_ms - early_ms + 1):
            for _ in range(draw.randint(1, 2)):
                yield now, b"ahead", max(1, some_cost(draw, scale) // 2)


def echoes(draw, scale):
    """Requests a period after an earlier one, when it leaves the window or its quota ends, or the
    time after it in which a bucket regains a part of its contents; one millisecond to either side."""
    now, earlier = START_MS, [START_MS]
    while True:
        wait_us = scale.period_us * draw.choice((4, 4, 4, 1, 2, 3, 8, 11)) // 4
        if draw.random() < 0.3:
            wait_us = scale.period_us * draw.randint(1, 3) // scale.limit
        echo_ms = draw.choice(earlier) + ceil_divide(wait_us, 1000)
        for offset_ms in (-1, 0, 1):
            now = max(now, echo_ms + offset_ms)
            for _ in range(draw.choice((0, 1, 2))):
                yield now, b"echo-%d" % draw.randrange(2), some_cost(draw, scale)
        earlier = earlier[-9:] + [now]


def crowds(draw, scale):
    """Crowds just before a window's edge, just after it and half a window on, of about half as many
    as the limit where every cost is 1."""
    now = START_MS
    while True:
        edge_us = (now * 1000 // scale.period_us + draw.choice((1, 1, 1, 2))) * scale.period_us
        for place_us in (edge_us - 1_000, edge_us, edge_us + scale.period_us // 2):
            now = max(now, place_us // 1000)
            for _ in range(ceil(scale.crowd * draw.uniform(0.3, 0.7)) if scale.ones else 6):
                now += draw.random() < 0.02
                yield now, b"crowd", some_cost(draw, scale)


def many(draw, scale):
    """Many keys, a few requests each."""
    now = START_MS
    while True:
        now += some_gap_ms(draw, scale, 400)
        yield now, b"user-%d" % draw.randrange(150), some_cost(draw, scale)


def origin(draw, scale):
    """From the first millisecond of the epoch on."""
    now = 0
    while True:
        yield now, b"first-%d" % draw.randrange(2), some_cost(draw, scale)
        now += some_gap_ms(draw, scale, 15)


def last(draw, scale):
    """Up to the last millisecond that a clock may show, and on there."""
    now = oracle.TIME_MOST_MS - 4 * scale.period_ms
    while True:
        yield now, b"last", some_cost(draw, scale)
        now = min(now + some_gap_ms(draw, scale, 15), oracle.TIME_MOST_MS)


def huge(draw, scale):
    """The largest costs there are, among ordinary ones."""
    now = START_MS
    sizes = (COST_MOST, COST_MOST - 1, 2**31 - 2, 2**30, 2**16, scale.limit, min(scale.limit + 1, COST_MOST))
    while True:
        now += some_gap_ms(draw, scale, 10)
        cost = draw.choice(sizes) if draw.random() < 0.5 else some_cost(draw, scale)
        yield now, b"huge-%d" % draw.randrange(2), cost


def visits(draw, scale):
    """Some enter, some leave, most of them at once; and now and then nobody for two periods."""
    now = START_MS
    while True:
        now += some_gap_ms(draw, scale, 40) if draw.random() < 0.98 else 2 * scale.period_ms
        key = b"visit-%d" % draw.randrange(3)
        for _ in range(draw.randint(1, 8)):
            now += draw.random() < 0.3
            yield now, key, oracle.LEAVE if draw.random() < 0.45 else some_cost(draw, scale)


def keys(draw, scale):
    """Keys that a server, a printf or a key encoding could misread."""
    now = START_MS
    while True:
        now += some_gap_ms(draw, scale, 150)
        yield now, draw.choice(ODD_KEYS), some_cost(draw, scale)


def works(draw, scale):
    """Estimates, and what they really cost: soon, or when a cell, a window or all that was charged has
    passed; too low, too high, exact. Some are never settled, and some real costs come twice."""
    now, estimates = START_MS, {}
    while True:
        now += some_gap_ms(draw, scale, 12)
        if draw.random() < 0.08:
            now += draw.choice((scale.cell_us // 1000, scale.period_ms, 2 * scale.period_ms))
        key = b"work-%d" % draw.randrange(3)
        open_ms, cost = estimates.get(key, (0, 0))
        if now - open_ms <= scale.shortest_ms + 40_000_000 and draw.random() < 0.6:
            more = cost + some_cost(draw, scale)
            reals = cost, 0, draw.randint(0, cost), more, 2 * cost, COST_MOST
            yield now, key, min(COST_MOST, draw.choice(reals)), oracle.REAL
            if draw.random() < 0.9:
                del estimates[key]
        else:
            estimates[key] = now, some_cost(draw, scale)
            yield now, key, estimates[key][1], oracle.ESTIMATE


TRACES = {
    make.__name__: make
    for make in (
        costs, boundary, bursts, hot, steps, ahead, echoes, crowds, many, origin, last, huge, keys,
        rolls,
    )
}  # fmt: skip


# For rules whose places are held, alone or among others.
HELD_TRACES = {"visits": visits}

# For rules that can all be settled: only a replay reads it.
SETTLED_TRACES = {"works": works}


def names(rules):
    """Those that are worth it: epochs are of buckets."""
    rolling = any(rule.algorithm in BUCKETS for rule in rules)
    if any(rule.algorithm == "in-flight" for rule in rules):
        return list(HELD_TRACES)
    return [name for name in TRACES if name != "rolls" or rolling]


def settled_names(rules):
    refuse = ("sliding-log", "leaky-bucket", "in-flight")
    return [] if any(rule.algorithm in refuse for rule in rules) else list(SETTLED_TRACES)


def generate(name, rules, lines, seed=1):
    """The trace as bytes."""
    draw = random.Random(f"{name} {seed}")
    scale = Scale(rules)
    requests = (TRACES | HELD_TRACES | SETTLED_TRACES)[name](draw, scale)
    text = []
    for number in range(lines):
        scale.turn(number // STRETCH)
        time_ms, key, cost, mark = (*next(requests), b"")[:4]
        cost = b"leave" if cost == oracle.LEAVE else b"%d" % (1 if scale.ones else cost)
        text.append(b"%d %s %s%s\n" % (time_ms, key, mark, cost))
    return b"".join(text)


def main():
    parser = argparse.ArgumentParser(description="Writes generated traces to standard output.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=" ".join(TRACES | HELD_TRACES | SETTLED_TRACES))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--lines", type=int, default=1000, help="of each trace")
    parser.add_argument("--rule", default="sliding-window:100/10s", type=parse_rules)
    options = parser.parse_args()
    for name in options.names or names(options.rule):
        if name not in TRACES | HELD_TRACES | SETTLED_TRACES:
            parser.error(f"no trace {name}: there are {' '.join(TRACES | HELD_TRACES)}")
        trace = generate(name, options.rule, options.lines, options.seed)
        sys.stdout.buffer.write(trace)


if __name__ == "__main__":
    main()
