"""Measures the server's figures in docs/performance.md; prints Markdown.

    python3 tests/bench/serve_figures.py [PROGRAM] [--rounds N] [--only WORD]

PROGRAM: build/weir unless given, built as a release. Needs redis-server, redis-benchmark, memcached,
nginx, h2load, nghttpd and cc, for throttle_client.c. All run on free ports of loopback and are ended by their ids. Rounds are interleaved: each
figure is the median of ratios of the same round, so that what slows the machine slows both."""

import argparse
import os
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
parser = argparse.ArgumentParser()
parser.add_argument("program", nargs="?", default="build/weir")
parser.add_argument("--rounds", type=int, default=5)
parser.add_argument("--only", default="")
options = parser.parse_args()
os.environ["WEIR_PROGRAM"] = os.path.abspath(options.program)
sys.path[:0] = [os.path.join(HERE, "..", folder) for folder in ("serve", "fixture")]
from far import Far  # noqa: E402
from server import Client, Server, await_that, http  # noqa: E402

CLIENTS, KEYS = 50, 10000
RATE_LIMIT = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"
LIMITER = "token-bucket:1000000/1s"
THROTTLE = ["CL.THROTTLE", "key:__rand_int__", "999999", "1000000", "1"]
# The generic cell rate algorithm as scripts have it: one time for each key.
LUA = """
local now = redis.call('TIME')
now = now[1] * 1000000 + now[2]
local cell, depth = tonumber(ARGV[1]), tonumber(ARGV[2])
local due = math.max(tonumber(redis.call('GET', KEYS[1]) or now), now) + cell
if due - now > depth then return {1, 0} end
redis.call('SET', KEYS[1], due, 'PX', math.ceil((due - now) / 1000))
return {0, depth - (due - now)}
"""
CONFIG = """
loops: 1
listen:
  resp: {address: "127.0.0.1:0"}
  http: {address: "127.0.0.1:0"}
  admin: {address: "127.0.0.1:0"}
stores:
  main: {url: "URL"}
limiters:
LIMITERS
throttle: {enabled: true, store: main}
"""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def answers(port):
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
        return True
    except OSError:
        return False


class Started:
    """Programs and servers of one run, ended with it."""

    def __init__(self):
        self.processes, self.servers = [], []
        self.folder = tempfile.mkdtemp(prefix="weir-figures-")

    def run(self, port, *command):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.processes.append(process)
        await_that(lambda: answers(port), command[0])
        return process

    def redis(self):
        port = free_port()
        self.run(port, "redis-server", "--bind", "127.0.0.1", "--port", str(port), "--save", "")
        return port

    def memcached(self):
        port = free_port()
        process = self.run(port, "memcached", "-u", "root", "-l", "127.0.0.1", "-p", str(port),
                           "-t", "1", "-m", "512")
        return port, process

    def weir(self, url, limiters=1, config=CONFIG):
        lines = "".join(f'  l{i}: {{store: main, rule: "{LIMITER}"}}\n' for i in range(limiters))
        url += "" if "?" in url else "?timeout=20ms"
        server = Server(config.replace("URL", url).replace("LIMITERS\n", lines))
        self.servers.append(server)
        return server

    def nginx(self, locations):
        port = free_port()
        path = os.path.join(self.folder, f"{port}.conf")
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"daemon off; master_process off; pid {path}.pid; error_log stderr;\n"
                       "events {worker_connections 1024;}\nhttp { access_log off; "
                       "keepalive_requests 100000000;\n"
                       f"{locations.replace('PORT', str(port))} }}\n")
        self.run(port, "nginx", "-p", self.folder, "-c", path)
        return port

    def end(self):
        for server in self.servers:
            server.end()
        for process in self.processes:
            process.terminate()
            process.wait()
        shutil.rmtree(self.folder)


# --- loads ------------------------------------------------------------------------------------


def resp(port, command, depth=1, clients=CLIENTS, count=None):
    """(requests a second, p50 in ms) as redis-benchmark finds them."""
    count = count or (60000 if depth == 1 else 300000)
    out = subprocess.run(["redis-benchmark", "-p", str(port), "-c", str(clients), "-n", str(count),
                          "-P", str(depth), "-r", str(KEYS), "--csv", *command],
                         check=True, capture_output=True, text=True).stdout
    fields = out.strip().splitlines()[-1].strip('"').split('","')
    return float(fields[1]), float(fields[4])


def build_client(started):
    """throttle_client, which shares nothing with weir but the wire."""
    path = os.path.join(started.folder, "throttle_client")
    subprocess.run(["cc", "-O2", "-D_POSIX_C_SOURCE=200809L", "-o", path, os.path.join(HERE, "throttle_client.c")],
                   check=True)
    return path


def ask(client, port, command, depth=1, clients=CLIENTS, count=None):
    """(requests a second, p50 in us, p99 in us) as throttle_client finds them."""
    count = count or (100000 if depth == 1 else 400000)
    out = subprocess.run([client, *map(str, (port, clients, depth, KEYS, count)), *command], check=True,
                         capture_output=True, text=True).stdout
    rate, p50, p99, denied = out.split()
    if int(denied) > count / 100:  # some, where the machine stood still for longer than the store's timeout
        raise AssertionError(f"{denied} of {count} were denied")
    return float(rate), float(p50), float(p99)


def web(port, path):
    """Requests a second of 8 processes that keep a connection each."""
    count = 4000
    script = ("import socket,sys\n"
              f"s=socket.create_connection(('127.0.0.1',{port}))\n"
              "s.setsockopt(6,1,1)\n"
              f"for i in range({count}):\n"
              f"  s.sendall(b'GET {path} HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n')\n"
              "  d=s.recv(65536)\n"
              "  h=d.split(b'\\r\\n\\r\\n',1)\n"
              "  assert d.startswith(b'HTTP/1.1 200'),d\n")
    began = time.monotonic()
    running = [subprocess.Popen([sys.executable, "-c", script]) for _ in range(8)]
    for process in running:
        if process.wait() != 0:
            raise AssertionError("a client has failed")
    return 8 * count / (time.monotonic() - began), 0


def compare(title, loads, base, at=0, others=()):
    """Runs all loads in turns; prints each as a ratio to `base`. `others`: (title, at) of what the same rounds
    have found besides."""
    found = {name: [] for name in loads}
    for turn in range(options.rounds):
        for name in (loads if turn % 2 == 0 else reversed(list(loads))):
            found[name].append(loads[name]())
    for heading, index in ((title, at), *others):
        print(f"| {heading} | | |\n|---|---:|---:|")
        for name, rounds in found.items():
            values = [one[index] for one in rounds]
            ratios = [own / other[index] for own, other in zip(values, found[base])]
            print(f"| {name} | {statistics.median(values):.6g} | {statistics.median(ratios):.2f}x "
                  f"({min(ratios):.2f} to {max(ratios):.2f}) |")
        print(flush=True)


# --- figures ----------------------------------------------------------------------------------


def figure_resp(started):
    plain, scripted, store = started.redis(), started.redis(), started.redis()
    memcached = started.memcached()[0]
    digest = subprocess.run(["redis-cli", "-p", str(scripted), "script", "load", LUA], check=True,
                            capture_output=True, text=True).stdout.strip()
    weirs = {"memory:": started.weir("memory:"),
             "memcached": started.weir(f"memcached://127.0.0.1:{memcached}"),
             "Redis": started.weir(f"redis://127.0.0.1:{store}")}
    commands = {"redis-server PING": (plain, ["PING"]),
                "Redis, Lua GCRA": (scripted, ["EVALSHA", digest, "1", "key:__rand_int__", "1",
                                               "1000000"])}
    for name, server in weirs.items():
        commands["weir, " + name] = (server.ports["resp"][0], THROTTLE)

    def loads(**wanted):
        return {name: lambda port=port, command=command: resp(port, command, **wanted)
                for name, (port, command) in commands.items()}

    compare("50 clients, 1 in flight; over PING", loads(), "redis-server PING")
    compare("the same; over Lua GCRA", loads(), "Redis, Lua GCRA")
    compare("50 clients, 16 in flight; over Lua GCRA", loads(depth=16), "Redis, Lua GCRA")
    compare("one client, p50 in ms; over PING", loads(clients=1, count=10000),
            "redis-server PING", at=1)


def figure_throttle(started):
    """The same by another client, so that no figure is one program's; it tells latencies to 0.1 us."""
    plain, store = started.redis(), started.redis()
    memcached = started.memcached()[0]
    client = build_client(started)
    servers = {"redis-server PING": (plain, ["PING"])}
    for name, url in (("memory:", "memory:"), ("memcached", f"memcached://127.0.0.1:{memcached}"),
                      ("Redis", f"redis://127.0.0.1:{store}")):
        port = started.weir(url).ports["resp"][0]
        servers["weir, " + name] = (port, ["CL.THROTTLE", "key:#", *THROTTLE[2:]])

    def loads(**wanted):
        return {name: lambda port=port, command=command: ask(client, port, command, **wanted)
                for name, (port, command) in servers.items()}

    for clients, count in ((CLIENTS, 100000), (1, 20000)):
        who = "one client" if clients == 1 else f"{clients} clients"
        compare(f"throttle_client, {who}, 1 in flight; over PING", loads(clients=clients, count=count),
                "redis-server PING", others=((f"throttle_client, {who}, p50 in us", 1),
                                              (f"throttle_client, {who}, p99 in us", 2)))
    compare(f"throttle_client, {CLIENTS} clients, 16 in flight; over PING", loads(depth=16), "redis-server PING")


def figure_lease(started):
    scripted, store = started.redis(), started.redis()
    memcached = started.memcached()[0]
    digest = subprocess.run(["redis-cli", "-p", str(scripted), "script", "load", LUA], check=True,
                            capture_output=True, text=True).stdout.strip()
    loads = {"Redis, Lua GCRA": lambda: resp(scripted, ["EVALSHA", digest, "1", "hot", "1",
                                                        "1000000"], 16)}
    leased = CONFIG.replace("LIMITERS\n", '  l0: {store: main, rule: "' + LIMITER
                            + ',lease=10ms"}\n')
    for name, url in (("memory:", "memory:"), ("memcached", f"memcached://127.0.0.1:{memcached}"),
                      ("Redis", f"redis://127.0.0.1:{store}")):
        port = started.weir(url, config=leased).ports["resp"][0]
        loads["weir, " + name] = lambda port=port: resp(port, ["WEIR.TAKE", "l0", "hot"], 16)
    compare("one hot key, lease=10ms, 16 in flight; over Lua GCRA", loads, "Redis, Lua GCRA")


def figure_limiters(started):
    memcached = started.memcached()[0]
    port = started.weir(f"memcached://127.0.0.1:{memcached}").ports["resp"][0]
    # __rand_int__ is twelve digits, here below 8.
    names = "".join(f'  l{i:012d}: {{store: main, rule: "{LIMITER}"}}\n' for i in range(8))
    several = started.weir(f"memcached://127.0.0.1:{memcached}",
                           config=CONFIG.replace("LIMITERS\n", names)).ports["resp"][0]

    def take(port, name):
        out = subprocess.run(["redis-benchmark", "-p", str(port), "-c", str(CLIENTS), "-n", "60000",
                              "-r", "8", "--csv", "WEIR.TAKE", name, "key:__rand_int__"],
                             check=True, capture_output=True, text=True).stdout
        return float(out.strip().splitlines()[-1].strip('"').split('","')[1]), 0

    compare("limiters in a tick; over one", {"1 limiter": lambda: take(port, "l0"),
                                             "8 limiters": lambda: take(several, "l__rand_int__")},
            "1 limiter")


def figure_settle(started):
    """Each request is charged, and then settled as a little more; a store answers both."""
    memcached, store = started.memcached()[0], started.redis()
    config = CONFIG.replace("LIMITERS\n", '  l0: {store: main, rule: "quota:1000000000/1d"}\n')

    def pair(port, *second):
        first = resp(port, ["WEIR.TAKE", "l0", "key:__rand_int__", "COST", "10"])[0]
        return 2 / (1 / first + 1 / resp(port, ["WEIR." + second[0], "l0", "key:__rand_int__", *second[1:]])[0]), 0

    for name, url in (("memory:", "memory:"), ("memcached", f"memcached://127.0.0.1:{memcached}"),
                      ("Redis", f"redis://127.0.0.1:{store}")):
        port = started.weir(url, config=config).ports["resp"][0]
        compare(f"a take and its settlement, {name}; over two takes",
                {"two takes": lambda port=port: pair(port, "TAKE", "COST", "10"),
                 "take, settle": lambda port=port: pair(port, "SETTLE", "10", "13")}, "two takes")


def figure_http(started):
    server = started.weir("memory:")
    check = server.ports["http"][0]
    fixed = started.nginx("server { listen 127.0.0.1:PORT; location / { return 200; } }")
    file = os.path.join(started.folder, "index.html")
    with open(file, "w", encoding="ascii") as page:
        page.write("hello\n")
    guarded = started.nginx(
        f"upstream weir {{ server 127.0.0.1:{check}; keepalive 64; keepalive_requests 100000000; }}"
        " server { listen 127.0.0.1:PORT; "
        f"location /plain/ {{ alias {started.folder}/; }} "
        f"location /limited/ {{ auth_request /limit; alias {started.folder}/; }} "
        "location = /limit { internal; proxy_pass http://weir/check/l0?key=$remote_addr; "
        "proxy_http_version 1.1; proxy_set_header Connection ''; proxy_pass_request_body off; "
        "proxy_set_header Content-Length ''; } }")
    compare("HTTP, requests a second; over nginx return 200",
            {"nginx return 200": lambda: web(fixed, "/"),
             "weir, /check": lambda: web(check, "/check/l0?key=a")}, "nginx return 200")
    compare("nginx with auth_request; over without",
            {"without": lambda: web(guarded, "/plain/index.html"),
             "with": lambda: web(guarded, "/limited/index.html")}, "without")


def calls(port, file, streams):
    """Calls of gRPC a second, as h2load finds them."""
    out = subprocess.run(["h2load", "-D", "2", "--warm-up-time=0", "-c", str(CLIENTS), "-m", str(streams), "-d", file,
                          "-H", "content-type: application/grpc", "-H", "te: trailers",
                          f"http://127.0.0.1:{port}{RATE_LIMIT}"], check=True, capture_output=True, text=True).stdout
    if re.search(r"status codes: .* 0 3xx, 0 4xx, 0 5xx", out) is None:
        raise AssertionError(out)
    return float(re.search(r"finished in \S+, (\S+) req/s", out).group(1)), 0


def write_question(started, domain):
    """The file with a call's message: the descriptor user=alice."""
    entry = b"\x0a\x04user\x12\x05alice"
    message = b"\x0a%c%s\x12%c\x0a%c%s" % (len(domain), domain.encode(), len(entry) + 2, len(entry), entry)
    path = os.path.join(started.folder, domain)
    with open(path, "wb") as file:
        file.write(b"\0" + len(message).to_bytes(4, "big") + message)
    return path


def figure_grpc(started):
    """One key, of a file of the same size that nghttp2's own server sends."""
    files = {}
    for domain in ("main", "other"):
        files[domain] = write_question(started, domain)
        with open(files[domain] + ".rls", "w", encoding="ascii") as file:
            file.write(f"domain: {domain}\ndescriptors: [{{key: user, rate_limit: "
                       "{unit: year, requests_per_unit: 1000000000}}]\n")
    memcached = started.memcached()[0]
    config = CONFIG.replace("  http: ", "  grpc: ").replace(
        "limiters:\nLIMITERS\n", f'  away: {{url: "memcached://127.0.0.1:{memcached}?timeout=20ms"}}\n'
        f'envoy: {{files: "{started.folder}/*.rls", domains: {{main: {{store: main}}, other: {{store: away}}}}}}\n')
    port = started.weir("memory:", config=config).ports["grpc"][0]
    page = started.folder + RATE_LIMIT
    os.makedirs(os.path.dirname(page))
    with open(page, "wb") as file:
        file.write(bytes(34))  # as long as the answer
    plain = free_port()
    started.run(plain, "nghttpd", "--no-tls", "-d", started.folder, str(plain))
    for streams in (1, 16):
        compare(f"gRPC, 50 connections, {streams} in flight; over nghttpd",
                {"nghttpd": lambda: calls(plain, files["main"], streams),
                 "weir, memory:": lambda: calls(port, files["main"], streams),
                 "weir, memcached": lambda: calls(port, files["other"], streams)}, "nghttpd")


def figure_reload(started):
    def config(generation):
        tiers = ", ".join(f't{i}: "fixed-window:{i + 10 + generation}/1h"' for i in range(10000))
        return CONFIG.replace("LIMITERS\n",
                              f'  l0: {{store: main, rule: "{LIMITER}", tiers: {{{tiers}}}, '
                              'overrides_file: "FOLDER/keys.tsv"}\n').replace("URL", "memory:?timeout=1s")

    server = Server(config(0).replace(
        ', overrides_file: "FOLDER/keys.tsv"', ""))
    started.servers.append(server)
    with open(os.path.join(server.folder.name, "keys.tsv"), "w", encoding="ascii") as keys:
        keys.writelines(f"customer-{i}\tt{i % 10000}\n" for i in range(100000))
    server.write(server.config.replace("tiers: {", 'overrides_file: "FOLDER/keys.tsv", tiers: {'))
    stop, waits, marks = threading.Event(), [], []

    def load():
        client = server.connect()
        while not stop.is_set():
            began = time.monotonic()
            answer = client.ask("WEIR.TAKE", "l0", "x")
            if answer[:2] != ["allowed", 1]:
                raise AssertionError(answer)
            waits.append((began, time.monotonic() - began))

    threads = [threading.Thread(target=load) for _ in range(4)]
    for thread in threads:
        thread.start()
    time.sleep(2)
    before = time.monotonic()
    for _ in range(options.rounds):
        times = server.log().count("is in use now")
        marks.append(time.monotonic())
        server.process.send_signal(signal.SIGHUP)
        await_that(lambda: server.log().count("is in use now") > times, "a reload")
        marks[-1] = time.monotonic() - marks[-1]
    stop.set()
    for thread in threads:
        thread.join()
    p99 = [statistics.quantiles([w for at, w in waits if (at < before) == early], n=100)[98]
           for early in (True, False)]
    print(f"reload: {statistics.median(marks) * 1000:.0f} ms; p99 {p99[0] * 1000:.2f} ms before, "
          f"{p99[1] * 1000:.2f} ms during ({p99[1] / p99[0]:.2f}x)\n", flush=True)


def figure_descriptors(started):
    """10,000 descriptors are read anew while eight connections send 2,000 calls of gRPC a second."""
    def write(generation):
        path = os.path.join(started.folder, "main.rls")
        with open(path + ".new", "w", encoding="ascii") as file:
            file.write("domain: main\ndescriptors:\n")
            for i in range(10000):
                file.write("  - {key: user, value: u%d, rate_limit: {unit: hour, requests_per_unit: %d}}\n"
                           % (i, i % 500 + generation + 1))
            file.write("  - {key: user, rate_limit: {unit: year, requests_per_unit: 1000000000}}\n")
        os.rename(path + ".new", path)

    write(0)
    asked = write_question(started, "main")
    config = CONFIG.replace("  http: ", "  grpc: ").replace("limiters:\nLIMITERS\n",
                                                            f'envoy: {{files: "{started.folder}/*.rls"}}\n')
    server = started.weir("memory:", config=config)
    log = os.path.join(started.folder, "calls.log")
    seconds = 4 + options.rounds
    load = subprocess.Popen(["h2load", "-D", str(seconds), "--warm-up-time=0", "-c", "8", "-m", "4", "--rps=250",
                             f"--log-file={log}", "-d", asked, "-H", "content-type: application/grpc",
                             "-H", "te: trailers", f"http://127.0.0.1:{server.ports['grpc'][0]}{RATE_LIMIT}"],
                            stdout=subprocess.PIPE, text=True)
    time.sleep(3)
    marks, before = [], time.time()
    for generation in range(1, options.rounds + 1):
        write(generation)
        times = server.log().count("is in use now")
        began = time.time()
        server.process.send_signal(signal.SIGHUP)
        await_that(lambda: server.log().count("is in use now") > times, "a reload")
        marks.append((began, time.time()))
        time.sleep(max(0, began + 1 - time.time()))
    out = load.communicate()[0]
    if re.search(r"(\d+) done, \1 succeeded, 0 failed, 0 errored", out) is None:
        raise AssertionError(out)
    with open(log, encoding="ascii") as file:
        calls = [(int(began) / 1e6, int(took) / 1e3) for began, _, took in (line.split() for line in file)]
    quiet = [took for began, took in calls if began < before]
    during = [took for began, took in calls if any(a <= began + took / 1e3 and began <= b for a, b in marks)]
    p99 = [statistics.quantiles(took, n=100)[98] for took in (quiet, during)]
    print(f"reload of 10,000 descriptors: {statistics.median(b - a for a, b in marks) * 1000:.0f} ms; {len(calls)} "
          f"calls, none lost; p99 {p99[0]:.2f} ms before, {p99[1]:.2f} ms during ({p99[1] / p99[0]:.2f}x)\n", flush=True)


def figure_stopped(started):
    port, store = started.memcached()
    config = CONFIG.replace("limiters:\n", "  other: {url: \"memory:?timeout=1s\"}\nlimiters:\n").replace(
        "LIMITERS\n", f'  l0: {{store: main, rule: "{LIMITER}"}}\n'
        f'  free: {{store: other, rule: "{LIMITER}"}}\n')
    server = started.weir(f"memcached://127.0.0.1:{port}?timeout=10ms", config=config)
    results = {}

    def run(stops):
        stop, waits, sources = threading.Event(), [], []

        def load(name, number):
            client = server.connect()
            while not stop.is_set():
                began = time.monotonic()
                answer = client.ask("WEIR.TAKE", name, f"k{number}")
                now = time.monotonic()
                (waits if name == "free" else sources).append(
                    now - began if name == "free" else (now, answer[answer.index("source") + 1]))

        threads = [threading.Thread(target=load, args=(name, i))
                   for i, name in enumerate(["free", "l0"] * 4)]
        for thread in threads:
            thread.start()
        time.sleep(1)
        if stops:
            os.kill(store.pid, signal.SIGSTOP)
        time.sleep(3)
        if stops:
            os.kill(store.pid, signal.SIGCONT)
        awake = time.monotonic()
        time.sleep(1.5)
        stop.set()
        for thread in threads:
            thread.join()
        back = min((at - awake for at, source in sources if at > awake and source == "store"),
                   default=float("inf"))
        return statistics.quantiles(waits, n=1000)[998] * 1000, back

    results = [(run(False)[0], *run(True)) for _ in range(options.rounds)]
    added = statistics.median(stopped - calm for calm, stopped, _ in results)
    print(f"a store stopped for 3 s, 8 clients: p99.9 of the other store's requests {added:+.1f} ms "
          f"({statistics.median(r[0] for r in results):.1f} ms with nothing stopped); back after "
          f"{statistics.median(r[2] for r in results):.2f} s\n", flush=True)


def figure_far(started):
    """A key with a lease, beside 500 clients whose keys are asked of a store 80 ms away."""
    far = Far(f"memcached://127.0.0.1:{started.memcached()[0]}", 0.04)
    config = CONFIG.replace("LIMITERS\n", '  hot: {store: main, rule: "sliding-window:100000000/1m,lease=1s"}\n'
                            '  cold: {store: main, rule: "sliding-window:1000000/1m"}\n')
    server = started.weir(far.url("timeout=1s"), config=config)
    port = server.ports["resp"][0]
    medians, tails, known = [], [], []
    for _ in range(options.rounds):
        cold = subprocess.Popen(["redis-benchmark", "-p", str(port), "-c", "500", "-n", "10000000", "-r", "100000000",
                                 "WEIR.TAKE", "cold", "key:__rand_int__"],
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(2)
        client, waits, local, until = server.connect(), [], 0, time.monotonic() + 3
        while time.monotonic() < until:
            began = time.monotonic()
            local += "local" in client.ask("WEIR.TAKE", "hot", "key")
            waits.append((time.monotonic() - began) * 1000)
        client.close()
        cold.kill()
        cold.wait()
        medians.append(statistics.median(waits))
        tails.append(statistics.quantiles(waits, n=1000)[998])
        known.append(local / len(waits))
    asked = server.metric("weir_serve_exchanges_total")
    far.end()
    print(f"a hot key with lease=1s beside 500 cold ones, store 80 ms away: p50 {statistics.median(medians):.2f} ms, "
          f"p99.9 {statistics.median(tails):.2f} ms; {statistics.median(known) * 100:.2f} % need no store; "
          f"{asked / options.rounds / 5:.0f} exchanges a second\n", flush=True)


def figure_memory(started):
    server = started.weir("memory:")
    server.connect().ask("PING")
    before = server.memory_kib()
    idle = [server.connect() for _ in range(400)]
    for client in idle:
        client.ask("PING")
    print(f"idle connection: {(server.memory_kib() - before) / len(idle):.1f} KiB")
    for client in idle:
        client.close()
    rules = "".join(f'  l{i}: {{store: main, rule: "fixed-window:{10 + i % 20}/1h"}}\n'
                    for i in range(1000))
    print(f"1,000 limiters of 20 distinct rules, one more than none: ", end="")
    with Server(CONFIG.replace("URL", "memory:?timeout=1s").replace("LIMITERS\n", rules)) as many:
        client = many.connect()
        for i in range(1000):
            client.ask("WEIR.TAKE", f"l{i}", "key")
        client.close()
        print(f"{(many.memory_kib() - before) / 1024:.1f} MiB, {many.memory_kib() / 1024:.1f} MiB in "
              "all\n", flush=True)


for figure_name, figure in list(globals().items()):
    if not figure_name.startswith("figure_") or options.only not in figure_name:
        continue
    running = Started()
    try:
        figure(running)
    finally:
        running.end()
