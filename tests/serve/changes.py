"""Limits that change while servers hold leases: changes.py CHANGES [memcached|redis]. Clients ask four servers for
one key after another, as fast as they can. Meanwhile the limit becomes ten times as large, or a tenth of it:

    by file    each server reads another configuration, at a moment of its own
    by record  the limit of the key is set again and again, at whichever server, over RESP or HTTP

By the stamps of what was admitted, never more than the larger limit allows; of every algorithm. A slow machine asks
less, and makes more changes until lots were used and both limits were met. Exit code 1: something was over."""

import collections
import contextlib
import random
import signal
import sys
import threading
import time

from server import PATIENCE_S, Server, Store, command, http

SERVERS, TAKES, COST_MOST = 4, 8, 3
SMALL, LARGE, PERIOD_US = 30, 300, 2000000
CHANGE_S = 2.6
RULES = {
    "fixed": "fixed-window:%d/2s,most=300,lease=500ms",
    "sliding": "sliding-window:%d/2s,cells=4,most=300,lease=500ms",
    "strict": "sliding-window:%d/2s,cells=4,strict,most=300,lease=500ms",
    "quota": "quota:%d/2s,most=300,lease=500ms",
    "bucket": "token-bucket:%d/2s,most=300,lease=500ms",
    "leaky": "leaky-bucket:%d/2s,queue=9,most=300",
    "log": "sliding-log:%d/2s,most=300",
}
TOLD = {(way, limit) for way in ("file", "key") for limit in (SMALL, LARGE)}  # by each way, so that it did something
WAYS = {way: ["%s-%s" % (way, rule) for rule in RULES] for way in ("file", "key")}
LIMITERS = WAYS["file"] + WAYS["key"]
HEAD = """listen:
  resp: {address: "127.0.0.1:0", sets_limits: true}
  http: {address: "127.0.0.1:0", sets_limits: true, auth: right}
stores: {main: {url: "%s?timeout=400ms", fallback: none}}
limiters:
"""


def limiters(limit):
    """Those by file have this limit; those by record begin with the small one."""
    return "".join('  %s: {store: main, rule: "%s"%s}\n' % (name, RULES[name.split("-")[1]] % (SMALL if by_key else limit),
                                                           ", limits: store" if by_key else "")
                   for name in LIMITERS for by_key in (name in WAYS["key"],))


class Asker(threading.Thread):
    """Asks one server, until it is told to end."""

    def __init__(self, server, names, key, chance):
        super().__init__()
        self.client = server.connect()
        self.names, self.key, self.chance = names, key, random.Random(chance)
        self.admitted = collections.defaultdict(list)  # of a limiter: stamp and cost
        self.limits, self.by_lots, self.over, self.why = set(), 0, threading.Event(), None

    def run(self):
        try:
            while not self.over.is_set():
                self.ask()
        except Exception as why:  # told by the main thread
            self.why = why
        self.client.close()

    def ask(self):
        asked = [(name, 1 if name.endswith("log") else self.chance.randint(1, COST_MOST))
                 for name in self.names for _ in range(TAKES)]
        self.client.send(b"".join(command("WEIR.TAKE", name, self.key, "COST", cost) for name, cost in asked))
        for name, cost in asked:
            flat = self.client.reply()
            if not isinstance(flat, list):
                continue  # no answer in time
            told = dict(zip(flat[::2], flat[1::2]))
            self.limits.add(told["limit"])
            if told["allowed"] == 1:
                self.admitted[name].append((int(told["stamp"].split(".")[0]) + told["delay_us"], cost))
                self.by_lots += told["source"] == "local"


def reload(server, limit):
    server.write(server.config.split("limiters:")[0] + "limiters:\n" + limiters(limit))
    server.process.send_signal(signal.SIGHUP)


def set_limit(server, key, limit, over_http):
    for name in WAYS["key"]:
        with contextlib.closing(server.connect("http" if over_http else "resp")) as client:
            if over_http:
                http(client, "PUT /limits/%s/%s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer right\r\n"
                             "Content-Length: %d\r\n\r\n%d" % (name, key, len(str(limit)), limit))
            else:
                client.ask("WEIR.LIMIT", "SET", name, key, limit)


def change(servers, number, chance):
    """What was admitted meanwhile by limiter, the limits that were told, and how many by lots."""
    key, by_file = "key-%d" % number, number % 2 == 0
    limits = (SMALL, LARGE) if number // 2 % 2 == 0 else (LARGE, SMALL)
    reads = [server.log().count("is in use now") for server in servers]
    moments = [(chance.uniform(0.2, CHANGE_S - 0.4), reload, server, limits[1]) for server in servers]
    if not by_file:
        moments = [(0.5 * i, set_limit, chance.choice(servers), key, limits[i % 2], chance.random() < 0.5)
                   for i in range(int(CHANGE_S / 0.5))]
    moments.sort(key=lambda moment: moment[0])
    askers = [Asker(server, WAYS["file" if by_file else "key"], key, chance.random()) for server in servers]
    begin = time.monotonic()
    for asker in askers:
        asker.start()
    for at_s, does, *what in moments:
        time.sleep(max(0, begin + at_s - time.monotonic()))
        does(*what)
    time.sleep(max(0, begin + CHANGE_S - time.monotonic()))
    for asker in askers:
        asker.over.set()
    for asker in askers:
        asker.join()
        if asker.why is not None:
            raise asker.why
    for server, before in zip(servers, reads if by_file else ()):
        server.await_log("is in use now", before + 1)
    admitted = {name: sorted(one for asker in askers for one in asker.admitted[name]) for name in askers[0].names}
    return admitted, set.union(*(asker.limits for asker in askers)), sum(asker.by_lots for asker in askers)


def most_in_a_period(admitted, period_us, aligned):
    most = total = first = 0
    for at_us, cost in admitted:
        total += cost
        while admitted[first][0] // period_us != at_us // period_us if aligned else at_us - admitted[first][0] >= period_us:
            total -= admitted[first][1]
            first += 1
        most = max(most, total)
    return most


def most_of_a_bucket(admitted):
    """In any interval, less what flows in."""
    most = full = last_us = 0
    for at_us, cost in admitted:
        full = max(0, full - (at_us - last_us) * LARGE / PERIOD_US) + cost
        last_us, most = at_us, max(most, full)
    return most


def bounds(kind):
    """On Redis a bucket is charged first: what is in vain of one turn of each server admits others on top."""
    in_vain = SERVERS * TAKES * COST_MOST if kind == "redis" else 0
    return {"fixed": LARGE, "sliding": LARGE + LARGE // 2, "strict": LARGE, "quota": 2 * LARGE, "log": LARGE,
            "bucket": LARGE + in_vain, "leaky": COST_MOST + in_vain}


def run(kind, changes):
    most, told, by_lots, chance = collections.Counter(), set(), 0, random.Random(changes)
    bound, until = bounds(kind), time.monotonic() + PATIENCE_S
    with contextlib.ExitStack() as stack:
        store = Store(kind)
        stack.callback(store.end)
        servers = [stack.enter_context(Server(HEAD % store.url + limiters(SMALL))) for _ in range(SERVERS)]
        number = 0
        while number < changes or (not (by_lots and TOLD <= told) and time.monotonic() < until):
            admitted, limits, local = change(servers, number, chance)
            told |= {("key" if number % 2 else "file", limit) for limit in limits}
            number, by_lots = number + 1, by_lots + local
            for name, one in admitted.items():
                rule = name.split("-")[1]
                at_once = most_of_a_bucket(one) if rule in ("bucket", "leaky") else most_in_a_period(one, PERIOD_US, rule == "fixed")
                most[name] = max(most[name], at_once)
    over = [name for name in LIMITERS if most[name] > bound[name.split("-")[1]] + 1e-6]
    print("%s: %d changes, %d by lots, limits told %s" % (kind, number, by_lots, sorted(told)))
    for name in LIMITERS:
        print("  %-12s at most %d of %d%s" % (name, most[name], bound[name.split("-")[1]], ", OVER" if name in over else ""))
    return not over and by_lots > 0 and TOLD <= told


def main():
    kinds = sys.argv[2:] or ["memcached", "redis"]
    return 0 if all([run(kind, int(sys.argv[1])) for kind in kinds]) else 1


if __name__ == "__main__":
    sys.exit(main())
