"""The differential test replays these: rules, traces, stores."""

import os
from collections import namedtuple

import oracle
import traces
from rules import parse_rules

# All of these replay window rules. Other stores differ only in how they are reached or who may do
# what: they replay a few lines of the trace of real requests, and the generated ones of every fifth rule.
WHOLE = {
    "MEMORY", "MEMCACHED_META", "MEMCACHED_CLASSIC", "MEMCACHED_THREE", "TWEMPROXY",
    "REDIS", "REDIS_TWEMPROXY"
}  # fmt: skip
STORES_EXPECTED = WHOLE | {"MEMCACHED_TLS", "REDIS_TLS"}
FIRST_LINES = 3000
OTHER_LINES = 200
EVERY = 5

# One for each way to carry out operations. Decisions of the other algorithms take longer: the trace
# of real requests goes to these alone. Every other generated trace of a rule goes to one half of
# WHOLE, the rest to the other, and all to MEMORY.
PLAIN = {"MEMORY", "MEMCACHED_META", "MEMCACHED_CLASSIC", "REDIS"}
HALVES = (
    {"MEMORY", "MEMCACHED_CLASSIC", "MEMCACHED_THREE", "REDIS_TWEMPROXY"},
    {"MEMORY", "MEMCACHED_META", "TWEMPROXY", "REDIS"},
)

# Windows, over the trace of real requests and the generated ones.
WINDOW_RULES = [
    "fixed-window:10/1m",
    "fixed-window:100/1h,count=all",
    "fixed-window:100/400d",
    "sliding-window:1/s,cells=1",
    "sliding-window:5/10s",
    "sliding-window:10/7s,cells=16",
    "sliding-window:20/1m,cells=1",
    "sliding-window:20/1m,cells=2",
    "sliding-window:20/1m,cells=4,strict",
    "sliding-window:30/1h,cells=64",
    "sliding-window:50/1h,cells=4,count=all",
    "sliding-window:100/1d,cells=16,strict,count=all",
    "sliding-window:100/30d,cells=16",
    "sliding-window:100/400d,cells=4",
]

# Other algorithms over the whole trace of real requests and the generated ones.
LONGER_RULES = [
    "token-bucket:5/1m",
    "leaky-bucket:10/1m,queue=5",
    "quota:10/1m",
    "fixed-window:2/1s;token-bucket:10/1m,burst=8;sliding-window:30/1h",
]

# Nothing is leased in a replay: what the bucket keeps back for leases shows all the same.
LEASED_BUCKET = "token-bucket:5/1s,burst=8,lease=300ms"

# Several rules that read one log.
SHARED_LOG = "sliding-log:3/10s;sliding-log:8/1m;sliding-log:20/10m"

# Over the first lines of the trace of real requests and the generated ones.
BRIEF_RULES = [
    LEASED_BUCKET,
    "token-bucket:1/1s,burst=3,hold=20ms",
    "fixed-window:2/1s,lease=1s;token-bucket:10/1m,burst=8,lease=500ms;quota:30/1h,lease=20ms",
    "token-bucket:1/400d",
    "leaky-bucket:1/1s",
    "quota:10/1m,count=all",
    "quota:8/400d,hold=1m",
    "sliding-log:5/10s",
    "sliding-log:20/1h",
    "fixed-window:3/1s;sliding-window:12/1m,cells=8",
    "quota:20/1h;sliding-log:5/1m,hold=50ms",
    SHARED_LOG,
]

# Places are held until they are released: in a period that leaves time to pay again under the deadline here.
HELD_RULES = [
    "in-flight:5/1m",
    "in-flight:20/1h,hold=5ms",
    "in-flight:8/1m;fixed-window:12/10s;token-bucket:40/1m,burst=20",
]

# A debt shows where real costs are above their estimates: the generated trace "works" has them.
DEBT_RULES = [
    "sliding-window:20/1m,debt=9",
    "sliding-window:20/1m,cells=1,debt=20",
    "quota:10/1m,debt=3",
    "token-bucket:5/1m,burst=8,debt=5",
    "fixed-window:4/1s,debt=2;token-bucket:10/1m,debt=10;sliding-window:30/1h,strict,debt=5",
]

# Generated traces of these go to every store.
EVERYWHERE_RULES = LONGER_RULES + HELD_RULES + DEBT_RULES + ["sliding-log:5/10s", SHARED_LOG, LEASED_BUCKET]

# Windows over the generated traces only: short periods, odd ones, and limits to either side of every step
# that a packed layout could take.
MORE_WINDOW_RULES = [
    "fixed-window:1/ms",
    "fixed-window:1000000000/1d",
    "sliding-window:3/1ms,cells=64",
    "sliding-window:3/20ms",
    "sliding-window:77/1001ms,cells=8,strict",
    "sliding-window:100/31d",
    "sliding-window:1000/10s,cells=4",
    "sliding-window:5000/1m",
    "sliding-window:10000/1m",
    "sliding-window:12000/1m",
    "sliding-window:30000/1m,cells=2",
    "sliding-window:1000000/1h,cells=8",
    "sliding-window:1000000/1h,cells=2",
    "sliding-window:1000000/1h,cells=32,count=all",
    "sliding-window:600000000/1d,cells=1",
    "sliding-window:1000000000/30d,cells=4",
    "sliding-window:1000000000/400d,cells=64,strict",
    "sliding-window:1000000000/10s,cells=16,name=other.name_-1",
    "sliding-window:9/10s,cells=8,lease=1s",
    "sliding-window:9/10s,most=5000",
    "sliding-window:9007199254740992/1h,cells=2",
]

# The same of other algorithms.
OTHER_RULES = [
    "token-bucket:3/1s",
    "token-bucket:3/1s,most=5000000",
    "token-bucket:7/1s,burst=20",
    "token-bucket:1000/1d,burst=1",
    "token-bucket:1000/1ms,burst=30",
    "token-bucket:300000/1s",
    "token-bucket:1000000000/1s",
    "token-bucket:1000000000/400d,burst=1000000",
    "leaky-bucket:5/1s",
    "leaky-bucket:7/1s,queue=100,hold=1s",
    "leaky-bucket:300000/1s,queue=65535",
    "leaky-bucket:100/400d,queue=99",
    "quota:3/1ms",
    "quota:100/400d",
    "quota:1000000000/1h,count=all",
    "quota:9007199254740992/1h",
    "sliding-log:1/1ms",
    "sliding-log:3/7s,hold=5ms",
    "sliding-log:30/400d",
    "sliding-log:9/1m,hold=7ms;sliding-log:4/1s;sliding-log:6/7s,hold=5ms",
    "sliding-log:4/3s;token-bucket:9/1m,burst=7;sliding-log:12/1m;fixed-window:6/10s",
    "sliding-log:9/10s;sliding-log:5/1m",
    "sliding-log:2/1ms,name=a;sliding-log:30/400d,name=a",
    "fixed-window:6/10s,count=all,hold=1s;sliding-window:9/1m,count=all",
    "token-bucket:3/1s;token-bucket:10/1m,burst=9",
    "leaky-bucket:5/1s,queue=3,hold=10ms;token-bucket:300000/1s,burst=6;quota:9/1m",
    "quota:5/10s;quota:8/1m,name=second;sliding-log:7/20s",
    "fixed-window:4/1s;fixed-window:6/3s;sliding-window:8/9s;quota:10/30s;token-bucket:9/1m,burst=12;"
    "leaky-bucket:12/3m,queue=13;sliding-window:16/10m,cells=16,strict;sliding-log:18/1h",
]

# More requests than a log of this size admits.
LARGE_LOG = "sliding-log:1000/1m"
LARGE_LOG_LINES = 2600

# Knowledge kept in the process must not show in what is decided.
SWITCHES = [["--no-local-denial"], ["--no-cached-cells"], ["--no-local-denial", "--no-cached-cells"]]
SWITCHED_RULES = WINDOW_RULES[0:2] + WINDOW_RULES[4:6] + WINDOW_RULES[8:11] + ["sliding-window:3/20ms"]
SWITCHED_RULES += ["token-bucket:3/1s", "leaky-bucket:1/1s", "quota:10/1m", "sliding-log:5/10s", SHARED_LOG]
SWITCHED_RULES += [LONGER_RULES[-1]]
SWITCHED_TRACES = ["hot", "bursts", "steps", "ahead"]

# A trace in a file for the program to read.
Trace = namedtuple("Trace", "name data path")
Job = namedtuple("Job", "rule trace switches stores")


def write_trace(folder, name, data):
    path = os.path.join(folder, name)
    with open(path, "wb") as file:
        file.write(data)
    return Trace(name, data, path)


def real_jobs(options, folder, stores):
    requests = oracle.read_requests(open(options.trace, "rb").read())
    lines = [b"%d %s %d\n" % request for request in requests[: options.prefix]]
    whole = write_trace(folder, "real", b"".join(lines))
    first = write_trace(folder, "real-first", b"".join(lines[:FIRST_LINES]))
    few = write_trace(folder, "real-few", b"".join(lines[:OTHER_LINES]))
    if options.whole or options.rule:
        rules = [options.rule] if options.rule else WINDOW_RULES + LONGER_RULES + BRIEF_RULES
        return [Job(rule, whole, [], stores) for rule in rules]
    jobs = [Job(rule, whole, [], WHOLE & stores) for rule in WINDOW_RULES]
    jobs += [Job(rule, few, [], stores - WHOLE) for rule in WINDOW_RULES]
    jobs += [Job(rule, whole, [], PLAIN & stores) for rule in LONGER_RULES]
    return jobs + [Job(rule, first, [], PLAIN & stores) for rule in BRIEF_RULES]


def generated_jobs(options, folder, stores, number, rule):
    """Traces follow each other in one file, as their keys differ."""

    def job(names, where, switches=()):
        parts = [traces.generate(n, parse_rules(rule), options.lines, options.seed) for n in names]
        path = f"generated-{number}-{len(names)}-{names[0]}"
        return Job(rule, write_trace(folder, path, b"".join(parts)), list(switches), where & stores)

    names = traces.names(parse_rules(rule)) + traces.settled_names(parse_rules(rule))
    windows = rule in WINDOW_RULES + MORE_WINDOW_RULES
    if options.whole or options.rule or rule in EVERYWHERE_RULES or (windows and number % EVERY == 0):
        jobs = [job(names, stores)]
    else:
        jobs = [job(names[half::2], HALVES[(number + half) % 2]) for half in (0, 1)]
    if rule in SWITCHED_RULES:
        jobs += [job(SWITCHED_TRACES, WHOLE if windows else PLAIN, each) for each in SWITCHES]
    return jobs


def large_log_job(options, folder, stores):
    data = traces.generate("crowds", parse_rules(LARGE_LOG), LARGE_LOG_LINES, options.seed)
    return Job(LARGE_LOG, write_trace(folder, "crowds", data), [], PLAIN & stores)


def make_jobs(options, folder, stores):
    """One job per rule, file of traces and set of switches. `stores` are names."""
    stores = frozenset(stores)
    jobs = real_jobs(options, folder, stores)
    rules = [options.rule] if options.rule else WINDOW_RULES + MORE_WINDOW_RULES
    rules += [] if options.rule else LONGER_RULES + BRIEF_RULES + HELD_RULES + DEBT_RULES + OTHER_RULES
    for number, rule in enumerate(rules):
        jobs += generated_jobs(options, folder, stores, number, rule)
    if not options.rule:
        jobs.append(large_log_job(options, folder, stores))
    return [job for job in jobs if job.stores]
