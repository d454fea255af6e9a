#!/usr/bin/env python3
"""Generated traces: what real ones do not contain. The same arguments give the same trace.

    traces.py NAME [--seed N] [--lines N] [--rule RULE]

Lines are "TIME_MS KEY COST". The rule sets the scale: times cluster around its period and cells,
costs around its limit.
"""

import argparse
import random
import sys

import oracle

START_MS = 1_700_000_000_123
COST_MOST = oracle.COST_MOST
ODD_KEYS = [
    b"%", b"%41", b"%%", b"{", b"}", b"{}", b"}{", b"{a}", b"a}:{b", b":", b"a:b", b"a%3Ab", b"'",
    b'"', b"\\", b"\\n", b"#", b"-1", b"0", b"*", b"$5", b"get", b"noreply", b"\xc3\xa4", b"\xe2\x82\xac",
    b"\xf0\x9f\x9a\xb0", b"\xff\xfe", b"\xc3", b"\x01", b"\x7f", b"\xc2\xa0", b"~", b"A", b"a",
    b"k" * 250, b"k" * 251, b"k" * 5000, b"k" * 4999 + b"l", b"\xc3\xa4" * 100,
]  # fmt: skip


class Scale:
    """The lengths and sizes of a rule that are worth hitting."""

    def __init__(self, rule):
        self.limit = rule.limit
        self.period_ms = rule.period_us // 1000
        self.cell_us = oracle.ceil_divide(rule.period_us, rule.cells)
        self.period_us = rule.period_us


def some_cost(draw, scale):
    """Mostly small, now and then about the limit."""
    pick = draw.random()
    if pick < 0.6:
        return max(1, draw.randint(1, 4) * scale.limit // 16)
    if pick < 0.8:
        return 1
    return min(COST_MOST, max(1, scale.limit + draw.randint(-2, 1)))


def some_gap_ms(draw, scale, per_period):
    return int(draw.expovariate(per_period / scale.period_ms))


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
    """A clock that steps back a little (held), back a lot (believed) and ahead by years."""
    now = START_MS
    back_ms = (1_001, 1_500, 5_000, 60_000, 86_400_000, 40 * 86_400_000)
    while True:
        pick = draw.random()
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
        yield now, b"step-%d" % draw.randrange(2), some_cost(draw, scale)


def ahead(draw, scale):
    """A clock set right again and again by just over what is held back, across the edge of a cell,
    so that the cell ahead of the current one already holds something."""
    cell = START_MS * 1000 // scale.cell_us
    while True:
        edge_ms = oracle.ceil_divide(cell * scale.cell_us, 1000)
        early_ms = draw.randint(1, 1_200)
        for now in (edge_ms + draw.randint(0, 900), edge_ms - early_ms, edge_ms - early_ms + 1):
            for _ in range(draw.randint(1, 2)):
                yield now, b"ahead", max(1, some_cost(draw, scale) // 2)
        cell += draw.choice((1, 1, 2))


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
    sizes = (COST_MOST, COST_MOST - 1, 2**31 - 2, 2**30, 2**16, scale.limit, scale.limit + 1)
    while True:
        now += some_gap_ms(draw, scale, 10)
        cost = draw.choice(sizes) if draw.random() < 0.5 else some_cost(draw, scale)
        yield now, b"huge-%d" % draw.randrange(2), cost


def keys(draw, scale):
    """Keys that a server, a printf or a key encoding could misread."""
    now = START_MS
    while True:
        now += some_gap_ms(draw, scale, 150)
        yield now, draw.choice(ODD_KEYS), some_cost(draw, scale)


TRACES = {
    make.__name__: make
    for make in (costs, boundary, bursts, hot, steps, ahead, many, origin, last, huge, keys)
}


def generate(name, rule, lines, seed=1):
    """The trace as bytes."""
    draw = random.Random(f"{name} {seed}")
    requests = TRACES[name](draw, Scale(rule))
    return b"".join(b"%d %s %d\n" % next(requests) for _ in range(lines))


def main():
    parser = argparse.ArgumentParser(description="Writes a generated trace to standard output.")
    parser.add_argument("name", choices=TRACES)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--lines", type=int, default=1000)
    parser.add_argument("--rule", default="sliding-window:100/10s", type=oracle.parse_rule)
    options = parser.parse_args()
    trace = generate(options.name, options.rule, options.lines, options.seed)
    sys.stdout.buffer.write(trace)


if __name__ == "__main__":
    main()
