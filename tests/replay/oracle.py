#!/usr/bin/env python3
"""The slow, exact oracle: what every request of a trace must be answered under one rule or several.

A second implementation of every algorithm, written from the definitions and sharing nothing with
the library. It keeps everything it ever charged, works in whole numbers only, and searches where the
library computes. Its output is that of `weir replay`, byte for byte.

    oracle.py --rule 'token-bucket:3/1s;quota:100/1h' [--deadline 20ms] [--clock-error 10ms] FILE|-
    oracle.py --selftest

rules.py reads rule texts; windows.py, sliding_log.py, quota.py and buckets.py hold the algorithms
(algorithm.py: what they have in common); here several rules become one decision.
"""

import argparse
import gzip
import re
import subprocess
import sys
from collections import namedtuple

from algorithm import NOT_KNOWN
from buckets import Bucket
from in_flight import InFlight
from quota import Quota
from rules import Malformed, parse_duration, parse_rules
from sliding_log import Log, SlidingLog
from windows import FixedWindow, SlidingWindow

COST_MOST = 2**31
TIME_MOST_MS = 253_402_300_799_999  # the end of year 9999
NEVER = -1
LEAVE = "leave"
ESTIMATE, REAL = b"~", b"="  # before a cost

# rule: whose figures these are; 0 is the first of the text.
Decision = namedtuple(
    "Decision", "allowed limit remaining retry_after_us reset_after_us delay_us rule", defaults=[0]
)


RELEASED = Decision(True, 0, 0, 0, 0, 0)

# The same of a settlement; charged: what it comes to be charged. Without an open estimate, nothing is.
Settlement = namedtuple("Settlement", Decision._fields + ("charged",))
NOTHING = Settlement(False, 0, 0, 0, 0, 0, 0, 0)


class Guard:
    """Holds back small backward steps of the clock; larger ones are believed."""

    def __init__(self, clock_error_us):
        self.held_us, self.last = max(clock_error_us, 1_000_000), None

    def pass_on(self, now):
        if self.last is None or now >= self.last or self.last - now > self.held_us:
            self.last = now
        return self.last


def make_algorithms(rules, deadline_us, clock_error_us):
    """Rules that are logs read one log, which the first of them writes."""
    logs = [rule for rule in rules if rule.algorithm == "sliding-log"]
    log = Log(max((rule.period_us for rule in logs), default=0))
    return [
        SlidingLog(rule, 2 * clock_error_us + deadline_us, log, rule is logs[0])
        if rule.algorithm == "sliding-log"
        else make_algorithm(rule, deadline_us, clock_error_us)
        for rule in rules
    ]


def make_algorithm(rule, deadline_us, clock_error_us):
    margin_us = 2 * clock_error_us + deadline_us
    if rule.algorithm == "fixed-window":
        return FixedWindow(rule)
    if rule.algorithm == "sliding-window":
        return SlidingWindow(rule, margin_us)
    if rule.algorithm == "quota":
        return Quota(rule, margin_us)
    if rule.algorithm == "in-flight":
        return InFlight(rule, deadline_us, clock_error_us)
    return Bucket(rule, deadline_us, clock_error_us)


class Key:
    """One key under all rules: all of them admit, or nothing is charged."""

    def __init__(self, rules, *margins):
        self.rules = rules
        self.algorithms = make_algorithms(rules, *margins)
        self.latest, self.clock_ran_back = 0, False
        self.estimate = None  # moment, cost and decision of one that is not settled yet
        self.held = []  # costs of what is inside, the oldest first
        self.holds = any(rule.algorithm == "in-flight" for rule in rules)

    def fit(self, now, cost):
        return [algorithm.fits(now, cost) for algorithm in self.algorithms]

    def decide(self, now, cost):
        for algorithm in self.algorithms:
            algorithm.look(now)
        fit = self.fit(now, cost)
        delay_us = 0
        if all(fit):
            delay_us = max(algorithm.delay_us(now, cost) for algorithm in self.algorithms)
            fit = self.charge(now, cost)
        if not all(fit):
            fit = self.charge_denied(now, cost, fit)
            delay_us = max(rule.hold_us for rule, fits in zip(self.rules, fit) if not fits)
        decision = self.speak(now, cost, fit)._replace(delay_us=delay_us)
        if self.holds and decision.allowed:
            self.held.append(cost)
        if not self.holds:
            self.check_retry(now, cost, decision)
        return decision

    def leave(self):
        """The first to come leaves; its other charges stay. Its cost, 0 where there is none."""
        if not self.held:
            return 0
        cost = self.held.pop(0)
        for rule, algorithm in zip(self.rules, self.algorithms):
            if rule.algorithm == "in-flight":
                algorithm.release(cost)
        return cost

    def decide_estimate(self, now, cost):
        decision = self.decide(now, cost)
        self.estimate = (now, cost, decision) if decision.allowed else None
        return decision

    def settle(self, now, real):
        """The figures are those of a request that is admitted behind it; of one that was exact they stay."""
        if self.estimate is None:
            return NOTHING
        (at, cost, decision), self.estimate = self.estimate, None
        if real == cost:
            return Settlement(*decision, charged=cost)
        for algorithm in self.algorithms:
            algorithm.look(now)
        settled = [algorithm.settle(now, at, real - cost) for algorithm in self.algorithms]
        figures = self.speak(now, cost, [True] * len(self.rules))
        return Settlement(*figures, charged=cost + min(settled))

    def charge(self, now, cost):
        """Which charges stand. All of them, or none stays."""
        stands = [algorithm.charge(now, cost) for algorithm in self.algorithms]
        for algorithm, good in zip(self.algorithms, stands):
            if good and not all(stands):
                algorithm.give_back(now, cost)
        return stands

    def charge_denied(self, now, cost, fit):
        """Charges a denied request where those count as well. Which rules fit next time: one may deny
        the same request then, because it counts this one."""
        for rule, algorithm in zip(self.rules, self.algorithms):
            if rule.count_all:
                algorithm.charge(now, cost)
        again = self.fit(now, cost)
        return [fits and fits_again for fits, fits_again in zip(fit, again)]

    def speak(self, now, cost, fit):
        """The rule that denies longest has the word, else the one with least remaining; the first of
        equals. A figure that is not known counts as most."""
        remaining = [algorithm.remaining(now) for algorithm in self.algorithms]
        retry_after_us = [
            0 if fits else algorithm.retry_after_us(now, cost)
            for algorithm, fits in zip(self.algorithms, fit)
        ]
        numbers = range(len(self.rules))
        if all(fit):
            rule = min(numbers, key=lambda n: (remaining[n] == NOT_KNOWN, remaining[n]))
        else:
            rule = max(numbers, key=lambda n: retry_after_us[n])
        reset_after_us = max(algorithm.reset_after_us(now) for algorithm in self.algorithms)
        limit = self.rules[rule].capacity
        figures = limit, remaining[rule], retry_after_us[rule], reset_after_us
        return Decision(all(fit), *figures, delay_us=0, rule=rule)

    def check_retry(self, now, cost, decision):
        """One microsecond less would be too early. Nobody can promise that once a clock was set back,
        and charges of the future may lie ahead."""
        self.clock_ran_back = self.clock_ran_back or now < self.latest
        self.latest = now
        retry = now + decision.retry_after_us
        if not decision.allowed and not self.clock_ran_back:
            assert all(self.fit(retry, cost)) and not all(self.fit(retry - 1, cost))


def find_never(rules, cost):
    """The decision on a cost that the first such rule could never admit."""
    for number, rule in enumerate(rules):
        if cost > rule.capacity:
            unknown = rule.capacity, NOT_KNOWN, NEVER, NOT_KNOWN
            return Decision(False, *unknown, delay_us=rule.hold_us, rule=number)
    return None


def check_cost(rules, cost, mark):
    for number, rule in enumerate(rules, 1):
        if mark and rule.algorithm in ("sliding-log", "leaky-bucket"):
            raise Malformed(f"rule {number} ({rule.algorithm}) cannot be settled")
        if rule.algorithm == "sliding-log" and cost != 1:
            raise Malformed(f"cost {cost} for rule {number} (sliding-log): accepted is 1")


def replay(rules, requests, deadline_us=20_000, clock_error_us=10_000):
    """Decides requests (time_ms, key, cost) in turn; yields (request, decision). Behind the cost of an
    estimate and behind a real one stands the mark."""
    guard = Guard(clock_error_us)
    keys = {}
    for request in requests:
        time_ms, name, cost, mark = (*request, b"")[:4]
        if cost == LEAVE:
            guard.pass_on(time_ms * 1000)
            left = keys[name].leave() if name in keys else 0
            yield (time_ms, name, left), RELEASED
            continue
        check_cost(rules, cost, mark)
        now = guard.pass_on(time_ms * 1000)
        if name not in keys:
            keys[name] = Key(rules, deadline_us, clock_error_us)
        key, never = keys[name], find_never(rules, cost)
        if mark == REAL:
            yield request, key.settle(now, cost)
        elif never is not None:
            key.estimate = None if mark else key.estimate
            yield request, never
        elif mark == ESTIMATE:
            yield request, key.decide_estimate(now, cost)
        else:
            yield request, key.decide(now, cost)


def parse_line(line, number):
    match = re.fullmatch(rb"([0-9]+)[ \t]+([^ \t]+)(?:[ \t]+([~=]?)([0-9]+|leave))?", line)
    if not match or (match[3] and match[4] == b"leave"):
        raise Malformed(f"line {number}: expected TIME_MS KEY [COST]")
    mark = match[3] or b""
    if match[4] == b"leave":
        return int(match[1]), match[2], LEAVE
    time_ms, key, cost = int(match[1]), match[2], int(match[4] or 1)
    if time_ms > TIME_MOST_MS or not (mark != REAL) <= cost <= COST_MOST:
        raise Malformed(f"line {number}: time or cost out of range")
    return (time_ms, key, cost, mark) if mark else (time_ms, key, cost)


def read_requests(data):
    """The requests of a trace, plain or gzip. Keys stay bytes."""
    if data[:2] == b"\x1f\x8b":
        data = gzip.decompress(data)
    return [parse_line(line, number) for number, line in enumerate(data.splitlines(), 1)]


def spell(key):
    """A key as replay writes it: every byte but printable ASCII, and the backslash, by two digits."""
    return b"".join(b"%c" % byte if 0x20 < byte < 0x7f and byte != 0x5c else b"\\x%02x" % byte for byte in key)


def format_line(request, decision):
    time_ms, key, cost, *mark = request
    verdict = b"allowed" if decision.allowed else b"denied"
    if mark == [REAL]:
        cost, verdict = decision.charged, b"settled" if decision.allowed else b"nothing"
    if decision is RELEASED:
        verdict = b"released"
    return b"%d\t%s\t%d\t%s\t%d\t%d\t%d\t%d\t%d\n" % (time_ms, spell(key), cost, verdict, *decision[1:6])


def main():
    parser = argparse.ArgumentParser(description="What every request of a trace must be answered.")
    parser.add_argument("--rule")
    parser.add_argument("--deadline", default="20ms")
    parser.add_argument("--clock-error", default="10ms")
    parser.add_argument("--selftest", action="store_true")
    parser.add_argument("file", nargs="?", default="-")
    options = parser.parse_args()
    if options.selftest:
        return subprocess.call([sys.executable, "-B", "-m", "unittest", "discover"], cwd=sys.path[0])
    if not options.rule:
        parser.error("--rule is missing")
    try:
        rules = parse_rules(options.rule)
        margins = parse_duration(options.deadline), parse_duration(options.clock_error)
        data = sys.stdin.buffer.read() if options.file == "-" else open(options.file, "rb").read()
        for request, decision in replay(rules, read_requests(data), *margins):
            sys.stdout.buffer.write(format_line(request, decision))
    except (Malformed, OSError) as error:
        print(f"oracle: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
