"""Holds what limiters ask of their stores and answer, as hashes, against tests/transcript/transcripts.txt.

    with_servers python3 tests/transcript/transcript.py PROGRAM           1 when something differs
    with_servers python3 tests/transcript/transcript.py PROGRAM --write   writes the file anew

PROGRAM is `transcript` of a build, WEIR_PROGRAM its `weir`. In the file are: the rules of tests/replay on
traces like those that it replays; 1,000 random stacks with batches, leases, refunds, clocks that are set
back, failures and outages, by their algorithms; the rules again, through the simulator; and what `weir
simulate` says. For each rule and store there are the numbers of operations and decisions, and a hash of all
that was in them.
"""

import concurrent.futures
import difflib
import hashlib
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
REPLAY = os.path.join(ROOT, "tests", "replay")
KEPT = os.path.join(HERE, "transcripts.txt")
sys.path.insert(0, REPLAY)

import jobs
import oracle
import traces
from rules import parse_rules

WORLDS = 1000
REAL_LINES, LINES, SEED = 100, 10, 1
SIMULATED = ["fixed-window:10/1m", "sliding-window:20/1m,cells=4,strict", "sliding-log:5/10s", "quota:10/1m",
             "token-bucket:5/1m", "leaky-bucket:10/1m,queue=5", "fixed-window:3/1s;sliding-window:12/1m,cells=8"]

HELP = """
Where this was not intended, the change is a fault: print a world in a build of before and in one of now,
`with_servers transcript world NUMBER STORE`, and compare. Where it was, write the file anew and say in the
commit what changed and why:

    build/dev/tests/fixture/with_servers env WEIR_PROGRAM=build/dev/weir \\
      python3 -B tests/transcript/transcript.py build/dev/tests/transcript/transcript --write
"""


def say(*command, **options):
    return subprocess.run(command, stdout=subprocess.PIPE, check=True, **options).stdout


def trace_of(real, rule):
    rules = parse_rules(rule)
    return real + b"".join(traces.generate(name, rules, LINES, SEED) for name in traces.names(rules))


def replayed(program, real, number, rule):
    """Lines of a replay begin with a name for the keys, in place of which the file has the rule."""
    said = say(program, "replay", f"r{number}", rule, input=trace_of(real, rule)).decode()
    return [rule + line[len(f"r{number}"):] for line in said.splitlines()]


def simulation(program, real, rule):
    return say(program, "simulation", rule, input=trace_of(real, rule)).decode().splitlines()


def simulated(real, folder):
    for rule in SIMULATED:
        with open(os.path.join(folder, "trace"), "wb") as file:
            file.write(trace_of(real, rule))
        said = say(os.path.abspath(os.environ["WEIR_PROGRAM"]), "simulate", "--quiet", "--json", "--top", "20", "--rule", rule, "trace",
                   cwd=folder, stderr=subprocess.DEVNULL)
        said = re.sub(rb'"state_bytes_mean":[0-9.]*', b"", said)  # how large memory is laid out is no transcript
        yield f"{rule} simulate {said.count(bytes([10]))} {hashlib.sha256(said).hexdigest()[:16]}"


def transcripts(program):
    with open(os.path.join(REPLAY, "data", "nasa1995aug01.txt.gz"), "rb") as file:
        requests = oracle.read_requests(file.read())[:REAL_LINES]
    real = b"".join(b"%d %s %d\n" % request for request in requests)
    rules = jobs.WINDOW_RULES + jobs.LONGER_RULES + jobs.BRIEF_RULES + jobs.MORE_WINDOW_RULES + jobs.OTHER_RULES
    lines = ["# Replays: rule, store, operations, decisions, hash."]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for said in pool.map(lambda job: replayed(program, real, *job), enumerate(dict.fromkeys(rules))):
            lines += said
    lines.append(f"# {WORLDS} random stacks, by algorithms.")
    lines += sorted(say(program, "stacks", str(WORLDS)).decode().splitlines())
    lines.append("# The simulator's own store: rule, store, operations, decisions, hash.")
    for rule in dict.fromkeys(rules):
        lines += simulation(program, real, rule)
    lines.append("# Simulations: rule, lines, hash.")
    with tempfile.TemporaryDirectory() as folder:
        lines += simulated(real, folder)
    return lines


def main(program, *options):
    now = transcripts(program)
    if options == ("--write",):
        with open(KEPT, "w", encoding="utf-8") as file:
            file.write("\n".join(now) + "\n")
        return 0
    with open(KEPT, encoding="utf-8") as file:
        kept = file.read().splitlines()
    if kept != now:
        print("\n".join(difflib.unified_diff(kept, now, "committed", "now", lineterm="", n=0)))
        print(HELP)
        return 1
    print(f"{len(now)} transcripts are equal")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
