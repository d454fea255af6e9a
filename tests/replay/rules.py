"""Rules: what a text like "token-bucket:3/1s,burst=9;fixed-window:100/1h" means, for the oracle."""

import re
from collections import namedtuple

UNITS_US = {"ms": 1_000, "s": 1_000_000, "m": 60_000_000, "h": 3_600_000_000, "d": 86_400_000_000}
RULES_MOST = 8
LIMIT_MOST, COUNT_LIMIT_MOST = 10**9, 2**53
LOG_LIMIT_MOST = 100_000
PERIOD_MOST_US = 400 * UNITS_US["d"]
HOLD_MOST_US = 60 * UNITS_US["s"]
HELD_LEAST_US, HELD_MOST_US = UNITS_US["s"], UNITS_US["h"]
LEASE_MOST_US = UNITS_US["s"]

WINDOWS = ("fixed-window", "sliding-window")
BUCKETS = ("token-bucket", "leaky-bucket")
OPTIONS = {
    "fixed-window": {"count", "lease", "debt"},
    "sliding-window": {"cells", "strict", "count", "lease", "debt"},
    "sliding-log": set(),
    "quota": {"count", "lease", "debt"},
    "token-bucket": {"burst", "lease", "debt"},
    "leaky-bucket": {"queue"},
    "in-flight": {"lease"},
}

LIMITS_MOST = {**dict.fromkeys(OPTIONS, LIMIT_MOST), **dict.fromkeys((*WINDOWS, "quota"), COUNT_LIMIT_MOST),
               "sliding-log": LOG_LIMIT_MOST}

# capacity: the largest cost that ever fits. cells and strict are of sliding windows. Nothing is leased
# here: all that a lease changes is a bucket's capacity. debt: how far beyond the limit settlements charge.
# most: for which limit a bucket's unit of time is chosen.
Rule = namedtuple(
    "Rule", "algorithm limit period_us capacity hold_us count_all cells strict lease_us debt most"
)


class Malformed(Exception):
    """A rule, a duration or a request that is not what it should be."""


def parse_duration(text):
    """Microseconds of "250ms", "10s", or of a unit alone."""
    match = re.fullmatch(r"([0-9]*)(ms|s|m|h|d)", text)
    if not match:
        raise Malformed(f"duration '{text}': expected a number and ms, s, m, h or d")
    return int(match[1] or 1) * UNITS_US[match[2]]


def parse_number(text, least, most):
    if not re.fullmatch(r"[0-9]+", text) or not least <= int(text) <= most:
        raise Malformed(f"'{text}': expected {least} to {most}")
    return int(text)


def parse_options(algorithm, texts):
    """The values of options by name; only those that were given."""
    values = {}
    for text in texts:
        name, _, value = text.partition("=")
        if name in values or name not in OPTIONS[algorithm] | {"hold", "most", "name"}:
            raise Malformed(f"option '{text}' is given twice or does not belong to {algorithm}")
        if name == "cells" and value not in ("1", "2", "4", "8", "16", "32", "64"):
            raise Malformed(f"'{text}': expected a power of two, 1 to 64")
        if name == "count" and value not in ("all", "admitted"):
            raise Malformed(f"'{text}': expected all or admitted")
        values[name] = value
    return values


def find_capacity(algorithm, limit, period_us, lease_us, values):
    if algorithm not in BUCKETS:
        return limit
    if algorithm == "token-bucket":
        capacity = parse_number(values.get("burst", str(limit)), 1, LIMIT_MOST)
    else:
        capacity = parse_number(values.get("queue", "0"), 0, LIMIT_MOST - 1) + 1
    if capacity * period_us > PERIOD_MOST_US * limit:
        raise Malformed("burst or queue: a full one must drain within 400d")
    reserve = -(-limit * lease_us // period_us)
    if 4 * limit * lease_us > capacity * period_us or reserve >= capacity:
        raise Malformed("lease: a quarter of what a full bucket takes to fill is the most")
    return capacity - reserve


def parse_rule(text):
    head, *option_texts = text.split(",")
    match = re.fullmatch(r"([a-z-]+):([0-9]+)/([0-9a-z]+)", head)
    if not match or match[1] not in OPTIONS:
        raise Malformed(f"rule '{text}': expected ALGORITHM:LIMIT/PERIOD[,option...]")
    algorithm = match[1]
    limit_most = LIMITS_MOST[algorithm]
    limit = parse_number(match[2], 1, limit_most)
    period_us = parse_duration(match[3])
    if not 1_000 <= period_us <= PERIOD_MOST_US:
        raise Malformed(f"rule '{text}': expected a period of 1ms to 400d")
    if algorithm == "in-flight" and not HELD_LEAST_US <= period_us <= HELD_MOST_US:
        raise Malformed(f"rule '{text}': expected a period of 1s to 1h")
    values = parse_options(algorithm, option_texts)
    hold_us = parse_duration(values["hold"]) if "hold" in values else 0
    if "hold" in values and not 1_000 <= hold_us <= HOLD_MOST_US:
        raise Malformed(f"rule '{text}': expected a hold of 1ms to 60s")
    lease_us = parse_duration(values["lease"]) if "lease" in values else 0
    if "lease" in values and not 1_000 <= lease_us <= LEASE_MOST_US:
        raise Malformed(f"rule '{text}': expected a lease of 1ms to 1s")
    if lease_us > 0 and values.get("count") == "all":
        raise Malformed(f"rule '{text}': expected no lease with count=all")
    capacity = find_capacity(algorithm, limit, period_us, lease_us, values)
    debt = parse_number(values.get("debt", "0"), 0, capacity)
    if debt > 0 and values.get("count") == "all":
        raise Malformed(f"rule '{text}': expected no debt with count=all")
    most = parse_number(values.get("most", str(limit)), limit, limit_most)
    if "most" in values and debt > most:
        raise Malformed(f"rule '{text}': expected a debt of most= or less")
    return Rule(
        algorithm,
        limit,
        period_us,
        capacity,
        hold_us,
        count_all=values.get("count") == "all",
        cells=int(values.get("cells", 4)),
        strict="strict" in values,
        lease_us=lease_us,
        debt=debt,
        most=most,
    )


def parse_rules(text):
    """The rules that are one decision, in the order of the text."""
    rules = [parse_rule(part) for part in text.split(";")]
    if len(rules) > RULES_MOST:
        raise Malformed(f"'{text}': expected {RULES_MOST} rules at most")
    logs = [rule for rule in rules if rule.algorithm == "sliding-log"]
    if len({rule.period_us for rule in logs}) < len(logs):
        raise Malformed(f"'{text}': expected one sliding-log a period")
    if len({rule.lease_us > 0 for rule in rules}) > 1:
        raise Malformed(f"'{text}': expected a lease for all rules or for none")
    only_windows = all(rule.algorithm in WINDOWS for rule in rules)
    if len(rules) > 1 and not only_windows and any(rule.count_all for rule in rules):
        raise Malformed(f"'{text}': expected count=all alone or among windows")
    return rules
