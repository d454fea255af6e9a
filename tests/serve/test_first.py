"""The first clients: stores are connected to before the server serves, and a store that is not reached holds nobody up for longer."""

import json
import pathlib
import re
import signal
import socket
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "fixture"))

from far import Far
from server import PROGRAM, Server, Store, await_that, http

KINDS = ("memcached", "redis")
FIRST = 8  # requests of a fresh server
TRIES = 8  # on a machine that is busy with something else
CONFIG = """
listen:
  resp: {address: "127.0.0.1:0"}
  http: {address: "127.0.0.1:0"}
  admin: {address: "127.0.0.1:0"}
stores:
STORES
limiters:
  api: {store: main, rule: "sliding-window:1000/1h"}
"""


def config(**stores):
    lines = ['  %s: {url: "%s"}' % (name, url) for name, url in stores.items()]
    return CONFIG.replace("STORES", "\n".join(lines))


class Silent:
    """Accepts connections, as the kernel does, and says nothing."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))

    def url(self, query):
        return "redis://127.0.0.1:%d?%s" % (self.listener.getsockname()[1], query)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listener.close()


def page(server, path):
    client = server.connect("admin")
    status, body, _ = http(client, f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n")
    client.close()
    return status, body


def await_admin(server):
    """While it connects to its stores nothing else listens."""
    server.await_log("(admin)")
    server.ports["admin"] = [int(re.search(r"listening at \S*?:(\d+) \(admin\)", server.log()).group(1))]


def ask_resp(server):
    client = server.connect()
    told = [client.ask("WEIR.TAKE", "api", f"resp-{i}-{time.time_ns()}") for i in range(FIRST)]
    client.close()
    return [dict(zip(one[::2], one[1::2])) for one in told]


def ask_http(server):
    client = server.connect("http")
    told = []
    for i in range(FIRST):
        body = json.dumps({"limiter": "api", "key": f"http-{i}-{time.time_ns()}"})
        told.append(json.loads(http(client, f"POST /take HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}")[1]))
    client.close()
    return told


def is_decided(answer):
    """By the store: no policy allowed it."""
    return answer["allowed"] in (1, True) and answer["source"] == "store"


class StoresFarAway(unittest.TestCase):
    def assert_first_are_decided(self, url, ask):
        for left in range(TRIES - 1, -1, -1):
            with Server(config(main=url)) as server:
                told = ask(server)
            if all(map(is_decided, told)) or left == 0:
                self.assertTrue(all(map(is_decided, told)), told)
                return

    def test_the_first_clients_of_a_fresh_server_are_decided(self):
        """The default deadline has room for one of 12 ms too, on a machine that is on time."""
        for kind in KINDS:
            store = Store(kind)
            for trip_ms, options in ((3, []), (5, []), (12, ["timeout=60ms"])):
                with Far(store.url, trip_ms / 2000) as far:
                    for ask in (ask_resp, ask_http):
                        with self.subTest(kind, trip_ms=trip_ms, ask=ask.__name__):
                            self.assert_first_are_decided(far.url(*options), ask)
            store.end()


class StoresAway(unittest.TestCase):
    def test_the_server_starts_all_the_same_and_says_so_once(self):
        store = Store("redis")
        store.order("kill")
        with Server(config(main=store.url + "?probe=10ms&connect-timeout=300ms", other="memory:")) as server:
            self.assertEqual(server.log().count("store main is not reached: 127.0.0.1:"), 1)
            self.assertIn("Connection refused", server.log())
            status, body = page(server, "/readyz")
            self.assertEqual((status, body.split("\n")[0]), (200, "ready"))
            self.assertRegex(body, r"(?m)^store main: 127\.0\.0\.1:\d+ \w+, outages \d+, never answered$")
            self.assertRegex(body, r"(?m)^store other: - closed, outages 0$")
            self.assertFalse(self.answered(server))
            store.order("restart")
            await_that(lambda: all(map(is_decided, ask_resp(server))), "the store")
            self.assertTrue(self.answered(server))
            store.order("kill")  # an outage later is no reason to be left
            ask_resp(server)
            status, body = page(server, "/readyz")
            self.assertEqual(status, 200)
            self.assertNotIn("never answered", body)
            self.assertEqual(server.log().count("is not reached"), 1)
        store.end()

    def test_a_name_that_is_not_there_yet_keeps_no_server_from_starting(self):
        """Nor does it refuse a reload; one of several members leaves the others as they are."""
        store = Store("memcached")
        host = "memcached://no-such-host.invalid"
        pool = "%s,%s?connect-timeout=300ms" % (host, store.url.split("//")[1].split("?")[0])
        with Server(config(main=pool)) as server:
            self.assert_looked_for(server, "main")
            self.assertTrue(any(map(is_decided, ask_resp(server))))  # on the member that is there
            server.write(server.config.replace("limiters:", '  late: {url: "%s?connect-timeout=300ms"}\nlimiters:' % host))
            server.await_log("is in use now")
            self.assert_looked_for(server, "late")
            checked = subprocess.run([PROGRAM, "check", server.file], capture_output=True, text=True, check=False)
            self.assertEqual(checked.returncode, 0, checked.stderr)
            for name in ("main", "late"):
                self.assertIn("warning: store %s: no-such-host.invalid:11211: host" % name, checked.stderr)
            checked = subprocess.run([PROGRAM, "check", "--json", server.file], capture_output=True, check=False)
            self.assertEqual(json.loads(checked.stdout)["warnings"], 2)
        store.end()

    def assert_looked_for(self, server, name):
        lines = [line for line in server.log().splitlines() if "store %s is not reached: no-such-host." % name in line]
        self.assertEqual(len(lines), 1, server.log())
        self.assertIn('host "no-such-host.invalid" cannot be found', lines[0])
        status, body = page(server, "/readyz")
        self.assertEqual((status, body.split("\n")[0]), (200, "ready"))

    def answered(self, server):
        return json.loads(page(server, "/status.json")[1])["stores"][0]["servers"][0]["answered"]

    def test_all_stores_have_their_time_together(self):
        with Silent() as silent:
            begin = time.monotonic()
            urls = {f"s{i}": silent.url(f"connect-timeout=2s&namespace=s{i}") for i in range(4)}
            with Server(config(main="memory:", **urls)) as server:
                took_s = time.monotonic() - begin
                self.assertEqual(server.log().count("is not reached"), 4)
            self.assertTrue(2 <= took_s < 6, took_s)

    def test_not_ready_until_every_store_has_had_its_time(self):
        with Silent() as silent, Server(config(main=silent.url("connect-timeout=3s")), wait=False) as server:
            await_admin(server)
            status, body = page(server, "/readyz")
            self.assertEqual((status, body.split("\n")[0]), (503, "connecting"))
            self.assertIn("never answered", body)
            self.assertEqual(page(server, "/healthz")[0], 200)
            for path in ("/status.json", "/metrics"):
                self.assertEqual(page(server, path)[0], 200)
            for held in server.reserved[:2]:
                with self.assertRaises(ConnectionRefusedError):
                    socket.create_connection(held.getsockname())
            server.await_start(server.config)
            self.assertEqual(page(server, "/readyz")[0], 200)

    def test_a_server_that_connects_can_be_ended(self):
        with Silent() as silent, Server(config(main=silent.url("connect-timeout=60s")), wait=False) as server:
            await_admin(server)
            begin = time.monotonic()
            server.process.send_signal(signal.SIGTERM)
            self.assertEqual(server.process.wait(50), 0)
            self.assertLess(time.monotonic() - begin, 30)
            self.assertNotIn("not reached", server.log())


class Reload(unittest.TestCase):
    def test_new_stores_are_connected_to_before_they_are_used(self):
        """Meanwhile clients are answered by the old configuration, and what changes then is used afterwards."""
        with Silent() as silent, Server(config(main="memory:")) as server:
            client = server.connect()
            limit = lambda: (lambda told: told[told.index("limit") + 1])(client.ask("WEIR.PEEK", "api", "k"))
            ports = {"resp": 0, "http": 1, "admin": 2}
            fresh = config(main="memory:", new=silent.url("connect-timeout=4s")).replace("1000/1h", "7/1h")
            for name, index in ports.items():
                fresh = fresh.replace('%s: {address: "127.0.0.1:0"}' % name,
                                      '%s: {address: "127.0.0.1:%d"}' % (name, server.reserved[index].getsockname()[1]))
            server.write(fresh)
            server.process.send_signal(signal.SIGHUP)
            slowest_s = 0
            while "in use now" not in server.log():
                begin = time.monotonic()
                self.assertIn(limit(), (1000, 7) if "in use now" not in server.log() else (1000, 7, 9))
                self.assertEqual(page(server, "/readyz")[0], 200)
                slowest_s = max(slowest_s, time.monotonic() - begin)
                server.write(fresh.replace("7/1h", "9/1h"))
            self.assertLess(slowest_s, 2)  # of the 4 that the new store has
            self.assertEqual(server.log().count("store new is not reached"), 1)
            await_that(lambda: limit() == 9, "the last configuration")
            self.assertEqual(server.log().count("store new is not reached"), 1)  # it is no new one then
            client.close()

    def test_a_new_store_far_away_decides_its_first_client(self):
        store = Store("redis")
        with Far(store.url, 0.0025) as far, Server(config(main="memory:")) as server:
            server.write(server.config.replace("memory:", far.url()))
            server.process.send_signal(signal.SIGHUP)
            server.await_log("in use now")
            self.assertTrue(any(is_decided(one) for one in ask_resp(server)[:2]))
        store.end()


if __name__ == "__main__":
    unittest.main()
