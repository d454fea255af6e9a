#!/usr/bin/env python3
"""Replays traces through `weir replay` on every store and requires the oracle's output, byte for byte.

    with_servers differential.py --weir build/weir --trace data/nasa1995aug01.txt.gz

WEIR_PROGRAM serves as default for --weir. Every environment variable that starts with WEIR_TEST_
holds the URL of a store. Each run counts under a namespace of its own.
"""

import argparse
import concurrent.futures
import itertools
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter, namedtuple

import oracle
import traces

DEADLINE = "5s"  # for program and oracle alike: a busy machine is no reason to fail
STORES_EXPECTED = {
    "MEMORY", "MEMCACHED_META", "MEMCACHED_CLASSIC", "MEMCACHED_THREE", "TWEMPROXY",
    "REDIS", "REDIS_TWEMPROXY"
}  # fmt: skip

# These replay everything. The others differ only in how they are reached or who may do what: they
# replay the first lines of the trace of real requests, and the generated ones of every fourth rule.
WHOLE = STORES_EXPECTED
FIRST_LINES = 3000
EVERY = 4

# Over the trace of real requests and the generated ones.
RULES = [
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

# Over the generated traces only: short periods, odd ones, and limits to either side of every step
# that a packed layout could take.
EXTRA_RULES = [
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
]

# Knowledge kept in the process must not show in what is decided.
SWITCHES = [["--no-local-denial"], ["--no-cached-cells"], ["--no-local-denial", "--no-cached-cells"]]
SWITCHED_RULES = RULES[0:2] + RULES[4:6] + RULES[8:11] + ["sliding-window:3/20ms"]
SWITCHED_TRACES = {"hot", "bursts", "steps", "ahead"}

# first_path: a file with the first lines of the trace, where it is a long one.
Job = namedtuple("Job", "rule trace_name data path switches first_path everywhere", defaults=[None, True])
Result = namedtuple("Result", "rule decisions denied seconds differences")


def private(url, namespace):
    """The store with counts of its own, and with as long to connect as a decision may take."""
    return f"{url}{'&' if '?' in url else '?'}namespace={namespace}&timeout={DEADLINE}"


def find_stores(wanted):
    """Names and URLs of the stores to test, in a fixed order."""
    prefix = "WEIR_TEST_"
    found = {n[len(prefix) :]: v for n, v in os.environ.items() if n.startswith(prefix)}
    missing = (set(wanted) if wanted else STORES_EXPECTED) - set(found)
    if missing:
        names = " ".join(prefix + name for name in sorted(missing))
        sys.exit(f"differential: not set: {names}; run under with_servers")
    return {name: found[name] for name in sorted(found) if not wanted or name in wanted}


def make_jobs(options, folder):
    """One job per rule, trace and set of switches; every trace as a file for the program to read."""
    real = open(options.trace, "rb").read()
    requests = oracle.read_requests(real)
    if options.prefix and options.prefix < len(requests):
        requests = requests[: options.prefix]
        real = b"".join(b"%d %s %d\n" % request for request in requests)
    real_path = os.path.join(folder, "real")
    open(real_path, "wb").write(real)

    real_rules = [options.rule] if options.rule else RULES
    first_path = os.path.join(folder, "real-first")
    with open(first_path, "wb") as first:
        first.writelines(b"%d %s %d\n" % request for request in requests[:FIRST_LINES])
    jobs = [Job(rule, "real", real, real_path, [], first_path) for rule in real_rules]
    for number, rule in enumerate([options.rule] if options.rule else RULES + EXTRA_RULES):
        for name in traces.TRACES:
            data = traces.generate(name, oracle.parse_rule(rule), options.lines, options.seed)
            path = os.path.join(folder, f"{name}-{number}")
            open(path, "wb").write(data)
            everywhere = number % EVERY == 0
            jobs.append(Job(rule, name, data, path, [], None, everywhere))
            if rule in SWITCHED_RULES and name in SWITCHED_TRACES:
                jobs += [Job(rule, name, data, path, switches, None, everywhere) for switches in SWITCHES]
    return jobs


def run_program(weir, url, job, path, seconds):
    """What `weir replay` prints, or a sentence on why it printed nothing to compare."""
    command = [weir, "replay", "--store", url, "--rule", job.rule, "--deadline", DEADLINE]
    try:
        run = subprocess.run(
            command + job.switches + [path], capture_output=True, timeout=seconds
        )
    except subprocess.TimeoutExpired:
        return None, f"did not end within {seconds} s"
    if run.returncode != 0:
        return run.stdout, f"exit {run.returncode}: {run.stderr.decode(errors='replace').strip()}"
    return run.stdout, None


def first_difference(given, expected):
    """The number of the first line that differs, and both lines."""
    pairs = itertools.zip_longest(given.split(b"\n"), expected.split(b"\n"), fillvalue=b"(no line)")
    number, pair = next((n, p) for n, p in enumerate(pairs, 1) if p[0] != p[1])
    return [f"line {number}"] + [line.decode(errors="backslashreplace") for line in pair]


def explain(store, job, problem, given, expected):
    where = f"{store}  rule {job.rule}  trace {job.trace_name} {' '.join(job.switches)}".rstrip()
    text = [where] + ([f"  {problem}"] if problem else [])
    if given is not None and given != expected:
        place, got, wanted = first_difference(given, expected)
        text += [f"  {place}:", f"    weir   {got}", f"    oracle {wanted}"]
    return "\n".join(text)


def run_job(job, weir, stores, whole_stores, tag, limit_s):
    rule = oracle.parse_rule(job.rule)
    deadline_us = oracle.parse_duration(DEADLINE)
    answers = list(oracle.replay(rule, oracle.read_requests(job.data), deadline_us))
    lines = [oracle.format_line(*answer) for answer in answers]
    seconds, differences = {}, []
    for store, url in stores.items():
        if store not in whole_stores and not job.everywhere:
            continue
        whole = store in whole_stores or job.first_path is None
        expected = b"".join(lines if whole else lines[:FIRST_LINES])
        path = job.path if whole else job.first_path
        start = time.monotonic()
        given, problem = run_program(weir, private(url, tag), job, path, limit_s)
        seconds[store] = time.monotonic() - start
        if problem or given != expected:
            differences.append(explain(store, job, problem, given, expected))
    denied = sum(not decision.allowed and decision.retry_after_us > 0 for _, decision in answers)
    return Result(job.rule, len(answers), denied, seconds, differences)


def run_all(options, stores, folder):
    """Results as they come; the longest jobs start first."""
    jobs = sorted(make_jobs(options, folder), key=lambda job: -len(job.data))
    whole = set(stores) if options.whole else WHOLE
    tag = f"replay-{random.SystemRandom().randrange(36**6):x}"
    with concurrent.futures.ProcessPoolExecutor(options.jobs) as pool:
        waiting = [
            pool.submit(run_job, job, options.weir, stores, whole, f"{tag}-{number}", options.timeout)
            for number, job in enumerate(jobs)
        ]
        for done in concurrent.futures.as_completed(waiting):
            yield done.result()


def report(options, stores, results, seconds):
    """Prints what was compared; answers the exit code."""
    differences = [text for result in results for text in result.differences]
    decisions, runs = sum(r.decisions for r in results), len(results)
    denied, spent = Counter(), Counter()
    for result in results:
        denied[result.rule] += result.denied
        spent.update(result.seconds)
    for store in stores:
        print(f"{store:24} {spent[store]:7.1f} s")
    idle = [rule for rule, count in denied.items() if count == 0]
    for rule in idle:
        print(f"rule {rule} never denied what would fit later: its traces prove too little")
    print(
        f"{len(denied)} rules, {runs} replays of {decisions} requests on {len(stores)} stores "
        f"(a long trace whole on {len(stores if options.whole else WHOLE & set(stores))}), {sum(denied.values())} denied; {len(differences)} replays differ; {seconds:.0f} s"
    )
    return 1 if differences or idle else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--weir", default=os.environ.get("WEIR_PROGRAM"), help="the program")
    parser.add_argument("--trace", required=True, help="a trace of real requests, plain or gzip")
    parser.add_argument("--prefix", type=int, help="only this many lines of it")
    parser.add_argument("--lines", type=int, default=300, help="lines of each generated trace")
    parser.add_argument("--seed", type=int, default=1, help="of the generated traces")
    parser.add_argument("--whole", action="store_true", help="everything on every store")
    parser.add_argument("--rule", help="this rule instead of the table")
    parser.add_argument("--store", action="append", help="only this store: the name after WEIR_TEST_")
    parser.add_argument("--jobs", type=int, default=2, help="replays at a time")
    parser.add_argument("--timeout", type=int, default=120, help="seconds that one replay may take")
    options = parser.parse_args()
    if not options.weir:
        parser.error("--weir or WEIR_PROGRAM must name the program")
    stores = find_stores(options.store)
    start, results = time.monotonic(), []
    with tempfile.TemporaryDirectory(prefix="weir-replay-") as folder:
        for result in run_all(options, stores, folder):
            results.append(result)
            for text in result.differences:
                print(text, flush=True)
    return report(options, stores, results, time.monotonic() - start)


if __name__ == "__main__":
    sys.exit(main())
