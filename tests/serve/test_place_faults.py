"""test_place_faults.py [SECONDS]: two servers of one store whose clients hold places, while all of them fail.
Servers are stopped for longer than a period, killed, ended and started again, and their limiters are changed;
the store is stopped; clients go without a word. Never more places are held than the rule says, each until its
client knows better, and in the end all are free again. 5 s of each store in the check."""

import random
import signal
import sys
import threading
import time
import unittest

from server import BASE, Server, Store

MOST, CLIENTS = 8, 24
RULES = ("in-flight:%d/1s" % MOST, "in-flight:%d/1000ms" % MOST)  # one key in the store, two limiters
CONFIG = BASE.replace("limiters:\n", 'limiters:\n  few: {store: main, rule: "%s"}\n' % RULES[0])
SECONDS = 5
BACK_S = 10  # however busy a machine


def fields(client, *words):
    flat = client.ask(*words)
    return dict(zip(flat[::2], flat[1::2])) if isinstance(flat, list) else {"allowed": 0, "held": 0}


class Crowd:
    """Its clients note from when until when each place was theirs."""

    def __init__(self, servers):
        self.servers, self.held, self.over = servers, [], threading.Event()
        self.threads = [threading.Thread(target=self.come_and_go, args=(random.Random(i),)) for i in range(CLIENTS)]

    def come_and_go(self, chance):
        while not self.over.is_set():
            client = None
            try:
                client = chance.choice(self.servers).connect()
                while not self.over.is_set() and self.hold_one(client, chance):
                    pass
            except (OSError, EOFError):
                time.sleep(0.05)  # the server is gone
            finally:
                if client is not None:
                    client.close()

    def hold_one(self, client, chance):
        """False: the client goes, with its place."""
        told = fields(client, "WEIR.ACQUIRE", "few", "k", "COST", chance.choice((1, 1, 1, 2)))
        if not told["allowed"]:
            time.sleep(chance.random() * 0.05)
            return True
        began, until = time.time(), told["held_until_us"] / 1e6
        end = began + chance.choice((0.02, 0.1, 0.6, 5)) * chance.random()
        try:
            while time.time() < end and not self.over.is_set():
                time.sleep(0.03)
                asked = fields(client, "WEIR.HELD", "few", "k", told["place"])
                if not asked["held"]:
                    break
                until = max(until, asked["held_until_us"] / 1e6)
        finally:
            self.held.append((began, min(time.time(), until), told["cost"]))
        if chance.random() < 0.2:
            return False
        fields(client, "WEIR.RELEASE", "few", "k", told["place"])
        return True

    def most_at_once(self):
        """A place that goes at the same moment goes first."""
        edges = [(at, change) for begin, end, cost in self.held if end > begin for at, change in ((begin, cost), (end, -cost))]
        held = most = 0
        for _, change in sorted(edges):
            held += change
            most = max(most, held)
        return most


class PlaceFaults(unittest.TestCase):
    def start(self, config):
        server = Server(config)
        self.addCleanup(server.end)
        return server

    def fail_one(self, servers, config, store, chance):
        at, fault = chance.randrange(2), chance.choice(("stop", "reload", "reload", "end", "kill", "store"))
        server = servers[at]
        if fault == "stop":
            server.process.send_signal(signal.SIGSTOP)
            time.sleep(chance.random() * 1.5)
            server.process.send_signal(signal.SIGCONT)
        elif fault == "reload":
            server.write(server.config.replace(RULES[0], chance.choice(RULES)))
            server.process.send_signal(signal.SIGHUP)
        elif fault == "store":
            store.order("stop")
            time.sleep(chance.random() * 0.4)
            store.order("continue")
        else:
            if fault == "end":
                server.end()
            else:
                server.process.kill()
                server.process.wait()
                server.release()
            servers[at] = self.start(config)

    def suffer(self, kind):
        store = Store(kind)
        self.addCleanup(store.end)
        config = CONFIG.replace("memory:?timeout=10s\"", store.url + "?timeout=50ms\", fallback: none")
        servers = [self.start(config) for _ in range(2)]
        crowd, chance = Crowd(servers), random.Random(kind)
        for thread in crowd.threads:
            thread.start()
        end = time.monotonic() + SECONDS
        try:
            while time.monotonic() < end:
                time.sleep(chance.random() * 0.5)
                self.fail_one(servers, config, store, chance)
        finally:
            crowd.over.set()
            for thread in crowd.threads:
                thread.join()
        began, client = time.monotonic(), servers[0].connect()
        while not fields(client, "WEIR.ACQUIRE", "few", "k", "COST", MOST)["allowed"]:
            self.assertLess(time.monotonic() - began, BACK_S, "places do not come back")
            time.sleep(0.02)
        print(f"{kind}: {len(crowd.held)} places, {crowd.most_at_once()} at once, all back after {time.monotonic() - began:.2f} s")
        client.close()
        self.assertGreater(len(crowd.held), 0)
        self.assertLessEqual(crowd.most_at_once(), MOST)

    def test_memcached(self):
        self.suffer("memcached")

    def test_redis(self):
        self.suffer("redis")


if __name__ == "__main__":
    if len(sys.argv) > 1 and sys.argv[1].isdigit():
        SECONDS = int(sys.argv.pop(1))
    unittest.main()
