#!/usr/bin/env python3
"""weir beside two limiters that many people use, on the same private servers, in turns of one run.

    side_by_side.py --weir build/weir [--seconds 2] [--rounds 5] [--modules FOLDER]

Starts a memcached and a redis-server on free ports. Needs python3-limits, python3-redis and python3-pymemcache (Debian) and, for rate-limiter-flexible, a
folder in which this was run:

    npm install rate-limiter-flexible@11.4.0 ioredis@5.11.1 memcached@2.2.2

A caller is a thread; in rate-limiter-flexible, which has one thread, a promise. Everyone is asked to
let 10^9 requests an hour pass, which is never reached, so that what is compared is what a decision
costs. weir decides by a sliding window, the others by what they have on that store: windows that
begin anew, and the only other sliding one, which needs Lua. The second table is about how many
requests pass where 5 are allowed in 31 days.

Prints two Markdown tables; the figures are medians of the rounds.
"""

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import threading
import time
import urllib.parse

KEYS = 1000
NEVER_REACHED = 10**9
LONG_S = 31 * 24 * 3600


def percentile(times, share):
    return sorted(times)[int(len(times) * share)] if times else 0


# --- the workers, each a process of its own ---------------------------------------------------------


def make_limits(store, strategy):
    """`hit(key)` of python3-limits for a limit per seconds."""
    import limits
    from limits.storage import storage_from_string

    storage = storage_from_string(store)
    limiter = {
        "fixed": limits.strategies.FixedWindowRateLimiter,
        "moving": limits.strategies.MovingWindowRateLimiter,
    }[strategy](storage)

    def make(limit, seconds):
        item = limits.RateLimitItemPerSecond(limit, seconds)
        return lambda key: limiter.hit(item, strategy, key)  # both kinds use one name for a key

    make.storage = storage  # the limiter does not keep it
    return make


def work(hit, callers, seconds):
    """As many threads as callers; decisions per second, p50, p99 in microseconds."""
    times = [[] for _ in range(callers)]
    end = time.monotonic() + seconds

    def call(number):
        i = number
        while (begin := time.monotonic()) < end:
            hit(f"key-{i % KEYS}")
            times[number].append(time.monotonic() - begin)
            i += 7

    threads = [threading.Thread(target=call, args=(n,)) for n in range(callers)]
    begin = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    taken = time.monotonic() - begin
    every = [t * 1e6 for each in times for t in each]
    return len(every) / taken, percentile(every, 0.5), percentile(every, 0.99)


def work_with_limits(options):
    make = make_limits(options.store, options.strategy)
    if options.long:
        hit = make(5, LONG_S)
        print(json.dumps(sum(hit(options.tag) for _ in range(50))))
        return
    hit = make(NEVER_REACHED, 3600)
    work(hit, options.callers, 0.2)
    print(json.dumps(work(hit, options.callers, options.seconds)))


# --- the contestants --------------------------------------------------------------------------------


def run_json(command, **variables):
    run = subprocess.run(command, stdout=subprocess.PIPE, env={**os.environ, **variables},
                         check=True, timeout=600)
    return json.loads(run.stdout.splitlines()[0])


class Weir:
    name = "weir, sliding window"

    def __init__(self, store, program):
        self.store, self.program = store, program

    def figures(self, callers, seconds):
        found = run_json([self.program, "bench", "--json", "--store", self.store,
                          "--rule", f"sliding-window:{NEVER_REACHED}/1h", "--keys", str(KEYS),
                          "--threads", str(callers), "--duration", f"{int(seconds * 1000)}ms",
                          "--rounds", "1"])["median"]
        return found["decisions_per_second"], found["p50_us"], found["p99_us"]

    def admitted(self, tag):
        program = [self.program, "take", "--store", self.store, "--rule",
                   "sliding-window:5/31d,strict", tag]
        return sum(subprocess.run(program, stdout=subprocess.DEVNULL).returncode == 0
                   for _ in range(50))


class Limits:
    def __init__(self, store, strategy):
        self.name = f"python3-limits, {strategy} window"
        self.strategy = strategy
        place = urllib.parse.urlsplit(store).netloc
        self.store = f"{urllib.parse.urlsplit(store).scheme}://{place}"

    def command(self, *options):
        return ["/usr/bin/python3", os.path.abspath(__file__), "--worker", "--store", self.store,
                "--strategy", self.strategy, *options]

    def figures(self, callers, seconds):
        return run_json(self.command("--callers", str(callers), "--seconds", str(seconds)))

    def admitted(self, tag):
        return run_json(self.command("--long", "--tag", tag))


class Flexible:
    name = "rate-limiter-flexible"

    def __init__(self, store, modules):
        parts = urllib.parse.urlsplit(store)
        self.arguments = [parts.scheme, parts.hostname, str(parts.port)]
        self.modules = modules

    def command(self, *arguments):
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "flexible.js")
        return ["node", script, *self.arguments, *arguments]

    def figures(self, callers, seconds):
        return run_json(self.command("speed", str(callers), str(seconds), str(KEYS)),
                        NODE_PATH=os.path.join(self.modules, "node_modules"))

    def admitted(self, tag):
        return run_json(self.command("long", tag, str(LONG_S)),
                        NODE_PATH=os.path.join(self.modules, "node_modules"))


def line_up(memcached, redis, program, modules):
    found = [("memcached", Weir(memcached, program)), ("memcached", Limits(memcached, "fixed"))]
    if modules:
        found.append(("memcached", Flexible(memcached, modules)))
    found += [("redis", Weir(redis, program)), ("redis", Limits(redis, "fixed")),
              ("redis", Limits(redis, "moving"))]
    if modules:
        found.append(("redis", Flexible(redis, modules)))
    return found


def compare(contestants, callers, options):
    """Medians of the figures of each contestant, over rounds that go back and forth."""
    rounds = [[] for _ in contestants]
    for number in range(options.rounds):
        order = range(len(contestants))
        for i in order if number % 2 == 0 else reversed(order):
            rounds[i].append(contestants[i][1].figures(callers, options.seconds))
            print(f"\r{callers} callers, round {number + 1}", end="\033[K", file=sys.stderr)
    print("\r\033[K", end="", file=sys.stderr)
    return [[statistics.median(column) for column in zip(*each)] for each in rounds]


# --- the servers ------------------------------------------------------------------------------------


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def start(*command):
    """The command with a free port behind it, once it accepts connections there."""
    port = free_port()
    server = subprocess.Popen([*command, str(port)], stdout=subprocess.DEVNULL)
    for _ in range(1000):
        with socket.socket() as visitor:
            if visitor.connect_ex(("127.0.0.1", port)) == 0:
                return server, port
        time.sleep(0.01)
    server.terminate()
    sys.exit(f"{command[0]} does not accept connections")


def run(options):
    servers = []
    try:
        memcached, port = start("memcached", "-u", "root", "-l", "127.0.0.1", "-t", "1", "-p")
        servers.append(memcached)
        redis, redis_port = start("redis-server", "--bind", "127.0.0.1", "--save", "", "--port")
        servers.append(redis)
        print_tables(options, line_up(f"memcached://127.0.0.1:{port}",
                                      f"redis://127.0.0.1:{redis_port}", options.weir,
                                      options.modules))
    finally:
        for server in servers:
            server.terminate()
            server.wait()


# --- the tables -------------------------------------------------------------------------------------


def print_tables(options, contestants):
    print("| store | limiter | callers | decisions/s | p50 us | p99 us | weir's rate over this |")
    print("|---|---|---:|---:|---:|---:|---:|")
    for callers in (1, 32):
        medians = compare(contestants, callers, options)
        own = {store: figures[0] for (store, each), figures in zip(contestants, medians)
               if isinstance(each, Weir)}
        for (store, each), (rate, p50, p99) in zip(contestants, medians):
            print(f"| {store} | {each.name} | {callers} | {rate:.0f} | {p50:.0f} | {p99:.0f} | "
                  f"{own[store] / rate:.1f} |")
    print("\n| store | limiter | admitted of 50 where 5 are allowed in 31 days |\n|---|---|---:|")
    tag = f"long-{time.time_ns()}"
    for store, each in contestants:
        print(f"| {store} | {each.name} | {each.admitted(tag)} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--weir", default="build/weir", help="the program")
    parser.add_argument("--seconds", type=float, default=2, help="of one turn")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--modules", help="where npm installed rate-limiter-flexible")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--long", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--tag", help=argparse.SUPPRESS)
    parser.add_argument("--store", help=argparse.SUPPRESS)
    parser.add_argument("--strategy", help=argparse.SUPPRESS)
    parser.add_argument("--callers", type=int, default=1, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work_with_limits(options)
    else:
        run(options)


if __name__ == "__main__":
    main()
