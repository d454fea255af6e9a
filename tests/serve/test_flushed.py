"""A store that forgets all, as by a flush or a restart: two servers, each of which remembers the window that
was open, admit the limit once more together, and no more a little later."""

import time
import unittest

from server import PATIENCE_S, Client, Server, Store, http

LIMIT, TAKES, LATER_S = 10, 30, 1.3
CONFIG = """
listen: {http: {address: "127.0.0.1:0"}}
stores: {main: {url: "%s?timeout=10s", fallback: none}}
limiters:
  quota: {rule: "quota:10/1h"}
  stack: {rule: "fixed-window:5000/1h;quota:10/1h"}
"""
NAMES = "quota", "stack"
FLUSHES = {"memcached": b"flush_all\r\n", "redis": b"FLUSHALL\r\n"}


def flush(store, kind):
    client = Client(("127.0.0.1", int(store.url.rsplit(":", 1)[1])))
    client.send(FLUSHES[kind])
    assert client.line().lstrip("+") == "OK"
    client.close()


def restart(store, _):
    store.order("kill")
    store.order("restart")


class Flushed(unittest.TestCase):
    def take(self, servers, name, times):
        """By turns; how many are admitted."""
        request = f"GET /check/{name}?key=k HTTP/1.1\r\nHost: localhost\r\n\r\n"
        clients = [server.connect("http") for server in servers]
        admitted = sum(http(clients[i % len(clients)], request)[0] == 200 for i in range(times))
        for client in clients:
            client.close()
        return admitted

    def start(self, kind):
        store = Store(kind)
        self.addCleanup(store.end)
        servers = [Server(CONFIG % store.url) for _ in range(2)]
        for server in servers:
            self.addCleanup(server.end)
        return store, servers

    def check(self, lose):
        started = {kind: self.start(kind) for kind in FLUSHES}
        for kind, (store, servers) in started.items():
            for name in NAMES:
                self.assertEqual(self.take(servers, name, 4), 4)
            lose(store, kind)
        for _, servers in started.values():
            for name in NAMES:
                self.take_once_more(servers, name)
        time.sleep(LATER_S)
        for kind, (_, servers) in started.items():
            for name in NAMES:
                with self.subTest(store=kind, limiter=name):
                    self.assertEqual(self.take(servers, name, TAKES), 0)

    def take_once_more(self, servers, name):
        """A server that was restarted is met anew, which may take a while."""
        admitted = self.take(servers, name, TAKES)
        until = time.monotonic() + PATIENCE_S
        while admitted < LIMIT and time.monotonic() < until:
            admitted += self.take(servers, name, 1)
        self.assertEqual(admitted, LIMIT, name)

    def test_flushed(self):
        self.check(flush)

    def test_restarted(self):
        self.check(restart)


if __name__ == "__main__":
    unittest.main()
