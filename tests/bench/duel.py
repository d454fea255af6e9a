"""Whether a build is as fast as one of before: the runs of the pages by both programs, in turns.

    python3 tests/bench/duel.py BEFORE AFTER [--only WORD...] [--rounds 7] [--seconds 0.2]

BEFORE and AFTER are two weirs, built as releases. Each run of page_rows.py has so many rounds, and in each
round both programs have a turn of so many seconds, the first one in turn. Then both serve, and AFTER's
`weir bench --via` asks both in turns, each first in half the rounds: memory:, memcached and Redis, over RESP
and HTTP. Shown is AFTER over BEFORE: the median of the rounds' own ratios, and in brackets their quarters. A
rate below 1 whose upper quarter is below 0.97 is in bold. Runs that BEFORE does not understand are named at the end.
--only takes runs whose name has one of the words in it. Wants two quiet cores.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time

from evening import Stores, ask_bench, free_port, lasting, run_bench
from page_rows import RUNS

SHOWN = {"rate": "decisions_per_second", "p50": "p50_us", "p99": "p99_us"}
SLOWER = 0.97
CONFIG = """
loops: 1
listen:
  resp: {address: "127.0.0.1:RESP"}
  http: {address: "127.0.0.1:HTTP"}
stores:
  main: {url: "URL"}
limiters:
  freeN: {store: main, rule: "token-bucket:1000000/1s"}
  leasedN: {store: main, rule: "token-bucket:1000000/1s,lease=10ms"}
"""
# The requests to the servers, by options of bench.
ASKED = {"50 clients, 1 in flight": ("RESP", "free", "--threads 50 --keys 10000"),
         "50 clients, 16 in flight": ("RESP", "free", "--threads 50 --keys 10000 --batch 16"),
         "one client": ("RESP", "free", "--keys 1000"),
         "a hot leased key, 16 in flight": ("RESP", "leased", "--threads 50 --hot --batch 16"),
         "HTTP, 50 clients": ("HTTP", "free", "--threads 50 --keys 10000")}


class Served:
    """A server of weir with a configuration of its own, ended with its folder. Its keys are its own as well: of one
    that the other program has charged since, what a process knows is old, and the decision takes a trip more."""

    def __init__(self, program, url, number):
        self.ports, self.number = {"RESP": free_port(), "HTTP": free_port()}, number
        text = CONFIG.replace("N:", f"{number}:").replace("URL", url + ("" if "?" in url else "?timeout=20ms"))
        for protocol, port in self.ports.items():
            text = text.replace(":" + protocol, f":{port}")
        self.file = tempfile.NamedTemporaryFile("w", suffix=".yaml", encoding="ascii")
        self.file.write(text)
        self.file.flush()
        self.process = subprocess.Popen([program, "serve", self.file.name], stderr=subprocess.DEVNULL)
        time.sleep(1)

    def url(self, protocol, limiter):
        return f"{'redis' if protocol == 'RESP' else 'http'}://127.0.0.1:{self.ports[protocol]}/{limiter}{self.number}"

    def end(self):
        self.process.terminate()
        self.process.wait()
        self.file.close()


def show(name, rounds):
    """`rounds`: pairs of figures, before and after."""
    texts = []
    for figure in SHOWN.values():
        ratios = sorted(after[figure] / before[figure] for before, after in rounds if before[figure] > 0)
        low, middle, high = statistics.quantiles(ratios, n=4, method="inclusive") if len(ratios) > 1 else ratios * 3
        text = f"{middle:.2f}x ({low:.2f} to {high:.2f})"
        slower = figure == SHOWN["rate"] and middle < 1 and high < SLOWER
        texts.append(f"**{text}**" if slower else text)
    print(f"| {name} | {' | '.join(texts)} |", flush=True)


def duel(options, stores, name):
    programs, kept = (options.before, options.after), {}
    for number in range(options.rounds):
        turns = {program: run_bench(program, stores, name, options.seconds, 1, alone=True)
                 for program in (programs if number % 2 == 0 else programs[::-1])}
        for before, after in zip(turns[options.before], turns[options.after]):
            kept.setdefault(before["store"], []).append((before["median"], after["median"]))
    for store, rounds in kept.items():
        show(f"{name}, {store}", rounds)


def duel_servers(options, store, url):
    wanted = [name for name in ASKED if any(word in f"serve {store}: {name}" for word in options.only)]
    servers = [Served(program, url, i) for i, program in enumerate((options.before, options.after))] if wanted else []
    try:
        for name in wanted:
            protocol, limiter, words = ASKED[name]
            half, rounds = (options.rounds + 1) // 2, []
            for order in (1, -1):  # who is asked second finds another machine
                vias = [word for server in servers[::order] for word in ("--via", server.url(protocol, limiter))]
                contestants = ask_bench([options.after], name, *vias, *words.split(),
                                        *lasting(options.seconds * half, half))
                rounds += zip(*(line["rounds"] for line in contestants[::order]))
            show(f"serve {store}: {name}", rounds)
    finally:
        for server in servers:
            server.end()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("before", type=os.path.abspath)
    parser.add_argument("after", type=os.path.abspath)
    parser.add_argument("--only", nargs="+", default=[""])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=0.2)
    options = parser.parse_args()
    stores, unknown = Stores(), []
    print(f"| run | {' | '.join(SHOWN)} |\n|---|---|---|---|")
    try:
        for name in RUNS:
            # A raw loop of pairs is of the same decisions as the run without it.
            if name.endswith(", pairs") or not any(word in name for word in options.only):
                continue
            try:
                duel(options, stores, name)
            except RuntimeError as error:
                unknown.append(str(error))
        for store, url in {"memory:": "memory:", **stores.of(1)}.items():
            duel_servers(options, store, url)
    finally:
        stores.end()
    print("".join(f"\nnot compared: {error}" for error in unknown))
    return 0


if __name__ == "__main__":
    sys.exit(main())
