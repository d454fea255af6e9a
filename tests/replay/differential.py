#!/usr/bin/env python3
"""Replays traces through `weir replay` on every store and requires the oracle's output, byte for byte.

    with_servers differential.py --weir build/weir --trace data/nasa1995aug01.txt.gz

WEIR_PROGRAM serves as default for --weir. Every environment variable that starts with WEIR_TEST_
holds the URL of a store. Each run counts under a namespace of its own. jobs.py says what is replayed
where; with one rule and one store it is soon done:

    with_servers differential.py ... --rule quota:10/1m --store REDIS --prefix 1000
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
from collections import Counter, defaultdict, namedtuple

import oracle
from jobs import STORES_EXPECTED, make_jobs
from rules import parse_duration, parse_rules

DEADLINE = "5s"  # for program and oracle alike: a busy machine is no reason to fail

ENOUGH_LINES = 120  # of each generated trace, for every rule of a stack to have denied something

# seconds: by store. denied: by the number of the rule that spoke.
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


def run_program(weir, url, job, seconds):
    """The text that `weir replay` prints, or a sentence on why it printed nothing to compare."""
    command = [weir, "replay", "--store", url, "--rule", job.rule, "--deadline", DEADLINE]
    try:
        run = subprocess.run(
            command + job.switches + [job.trace.path], capture_output=True, timeout=seconds
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
    where = f"{store}  rule {job.rule}  trace {job.trace.name} {' '.join(job.switches)}".rstrip()
    text = [where] + ([f"  {problem}"] if problem else [])
    if given is not None and given != expected:
        place, got, wanted = first_difference(given, expected)
        text += [f"  {place}:", f"    weir   {got}", f"    oracle {wanted}"]
    return "\n".join(text)


def count_denied(rules, decisions):
    """By number of the rule that spoke: what was denied and would fit later."""
    denied = Counter({number: 0 for number in range(len(rules))})
    denied.update(d.rule for d in decisions if not d.allowed and d.retry_after_us > 0)
    return denied


def run_job(job, weir, stores, tag, limit_s):
    rules = parse_rules(job.rule)
    deadline_us = parse_duration(DEADLINE)
    answers = list(oracle.replay(rules, oracle.read_requests(job.trace.data), deadline_us))
    expected = b"".join(oracle.format_line(*answer) for answer in answers)
    seconds, differences = {}, []
    for store in sorted(job.stores):
        start = time.monotonic()
        given, problem = run_program(weir, private(stores[store], tag), job, limit_s)
        seconds[store] = time.monotonic() - start
        if problem or given != expected:
            differences.append(explain(store, job, problem, given, expected))
    denied = count_denied(rules, (decision for _, decision in answers))
    return Result(job.rule, len(answers), denied, seconds, differences)


def run_all(options, stores, folder):
    """Results as they come; the longest jobs start first."""
    jobs = sorted(make_jobs(options, folder, stores), key=lambda job: -len(job.trace.data))
    tag = f"replay-{random.SystemRandom().randrange(36**6):x}"
    with concurrent.futures.ProcessPoolExecutor(options.jobs) as pool:
        waiting = [
            pool.submit(run_job, job, options.weir, stores, f"{tag}-{number}", options.timeout)
            for number, job in enumerate(jobs)
        ]
        for done in concurrent.futures.as_completed(waiting):
            yield done.result()


def report(options, stores, results, seconds):
    """Prints what was compared; answers the exit code."""
    differences = [text for result in results for text in result.differences]
    decisions, runs = sum(r.decisions for r in results), len(results)
    denied, spent = defaultdict(Counter), Counter()
    for result in results:
        denied[result.rule] = denied[result.rule] + result.denied
        spent.update(result.seconds)
    for store in stores:
        print(f"{store:24} {spent[store]:7.1f} s")
    idle = [text for text, counts in denied.items() if len(+counts) < len(parse_rules(text))]
    if options.lines < ENOUGH_LINES:
        idle = []
    for text in idle:
        print(f"rule {text}: not each of it denied what would fit later: its traces prove too little")
    total = sum(sum(counts.values()) for counts in denied.values())
    print(
        f"{len(denied)} rules, {runs} replays of {decisions} requests on {len(stores)} stores, "
        f"{total} denied; {len(differences)} replays differ; {seconds:.0f} s"
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
    parser.add_argument("--jobs", type=int, default=4, help="replays at a time")
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
