"""Limits of keys that are set while servers run: seen by all of them within a second and a deadline, whatever
their clients ask meanwhile. `python3 test_limits.py 20` is the hunt; the check has three servers."""

import os
import subprocess
import sys
import time
import unittest

from server import PATIENCE_S, PROGRAM, Server, Store, await_that

RULE = "sliding-window:100/1m,most=5000"
SERVERS = int(sys.argv.pop(1)) if len(sys.argv) > 1 and sys.argv[1].isdigit() else 3
SEEN_S = 1 + 0.05  # T, and what this test takes between two rounds; the longest answer comes on top
CONFIG = """listen:
  resp: [{address: "127.0.0.1:0"}]
stores: {main: {url: "%s?timeout=10s"}}
limiters:
  api: {store: main, rule: "%s", limits: store}
  closed: {store: main, rule: "%s,name=closed", limits: store, absent: deny}
"""


def limit(store, *words, rule=RULE):
    done = subprocess.run([PROGRAM, "limit", *words, "--store", store.url, "--rule", rule], capture_output=True,
                          text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


class Limits(unittest.TestCase):
    def take(self, client, limiter, key):
        flat = client.ask("WEIR.TAKE", limiter, key)
        self.assertIsInstance(flat, list, flat)
        return dict(zip(flat[::2], flat[1::2]))

    def start(self, kind, count):
        store = Store(kind)
        self.addCleanup(store.end)
        clients = []
        for _ in range(count):
            server = Server(CONFIG % (store.url, RULE, RULE))
            self.addCleanup(server.end)
            clients.append(server.connect())
            self.addCleanup(clients[-1].close)
        return store, clients

    def await_limit(self, clients, wanted):
        """How long after this the last request was sent that did not go by it, and the longest round of
        requests; all are asked all the time, as keys in use are."""
        begin = last = time.monotonic()
        longest = 0
        while time.monotonic() < begin + PATIENCE_S:
            sent = time.monotonic()
            told = [self.take(client, "api", "alice") for client in clients]
            longest = max(longest, time.monotonic() - sent)
            if all(wanted(one) for one in told):
                return last - begin, longest
            last = sent
            time.sleep(0.005)
        self.fail(f"not seen: {told}")

    def test_all_servers_see_what_is_set(self):
        for kind in ("memcached", "redis") if SERVERS > 3 else ("redis",):
            store, clients = self.start(kind, SERVERS)
            for client in clients:
                self.assertEqual(self.take(client, "api", "alice")["limit"], 100)
            took = []
            for words, wanted in ((("5000/1m",), lambda one: one["limit"] == 5000 and one["allowed"] == 1),
                                  (("blocked",), lambda one: one["allowed"] == 0 and one["retry_after_us"] == -1),
                                  (("7",), lambda one: one["limit"] == 7 and one["allowed"] == 0)):
                limit(store, "set", "api:alice", *words)
                took.append(self.await_limit(clients, wanted))
            limit(store, "unset", "api:alice")
            took.append(self.await_limit(clients, lambda one: one["limit"] == 100))
            print(f"{kind}, {SERVERS} servers: seen after {', '.join('%.3f s' % one for one, _ in took)}; "
                  f"longest round {max(longest for _, longest in took):.3f} s")
            if os.environ.get("WEIR_SANITIZED", "") == "":
                for one, longest in took:
                    self.assertLess(one, SEEN_S + longest)

    def test_a_key_that_none_was_set_for_may_be_denied(self):
        store, (client,) = self.start("redis", 1)
        rule = RULE + ",name=closed"
        self.assertEqual(self.take(client, "closed", "bob")["allowed"], 0)
        limit(store, "set", "closed:bob", "9", rule=rule)
        await_that(lambda: self.take(client, "closed", "bob")["limit"] == 9, "the limit")
        self.assertEqual(self.take(client, "closed", "carl")["allowed"], 0)

    def test_many_are_loaded(self):
        store, (client,) = self.start("memcached", 1)
        lines = "".join(f"api:customer{i}\t{1 + i % 5000}/1m\n" for i in range(10000))
        done = subprocess.run([PROGRAM, "limit", "load", "-", "--store", store.url, "--rule", RULE], input=lines,
                              capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        self.assertEqual((done.returncode, done.stdout), (0, "10000 set\n"), done.stderr)
        for i in (0, 777, 9999):
            self.assertEqual(self.take(client, "api", f"customer{i}")["limit"], 1 + i % 5000)


class Faults(unittest.TestCase):
    def refuse(self, limiter, why):
        with self.assertRaises(AssertionError) as raised:
            Server("listen: {resp: [{address: \"127.0.0.1:0\"}]}\nstores: {main: {url: \"memory:\"}}\n"
                   "limiters: {api: {store: main, " + limiter + "}}\n")
        self.assertIn(why, str(raised.exception))

    def test_limits_need_a_rule_that_has_some(self):
        self.refuse('rule: "fixed-window:5/1m", limits: store', "limits_us: accepted with most= in one of the rules")
        self.refuse('rule: "fixed-window:5/1m,most=9,lease=1s", limits: store', "with lease= in rule 1")
        self.refuse('rule: "fixed-window:5/1m,most=9", absent: deny', "absent: deny: accepted with limits: store")
        self.refuse('rule: "fixed-window:5/1m,most=9", limits: file', "accepted are off and store")


if __name__ == "__main__":
    unittest.main()
