#!/usr/bin/env python3
"""The slow, exact oracle: what every request of a trace must be answered under one rule.

A second implementation of the window rules, written from their definitions and sharing nothing with
the library. It holds every count it ever made, works in whole numbers only, and searches where the
library computes. Its output is that of `weir replay`, byte for byte.

    oracle.py --rule sliding-window:100/1m [--deadline 20ms] [--clock-error 10ms] FILE|-
    oracle.py --selftest
"""

import argparse
import gzip
import re
import subprocess
import sys
from collections import defaultdict, namedtuple

UNITS_US = {"ms": 1_000, "s": 1_000_000, "m": 60_000_000, "h": 3_600_000_000, "d": 86_400_000_000}
COST_MOST = 2**31
TIME_MOST_MS = 253_402_300_799_999  # the end of year 9999
NEVER = NOT_KNOWN = -1

Rule = namedtuple("Rule", "algorithm limit period_us cells strict count_all")
Decision = namedtuple("Decision", "allowed limit remaining retry_after_us reset_after_us delay_us")


class Malformed(Exception):
    """A rule, a duration or a trace line that does not parse."""


def parse_duration(text):
    """Microseconds of "250ms", "10s", or of a unit alone."""
    match = re.fullmatch(r"([0-9]*)(ms|s|m|h|d)", text)
    if not match:
        raise Malformed(f"duration '{text}': expected a number and ms, s, m, h or d")
    return int(match[1] or 1) * UNITS_US[match[2]]


def parse_rule(text):
    match = re.fullmatch(r"(fixed-window|sliding-window):([0-9]+)/([0-9a-z]+)((?:,[^,]*)*)", text)
    if not match:
        raise Malformed(f"rule '{text}': expected ALGORITHM:LIMIT/PERIOD[,option...]")
    algorithm, limit, period, options = match.groups()
    cells, strict, count_all = 4, False, False
    for option in options.split(",")[1:]:
        name, _, value = option.partition("=")
        if algorithm == "sliding-window" and name == "cells" and value.isdigit():
            cells = int(value)
        elif algorithm == "sliding-window" and option == "strict":
            strict = True
        elif name == "count" and value in ("all", "admitted"):
            count_all = value == "all"
        elif name != "name":
            raise Malformed(f"rule '{text}': option '{option}' does not belong there")
    if cells not in (1, 2, 4, 8, 16, 32, 64):
        raise Malformed(f"rule '{text}': cells must be a power of two, 1 to 64")
    return Rule(algorithm, int(limit), parse_duration(period), cells, strict, count_all)


def ceil_divide(a, b):
    return -(-a // b)


class FixedWindow:
    """Aligned windows: at most `limit` in each. `counts` maps the number of a window to its count."""

    def __init__(self, rule):
        self.limit, self.period_us, self.count_all = rule.limit, rule.period_us, rule.count_all

    def decide(self, counts, now, cost):
        window = now // self.period_us
        to_end = (window + 1) * self.period_us - now
        allowed = counts[window] + cost <= self.limit
        if allowed or self.count_all:
            counts[window] += cost
        remaining = max(0, self.limit - counts[window])
        reset_after = to_end if counts[window] > 0 else 0
        return Decision(allowed, self.limit, remaining, 0 if allowed else to_end, reset_after, 0)


class SlidingWindow:
    """Weighted cells. `counts` maps the number of a cell to its count."""

    def __init__(self, rule, ahead_us):
        self.limit, self.period_us = rule.limit, rule.period_us
        self.strict, self.count_all = rule.strict, rule.count_all
        self.cell_us = ceil_divide(rule.period_us, rule.cells)
        self.upper_most = rule.limit + ceil_divide(2 * rule.limit, rule.cells)
        self.ahead_us = ahead_us

    def oldest(self, now):
        """The cell in which the window that ends now begins."""
        return (now - self.period_us) // self.cell_us

    def oldest_left_us(self, now):
        """How much of that cell is still inside the window."""
        return (self.oldest(now) + 1) * self.cell_us - 1 - (now - self.period_us)

    def seen(self, counts, now):
        """The counts that a decision taken now knows: from the oldest cell to one ahead at most."""
        current = now // self.cell_us
        newest = min((now + self.ahead_us) // self.cell_us, current + 1)
        cells = range(self.oldest(now), newest + 1)
        return {cell: counts[cell] for cell in cells if counts.get(cell, 0) > 0}

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

    def decide(self, counts, now, cost):
        allowed = self.admits(self.seen(counts, now), now, cost)
        if allowed or self.count_all:
            counts[now // self.cell_us] += cost
        seen = self.seen(counts, now)
        remaining = max(0, self.room(self.sums(seen, now)))
        retry_after = 0 if allowed else self.search_retry(seen, now, cost) - now
        reset_after = self.reset_time(seen, now) - now
        return Decision(allowed, self.limit, remaining, retry_after, reset_after, 0)

    def reset_time(self, seen, now):
        """When nothing that is left of the newest cell with a count is inside the window."""
        return (max(seen) + 1) * self.cell_us - 1 + self.period_us if seen else now

    def search_retry(self, seen, now, cost):
        """The first time after now at which the same request is admitted, if nothing else is charged.

        As long as the same cell is the oldest, what is left of it only shrinks, and so do both
        figures: such a stretch admits somewhere if and only if it admits at its end, and from the
        first admitting moment on."""
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
            return low
        raise AssertionError("a cost within the limit fits once every cell has left the window")


class Guard:
    """Holds back small backward steps of the clock; larger ones are believed."""

    def __init__(self, clock_error_us):
        self.held_us, self.last = max(clock_error_us, 1_000_000), None

    def pass_on(self, now):
        if self.last is None or now >= self.last or self.last - now > self.held_us:
            self.last = now
        return self.last


def replay(rule, requests, deadline_us=20_000, clock_error_us=10_000):
    """Decides requests (time_ms, key, cost) in turn; yields (request, decision)."""
    if rule.algorithm == "fixed-window":
        window = FixedWindow(rule)
    else:
        window = SlidingWindow(rule, ahead_us=2 * clock_error_us + deadline_us)
    guard = Guard(clock_error_us)
    counts_of = defaultdict(lambda: defaultdict(int))
    for request in requests:
        time_ms, key, cost = request
        now = guard.pass_on(time_ms * 1000)
        if cost > rule.limit:
            yield request, Decision(False, rule.limit, NOT_KNOWN, NEVER, NOT_KNOWN, 0)
        else:
            yield request, window.decide(counts_of[key], now, cost)


def parse_line(line, number):
    match = re.fullmatch(rb"([0-9]+)[ \t]+([^ \t]+)(?:[ \t]+([0-9]+))?", line)
    if not match:
        raise Malformed(f"line {number}: expected TIME_MS KEY [COST]")
    time_ms, key, cost = int(match[1]), match[2], int(match[3] or 1)
    if time_ms > TIME_MOST_MS or not 1 <= cost <= COST_MOST:
        raise Malformed(f"line {number}: time or cost out of range")
    return time_ms, key, cost


def read_requests(data):
    """The requests of a trace, plain or gzip. Keys stay bytes."""
    if data[:2] == b"\x1f\x8b":
        data = gzip.decompress(data)
    return [parse_line(line, number) for number, line in enumerate(data.splitlines(), 1)]


def format_line(request, decision):
    time_ms, key, cost = request
    verdict = b"allowed" if decision.allowed else b"denied"
    return b"%d\t%s\t%d\t%s\t%d\t%d\t%d\t%d\t%d\n" % (time_ms, key, cost, verdict, *decision[1:])


def main():
    parser = argparse.ArgumentParser(description="What every request of a trace must be answered.")
    parser.add_argument("--rule")
    parser.add_argument("--deadline", default="20ms")
    parser.add_argument("--clock-error", default="10ms")
    parser.add_argument("--selftest", action="store_true")
    parser.add_argument("file", nargs="?", default="-")
    options = parser.parse_args()
    if options.selftest:
        return subprocess.call([sys.executable, "-B", "-m", "unittest", "test_oracle"], cwd=sys.path[0])
    if not options.rule:
        parser.error("--rule is missing")
    try:
        rule = parse_rule(options.rule)
        margins = parse_duration(options.deadline), parse_duration(options.clock_error)
        data = sys.stdin.buffer.read() if options.file == "-" else open(options.file, "rb").read()
        for request, decision in replay(rule, read_requests(data), *margins):
            sys.stdout.buffer.write(format_line(request, decision))
    except (Malformed, OSError) as error:
        print(f"oracle: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
