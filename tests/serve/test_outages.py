"""The log of stores that go, come back and refuse: whoever reads it needs no metrics for that."""

import json
import re
import signal
import time
import unittest

from server import BASE, Client, Server, Store, await_that, http

POLICIES = ("local", "allow", "none")
LOST = r"store %s: 127\.0\.0\.1:\d+ is lost: (.*); the store's fallback decides until it is back\n"
BACK = r"store %s: 127\.0\.0\.1:\d+ is back\n"
REFUSED = r"store %s: 127\.0\.0\.1:\d+ has refused, \d+ times since it was last said: (.*)\n"


def config(**stores):
    """A store and a limiter of each name."""
    lines = "".join("  %s: {url: \"%s\", fallback: %s}\n" % (name, url, policy)
                    for name, (url, policy) in stores.items())
    limits = "".join("  %s: {store: %s, rule: \"fixed-window:1000000000/1h\"}\n" % (name, name) for name in stores)
    return BASE.replace("stores:\n", "stores:\n" + lines).replace("limiters:\n", "limiters:\n" + limits)


class Outages(unittest.TestCase):
    def store(self, kind, *arguments):
        store = Store(kind, *arguments)
        self.addCleanup(store.end)
        return store

    def said(self, server, pattern, name):
        return re.findall(pattern % name, server.log())

    def ask_until(self, server, names, what, name):
        """Takes, each time of another key, until it is so."""
        client = server.connect()
        self.addCleanup(client.close)
        count = 0

        def looks():
            nonlocal count
            for limiter in names:
                client.ask("WEIR.TAKE", limiter, f"client-{count}")
                count += 1
            return what()
        await_that(looks, name)

    def told(self, server, name):
        """The words of /status.json about the server of a store."""
        client = server.connect("admin")
        page = json.loads(http(client, "GET /status.json HTTP/1.1\r\nHost: localhost\r\n\r\n")[1])
        client.close()
        return next(store["servers"][0] for store in page["stores"] if store["name"] == name)

    def goes_and_comes(self, orders, words):
        kinds = {"memcached": self.store("memcached"), "redis": self.store("redis")}
        stores = {f"{kind}-{policy}": (f"{store.url}?timeout={20 + i}ms", policy) for kind, store in kinds.items()
                  for i, policy in enumerate(POLICIES)}
        with Server(config(**stores)) as server:
            self.ask_until(server, stores, lambda: True, "nothing")
            time.sleep(1.2)  # a look of the server
            self.assertNotRegex(server.log(), "lost|back|refused")
            for store in kinds.values():
                store.order(orders[0])
            self.ask_until(server, stores, lambda: all(self.said(server, LOST, name) for name in stores), "a line")
            for name in stores:
                self.assertRegex(self.said(server, LOST, name)[0], words)
                self.assertRegex(self.told(server, name)["last_error"], words)
            client = server.connect("admin")
            status, body, _ = http(client, "GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            client.close()
            self.assertEqual(status, 200)
            self.assertRegex(body, r"store redis-none: 127\.0\.0\.1:\d+ (open|probing), outages [1-9]")
            for store in kinds.values():
                store.order(orders[1])
            self.ask_until(server, stores, lambda: all(self.said(server, BACK, name) for name in stores), "a line")
            for name in stores:
                self.assertEqual(len(self.said(server, BACK, name)), 1)

    def test_a_reload_in_the_quiet_after_a_loss(self):
        """A server that is back within it was lost, and is told to be back, whatever was read meanwhile: under another
        name, too. One that is not asked any more is told so."""
        stays, goes = self.store("memcached"), self.store("redis")
        with Server(config(stays=(stays.url, "local"), goes=(goes.url, "local"))) as server:
            self.ask_until(server, ["stays", "goes"], lambda: True, "nothing")
            for store in (stays, goes):
                store.order("kill")
            self.ask_until(server, ["stays", "goes"], lambda: all(self.said(server, LOST, name) for name in ("stays", "goes")),
                           "a line")
            stays.order("restart")
            client = server.connect()
            await_that(lambda: client.ask("WEIR.TAKE", "stays", "key") and self.told(server, "stays")["breaker"] == "closed",
                       "an answer")
            client.close()
            self.assertEqual(self.said(server, BACK, "stays"), [])  # else the machine was too slow to show it
            server.write(server.config.replace("stays", "renamed").replace(goes.url, goes.url + "?timeout=30ms"))
            server.process.send_signal(signal.SIGHUP)
            server.await_log("is in use now")
            server.await_log("store goes: what was lost is no longer asked\n")
            await_that(lambda: self.said(server, BACK, "renamed"), "a line")
            self.assertEqual(len(self.said(server, LOST, "stays") + self.said(server, LOST, "renamed")), 1)

    def test_killed(self):
        self.goes_and_comes(("kill", "restart"), "refused|closed|reset|connect")

    def test_stopped(self):
        self.goes_and_comes(("stop", "continue"), "deadline|in time|does not answer")

    def order_redis(self, store, *words):
        client = Client(("127.0.0.1", int(store.url.rsplit(":", 1)[1])))
        self.assertEqual(client.ask(*words), "+OK")
        client.close()

    def refuses(self, store, words):
        with Server(config(full=(store.url, "local"))) as server:
            self.ask_until(server, ["full"], lambda: self.said(server, REFUSED, "full"), "a line")
            self.assertRegex(self.said(server, REFUSED, "full")[0], words)
            self.assertNotIn("client-", server.log())  # a key is nobody's but its client's
            told = self.told(server, "full")
            self.assertRegex(told["last_refusal"], words)
            self.assertGreater(told["refusals"], 0)
            lines = len(self.said(server, REFUSED, "full"))
            until = time.monotonic() + 1.5
            self.ask_until(server, ["full"], lambda: time.monotonic() > until, "more of them")
            self.assertLessEqual(len(self.said(server, REFUSED, "full")), lines + 1)

    def test_redis_is_full(self):
        store = self.store("redis")
        self.order_redis(store, "CONFIG", "SET", "maxmemory", "1")
        self.refuses(store, "of a key: the server is out of memory")

    def test_redis_has_too_few_replicas(self):
        store = self.store("redis")
        self.order_redis(store, "CONFIG", "SET", "min-replicas-to-write", "1")
        self.refuses(store, "of a key: the server has too few replicas")

    def test_redis_is_read_only(self):
        store = self.store("redis")
        self.order_redis(store, "REPLICAOF", "127.0.0.1", "1")
        self.refuses(store, "of a key: the server is a read-only replica")

    def test_memcached_is_full(self):
        store = self.store("memcached", "-M", "-m", "2")
        client = Client(("127.0.0.1", int(store.url.rsplit(":", 1)[1])))
        for length in range(8, 150, 8):  # whichever class of sizes a counter falls into
            told, count = {"STORED"}, 0
            while told == {"STORED"}:
                client.send("".join(f"set {count + i:0{length}} 0 0 8\r\n12345678\r\n" for i in range(1000)))
                told = {client.line() for _ in range(1000)}
                count += 1000
        client.close()
        self.refuses(store, "SERVER_ERROR [Oo]ut of memory")


if __name__ == "__main__":
    unittest.main()
