"""The measurements for docs/performance.md and docs/leases.md: the runs of `weir bench`, and the rows of
the pages' tables in their order. evening.py measures them, duel.py compares two programs by the runs.

A run is one call of `weir bench`. A row is a line of a table: its part and its first cell are those of the
page, and it fills one column. Its cells say where each figure comes from, how it is written, and which
goal it has: `most` or `least`. A figure is a function of what evening.py has measured, `found`:
found.bench(RUN) are the contestants, found.text(PROGRAM) what a program of PROGRAMS printed,
found.served(FIGURE, TITLE, NAME) a ratio of a table of serve_figures.py.
"""

import collections
import re

Run = collections.namedtuple("Run", "core stores rule options rounds seconds", defaults=(21, None))
Row = collections.namedtuple("Row", "part name cells column", defaults=("measured",))
Cell = collections.namedtuple("Cell", "label figure form most least")

# --- weir bench ----------------------------------------------------------------------------------

NEVER = "1000000000/1h"
WINDOW = f"sliding-window:{NEVER}"
BUCKET = f"token-bucket:{NEVER}"
QUOTA = f"quota:{NEVER}"
ONE = "--baseline --keys 100"
MANY = "--baseline --keys 10000 --threads"
PAIRS = "--baseline-pair --keys 10000 --threads"
BATCH = "--keys 1000 --batch"
EIGHT = "--baseline --hot --processes 8 --threads 4"
FULL = "--hot --processes 8 --threads 4"
THREADS = (2, 4, 8, 16, 32)
LEASED_BUCKET = "token-bucket:20000/1s,burst=2000,lease=10ms"
LEASED_WINDOW = "sliding-window:20000/1s,lease=10ms"

# `core`: the client's, where it has one; servers are on core 1, beside "one core" on the client's, and
# under "free" on both. `stores`: M memcached, R Redis, E the embedded one. Turns are short: what slows the
# machine for a while slows neighbours alike. `seconds` of each contestant; None: as evening.py is told.
RUNS = {
    "one": Run(0, "MR", WINDOW, ONE),
    "one core": Run(0, "MR", WINDOW, ONE),
    "32 hot": Run(None, "MR", WINDOW, "--baseline --hot --threads 32"),
    "32 hot bucket": Run(None, "M", BUCKET, "--baseline --hot --threads 32"),
    "batch 64": Run(None, "MR", WINDOW, f"--baseline-pair {BATCH} 64"),
    "batch 64 bucket": Run(None, "R", BUCKET, f"--baseline-pair {BATCH} 64"),
    "batch 8": Run(None, "M", WINDOW, f"--baseline {BATCH} 8"),
    "batch 256": Run(None, "M", WINDOW, f"--baseline {BATCH} 256"),
    "denied": Run(None, "M", "fixed-window:1/1d", "--hot"),
    **{f"memory {keys} {threads}": Run(None, "E", WINDOW, f"--keys {keys} --threads {threads}")
       for keys in (1000, 100000) for threads in (1, 2)},
    **{f"{cells} cells": Run(0, "M", f"{WINDOW},cells={cells}", ONE) for cells in (1, 16, 64)},
    **{f"{keys} keys": Run(0, "M", WINDOW, f"--baseline --keys {keys}") for keys in (10000, 100000)},
    "fixed window": Run(0, "MR", f"fixed-window:{NEVER}", ONE),
    "quota": Run(0, "MR", QUOTA, ONE),
    "token bucket": Run(0, "MR", BUCKET, ONE),
    "leaky bucket": Run(0, "MR", f"leaky-bucket:{NEVER}", ONE),
    "two rules": Run(0, "MR", f"{WINDOW};{BUCKET}", ONE),
    "three rules": Run(0, "MR", f"{WINDOW};{BUCKET};{QUOTA}", ONE),
    **{f"{threads} threads": Run(None, "MR", WINDOW, f"{MANY} {threads}") for threads in THREADS},
    **{f"{threads} threads, pairs": Run(None, "R", WINDOW, f"{PAIRS} {threads}") for threads in THREADS},
    "no cached cells": Run(0, "M", WINDOW, "--keys 100 --no-cached-cells"),
    "no combining": Run(None, "M", WINDOW, "--hot --threads 32 --no-combining"),
    "no pipelining": Run(None, "m", WINDOW, "--keys 10000 --threads 32"),
    "no local denial": Run(None, "M", "fixed-window:1/1d", "--hot --no-local-denial"),
    "place": Run(0, "MR", "in-flight:1000/10s", ONE),
    "place kept": Run(0, "MR", "in-flight:1000/10s,lease=1s", "--baseline --hot"),
    "leased, 8 of 4, window": Run("free", "MR", f"{WINDOW},lease=10ms", EIGHT, 5, 5),
    "leased, 8 of 4, bucket": Run("free", "MR", f"{BUCKET},lease=10ms", EIGHT, 5, 5),
    "leased, one, window": Run("free", "MR", f"{WINDOW},lease=10ms", "--baseline --hot", 5, 5),
    "leased, one, bucket": Run("free", "MR", f"{BUCKET},lease=10ms", "--baseline --hot", 5, 5),
    "8 of 4, window": Run("free", "MR", WINDOW, EIGHT, 5, 5),
    "8 of 4, bucket": Run("free", "MR", BUCKET, EIGHT, 5, 5),
    "full bucket, leased": Run("free", "MR", LEASED_BUCKET, FULL, 5, 10),
    "full bucket": Run("free", "MR", LEASED_BUCKET, f"{FULL} --no-leases", 5, 10),
    "full window, leased": Run("free", "MR", LEASED_WINDOW, FULL, 5, 10),
    "full window": Run("free", "MR", LEASED_WINDOW, f"{FULL} --no-leases", 5, 10),
}
STORES = {"M": "memcached", "m": "memcached", "R": "Redis", "E": "memory:"}

# --- other programs --------------------------------------------------------------------------------

# BUILD, DEV and MODULES are folders, WEIR the program. SHORT has what a try adds to the words of a program, or
# puts in place of all but the first.
SERVERS = ["BUILD/tests/fixture/with_servers"]
PYTHON = ["python3", "-B"]
PROGRAMS = {
    "allocations": SERVERS + ["BUILD/tests/limiter/test_limiter_allocations"],
    "limiter weight": ["BUILD/tests/attack/test_attack_weight"],
    "renewals, memcached": SERVERS + ["BUILD/tests/bench/renewals", "--store", "WEIR_TEST_MEMCACHED_META"],
    "renewals, Redis": SERVERS + ["BUILD/tests/bench/renewals", "--store", "WEIR_TEST_REDIS"],
    "share, memcached": SERVERS + ["BUILD/tests/race/in_flight_share", "--store", "WEIR_TEST_MEMCACHED_META"],
    "share, Redis": SERVERS + ["BUILD/tests/race/in_flight_share", "--store", "WEIR_TEST_REDIS"],
    "places": PYTHON + ["tests/serve/test_places.py", "Stores.test_a_thousand_connections_that_end"],
    "in process": ["BUILD/tests/bench/in_process", "5", "200"],
    "weight": SERVERS + PYTHON + ["tests/bench/weight.py", "BUILD/tests/bench/weight_take", "WEIR", "none"],
    "walk": PYTHON + ["tests/bench/walk.py", "--program", "DEV/tests/bench/walk_take"],
    "side by side": ["/usr/bin/python3", "-B", "tests/bench/side_by_side.py", "--weir", "WEIR", "--seconds", "0.8",
                     "--rounds", "5", "--modules", "MODULES"],
}
SHORT = {"renewals": ["--periods", "1"], "share": ["--seconds", "3", "--least", "0"], "in process": ["1", "20"],
         "side by side": ["--seconds", "0.1", "--rounds", "1"]}

# --- how figures are read and written -----------------------------------------------------------------


def times(value):
    if value < 0.0005:
        return "below 0.001x"
    return f"{value:.3f}x" if value < 0.1 else f"{value:.2f}x" if value < 10 else f"{value:.0f}x"


def plain(digits, unit=""):
    return lambda value: f"{value:,.{digits}f}{unit}"


def rounded(value):
    """Three digits of a rate."""
    scale = 10 ** max(len(str(int(value))) - 3, 0)
    return f"{round(value / scale) * scale:,} decisions/s"


def millions(value):
    return f"{value / 1e6:.1f} million"


MS, PERCENT = plain(1, " ms"), plain(1, " %")
WORDS = {"p50": "p50_us", "p99": "p99_us", "rate": "decisions_per_second", "commands": "commands_per_decision",
         "admitted": "admitted", "allowed": "allowed", "late": "late_share"}


def contestant(found, run, store):
    own = [line for line in found.bench(run) if not line["raw_loop"]]
    return own[[STORES[letter] for letter in RUNS[run].stores].index(store)]


def cell(label, figure, form, most=None, least=None):
    return Cell(label, figure, form, most, least)


def over(run, store, word, label=None, **goal):
    """A figure over the raw loop's."""
    return cell(store if label is None else label,
                lambda found: contestant(found, run, store)["ratio_to_raw_loop"][WORDS[word]], times, **goal)


def own(run, store, word, form, label=None, **goal):
    return cell(store if label is None else label,
                lambda found: contestant(found, run, store)["median"][WORDS[word]], form, **goal)


def printed(program, pattern, form=plain(0), label="", at=max, **goal):
    """The only group of the pattern in what a program has printed; of several matches the largest, or number `at`."""
    def figure(found):
        values = [float(value.replace(",", "")) for value in re.findall(pattern, found.text(program))]
        if not values:
            raise LookupError(f"\"{program}\" has not printed {pattern}")
        return at(values) if callable(at) else values[at]
    return cell(label, figure, form, **goal)


def served(name, title, row, label, form=times, **goal):
    return cell(label, lambda found: found.served(name, title, row), form, **goal)


def told(name, pattern, form, label="", **goal):
    """The figures that serve_figures.py says in a sentence."""
    return printed(f"serve {name}", pattern, form, label, **goal)


def both(run, word, memcached, redis, label=""):
    goals = ({}, {}) if memcached is None else [{memcached[0]: goal} for goal in (memcached[1], redis)]
    return [over(run, store, word, label + store, **goal) for store, goal in zip(("memcached", "Redis"), goals)]


# --- docs/performance.md --------------------------------------------------------------------------

SPEED = [
    Row("speed", "one thread, sliding window of 4 cells, memcached, p50, server on the other core",
        [over("one", "memcached", "p50", "", most=1.05)]),
    Row("speed", "the same, server and client on one core", [over("one core", "memcached", "p50", "", most=1.15)]),
    Row("speed", "one thread, Redis, p50, two cores", [over("one", "Redis", "p50", "", most=1.10)]),
    Row("speed", "the same on one core", [over("one core", "Redis", "p50", "", most=1.35)]),
    Row("speed", "commands per decision", [own("one", "memcached", "commands", plain(2), most=1.05),
                                           own("one", "Redis", "commands", plain(2), most=2.05)]),
    Row("speed", "the same, token bucket on Redis", [own("token bucket", "Redis", "commands", plain(2), "", most=2.1)]),
    Row("speed", "32 threads, 10,000 keys", both("32 threads", "rate", ("least", 2), 2)
        + both("32 threads", "p99", ("most", 0.5), 0.5, "p99 ")),
    Row("speed", "32 threads, one key, sliding window", both("32 hot", "rate", ("least", 3), 3)),
    Row("speed", "32 threads, one key, token bucket on memcached", [over("32 hot bucket", "memcached", "rate", "", least=1)]),
    Row("speed", "32 threads in 8 processes, one key, `lease=10ms`", [
        cell("least of four", lambda found: min(
            contestant(found, f"leased, 8 of 4, {rule}", store)["ratio_to_raw_loop"]["decisions_per_second"]
            for rule in ("window", "bucket") for store in ("memcached", "Redis")), times, least=20)]),
    Row("speed", "batches of 64 keys, over raw pipelining", [over("batch 64", "memcached", "rate", least=0.8),
                                                            over("batch 64", "Redis", "rate", least=0.9)]),
    Row("speed", "the same, token bucket on Redis, over the pair", [over("batch 64 bucket", "Redis", "rate", "", least=0.75)]),
    Row("speed", "a key over its limit, one thread", [own("denied", "memcached", "rate", millions, "", least=5e6)]),
    Row("speed", "embedded store, one thread", [own("memory 100000 1", "memory:", "rate", millions, "100,000 keys", least=2e6),
                                                own("memory 1000 1", "memory:", "rate", millions, "1,000 keys", least=2e6)]),
    Row("speed", "embedded store, two threads over one", [
        cell(f"{keys:,} keys", lambda found, keys=keys: contestant(found, f"memory {keys} 2", "memory:")["median"]["decisions_per_second"]
             / contestant(found, f"memory {keys} 1", "memory:")["median"]["decisions_per_second"], times, least=1.7)
        for keys in (100000, 1000)]),
    Row("speed", "heap allocations per decision after warm-up",
        [cell("", lambda found: found.text("allocations") and 0, plain(0), most=0)]), # the program asserts it
    Row("speed", "memory of a limiter without use, whatever its `memo_keys`", [
        printed("limiter weight", r"unused: ([\d.]+) KB", plain(1, " KB"), label, at, most=8)
        for label, at in (("one rule", 0), ("eight", 1))]),
    Row("speed", "memory of one that 100 keys have used", [
        printed("limiter weight", r"used by 100 keys: ([\d.]+) KB", plain(0, " KB"), most=64),
        printed("limiter weight", r"store away: ([\d.]+) KB", plain(0, " KB"), "having answered for a store that is away")]),
]
ROUND_TRIP_RULES = {"fixed window": "fixed window", "quota": "quota", "token bucket": "token bucket",
                    "leaky bucket": "leaky bucket", "sliding window and token bucket": "two rules",
                    "these and a quota": "three rules"}
GROWTH = [
    *[Row("growth", f"{cells} cell{'s' if cells > 1 else ''}", [over("one" if cells == 4 else f"{cells} cells", "memcached", "p50", "")])
      for cells in (1, 4, 16, 64)],
    Row("growth", "10,000 keys", [over("10000 keys", "memcached", "p50", "")]),
    Row("growth", "100,000 keys", [over("100000 keys", "memcached", "p50", ""),
                                   own("100000 keys", "memcached", "commands", plain(1, " commands"), "")]),
    *[Row("growth", f"batches of {batch}, rate", [over(f"batch {batch}", "memcached", "rate", "")]) for batch in (8, 64, 256)],
    *[Row("growth", f"{threads} threads", [over(f"{threads} threads", store, "rate", "", least=goals.get(threads)),
                                           over(f"{threads} threads", store, "p99", "p99", most=1 if threads == 32 else None)], column)
      for threads in THREADS for column, store, goals in (("memcached", "memcached", {2: .95, 4: 1.2, 8: 1.2, 32: 1.5}),
                                                          ("Redis", "Redis", {2: .95, 4: 1.0, 8: 1.1, 32: 1.8}))],
    *[Row("growth", f"{threads} threads", [over(f"{threads} threads, pairs", "Redis", "rate", ""),
                                           over(f"{threads} threads, pairs", "Redis", "p99", "p99")], "Redis, over the pair")
      for threads in THREADS],
    *[Row("growth", name, [over(run, store, "p50", "")], store) for name, run in ROUND_TRIP_RULES.items()
      for store in ("memcached", "Redis")],
    *[row for name, kept, left in (("`--no-cached-cells`", "one", "no cached cells"),)
      for row in (Row("growth", name, [own(kept, "memcached", "commands", plain(2, " commands a decision"), "")], "with"),
                  Row("growth", name, [own(left, "memcached", "commands", plain(2), "")], "without"))],
    *[row for name, kept, left in (("`--no-combining`, 32 threads on one key", "32 hot", "no combining"),
                                   ("`?pipelining=off` in the store's URL, 32 threads on 10,000 keys", "32 threads", "no pipelining"),
                                   ("`--no-local-denial`, a key over its limit", "denied", "no local denial"))
      for row in (Row("growth", name, [own(kept, "memcached", "rate", rounded, "")], "with"),
                  Row("growth", name, [own(left, "memcached", "rate", rounded, "")], "without"))],
]
WEIGHT = [
    *[Row("weight", name, [printed("weight", rf"{store} {batch}: (\d+) instructions", most=goal)])
      for name, store, batch, goal in (
          ("a take on `memory:`", "memory", 1, 2000), ("on memcached", "memcached", 1, 4500), ("on Redis", "redis", 1, 5200),
          ("in batches of 64 on memcached", "memcached", 64, 3000), ("in batches of 64 on Redis", "redis", 64, 3700),
          ("a denial from memory", "denied", 1, 450), ("`CL.THROTTLE` on `memory:`, one in flight", "cl_throttle", 1, 3500),
          ("`CL.THROTTLE` on `memory:`, 64 in flight", "cl_throttle", 64, 3500))],
    *[Row("walk", f"{what} of a take, `memory:`; memcached", [
        printed("walk", rf"{store}: .*?(\d+) {what}", most=goal) for store, goal in zip(("memory", "memcached"), goals)])
      for what, goals in (("calls", (60, 130)), ("functions", (45, 100)), ("files", (14, 20)))],
]
PLACES = [
    Row("places", "commands of a place, entered and left, its key empty in between", [
        own("place", "memcached", "commands", plain(1), most=2.3), own("place", "Redis", "commands", plain(1), most=5.7)]),
    Row("places", "entering, p50 over the raw loop", both("place", "p50", ("most", 1.1), 1.1)),
    Row("places", "from memory", both("place kept", "p50", ("most", 0.005), 0.005)),
    *[Row("places", f"10,000 places of 1,000 keys are paid for, {store}", [
        printed(f"renewals, {store}", r"payments in ([\d.]+) ms", MS, "1,000 payments in", most=350),
        printed(f"renewals, {store}", r"during a pass: .*longest (\d+) us", lambda us: MS(us / 1000),
                "longest request meanwhile", most=1000)]) for store in ("memcached", "Redis")],
    Row("places", "1,000 RESP connections that hold a place, their process killed: all have left", [
        printed("places", r"have left after (\d+) ms", plain(0, " ms"), most=100)]),
    Row("places", "two processes that want all of 10 places: the smaller share over a minute", [
        printed(f"share, {store}", r"; ([\d.]+) % and", PERCENT, store, least=40) for store in ("memcached", "Redis")]),
]
WEIRS = ("memory:", "memcached", "Redis")


def three(name, title, goals, stores=WEIRS):
    return [served(name, title, f"weir, {store}", store, **goal) for store, goal in zip(stores, goals)]


def leasts(*goals):
    return [{"least": goal} for goal in goals]


SERVER = [
    Row("server", "`CL.THROTTLE`, 50 clients, one request in flight each, over `redis-server` PING",
        three("resp", "50 clients, 1 in flight; over PING", leasts(.95, .8, .8))),
    Row("server", "the same from a client of its own in C", three("throttle", "throttle_client, 50 clients, 1 in flight; over PING", leasts(.95, .8, .6))),
    Row("server", "its p99 over PING", three("throttle", "throttle_client, 50 clients, p99 in us", [{}] * 3)),
    Row("server", "16 in flight each, from that client, over PING", three("throttle", "throttle_client, 50 clients, 16 in flight; over PING", [{}] * 3)),
    Row("server", "one client, p50 over PING, from that client",
        three("throttle", "throttle_client, one client, p50 in us", [{"most": goal} for goal in (1.05, 1.6, 2.1)])),
    Row("server", "50 clients of redis-benchmark over Redis running a Lua GCRA", three("resp", "the same; over Lua GCRA", leasts(1.1, 1, 1))),
    Row("server", "16 in flight each, over the Lua GCRA", three("resp", "50 clients, 16 in flight; over Lua GCRA", leasts(4, 2, 1.3))),
    Row("server", "one hot key with `lease=10ms`, 16 in flight, over the Lua GCRA",
        three("lease", "one hot key, lease=10ms, 16 in flight; over Lua GCRA", leasts(4, 4, 4))),
    Row("server", "one client, p50 over PING",
        three("resp", "one client, p50 in ms; over PING", [{"most": goal} for goal in (1.05, 1.4, 2.1)])),
    Row("server", "a take and its settlement as a little more, over two takes; 50 clients", [
        served("settle", f"a take and its settlement, {store}; over two takes", "take, settle", store, least=.9) for store in WEIRS]),
    Row("server", "a hot key with `lease=1s` beside 500 cold ones, the store 80 ms away", [
        told("far", r"away: p50 ([\d.]+) ms", plain(2, " ms"), "p50", most=.3),
        told("far", r"p99.9 ([\d.]+) ms", MS, "p99.9", most=5), told("far", r"; ([\d.]+) % need", plain(2, " %"), "need no store")]),
    Row("server", "8 limiters in a tick, over one", [served("limiters", "limiters in a tick; over one", "8 limiters", "", least=.9)]),
    Row("server", "p99.9 of requests to another store while one is stopped for 3 s", [
        told("stopped", r"requests ([-+\d.]+) ms", MS, "more by", most=15), told("stopped", r"back after ([\d.]+) s", plain(2, " s"), "back after", most=.5)]),
    Row("server", "reload of 10,000 tiers and 100,000 overrides under load", [
        told("reload", r"reload: (\d+) ms", plain(0, " ms"), most=200), told("reload", r"during \(([\d.]+)x", times, "p99", most=2)]),
    Row("server", "reload of 10,000 descriptors under 2,000 calls of gRPC a second", [
        told("descriptors", r"descriptors: (\d+) ms", plain(0, " ms")), told("descriptors", r"during \(([\d.]+)x", times, "nothing lost, p99", most=2)]),
    Row("server", "HTTP check over nginx `return 200`", [
        served("http", "HTTP, requests a second; over nginx return 200", "weir, /check", "", least=.5)]),
    *[Row("server", f"gRPC, 50 connections, {streams} in flight each, over nghttpd sending as many bytes",
          three("grpc", f"gRPC, 50 connections, {streams} in flight; over nghttpd", leasts(.5, .4), WEIRS[:2])) for streams in (1, 16)],
    Row("server", "nginx with `auth_request` over without", [served("http", "nginx with auth_request; over without", "with", "", least=.5)]),
    Row("server", "memory of an idle connection, outside the kernel", [told("memory", r"idle connection: ([\d.]+) KiB", plain(1, " KiB"), most=16)]),
    Row("server", "1,000 limiters of 20 distinct rules, a key each, the whole process", [
        told("memory", r"([\d.]+) MiB in all", plain(1, " MiB"), most=32)]),
]
INSIDE = [
    Row("inside", name, [printed("in process", rf"{title}.*{pattern}", form, least=goals.get(column))], column)
    for name, title, share, two in (("`memory:`, sliding window, 1,000 keys", "memory:, 1,000 keys", .33, None),
                                    ("the same, 100,000 keys", "memory:, 100,000 keys", .33, None),
                                    ("a denial known from memory, one key", "a denial known from memory", .8, 1.7))
    for goals in ({"share": share, "two threads of weir over one": two},)
    for column, pattern, form in (("plain", r"plain +([\d.]+) M/s", plain(1, " M/s")), ("weir", r"weir +([\d.]+) M/s", plain(2, " M/s")),
                                  ("share", r"share ([\d.]+)", plain(2)), ("two threads of weir over one", r"over one ([\d.]+)", times))
]
# --- docs/leases.md --------------------------------------------------------------------------------


def leased(run, store, rate, p99):
    return [own(run, store, "rate", lambda value: f"{value / 1e6:.2g} M/s", ""), over(run, store, "rate", "", least=rate),
            own(run, store, "p99", lambda us: f"{us:,.{us < 10:d}f} us", "p99"), over(run, store, "p99", "", most=p99)]


LEASES = [
    *[Row("leases", name, leased(run, store, rate, p99), store)
      for name, run, rate, p99 in (("8 processes of 4 threads, window", "leased, 8 of 4, window", 20, .1),
                                   ("8 processes of 4 threads, bucket", "leased, 8 of 4, bucket", 20, .1),
                                   ("one thread, window", "leased, one, window", 25, None),
                                   ("one thread, bucket", "leased, one, bucket", 25, None),
                                   ("without `lease=`: 8 processes of 4 threads, window", "8 of 4, window", None, None),
                                   ("without `lease=`: 8 processes of 4 threads, bucket", "8 of 4, bucket", None, None))
      for store in ("memcached", "Redis")],
    *[Row("leases", name, [own(run, store, "admitted", plain(0), ""), own(run, store, "allowed", plain(0), "of at most"),
                           own(run, store, "late", lambda share: f"{share * 100:.1f} %", "late")], store)
      for name, run in ((f"`{LEASED_BUCKET}`", "full bucket, leased"), ("that bucket with `--no-leases`", "full bucket"),
                        (f"`{LEASED_WINDOW}`", "full window, leased"), ("that window with `--no-leases`", "full window"))
      for store in ("memcached", "Redis")],
]

# Each part's page, and the heading of its tables. "beside" is the tables of side_by_side.py as they are.
PARTS = {"speed": ("performance.md", "# How fast it is"), "growth": ("performance.md", "## How the cost grows"),
         "weight": ("performance.md", "## What a decision executes"), "walk": ("performance.md", "## What a decision executes"),
         "places": ("performance.md", "## In flight"), "server": ("performance.md", "## The server"),
         "inside": ("performance.md", "## Beside a plain limiter inside the process"),
         "beside": ("performance.md", "## Beside other limiters"), "leases": ("leases.md", "## What it gives")}
ROWS = SPEED + GROWTH + WEIGHT + PLACES + SERVER + INSIDE + LEASES
