"""HAProxy by its recipe, docs/serve/haproxy.md."""

import os
import signal
import time
import unittest

import hostile_forms
from recipe import THREE, Behind, Proxy, blocks, replace
from server import Client, await_that


class Haproxy(Behind):
    page = "serve/haproxy.md"

    def start(self, *changes):
        lua = blocks(self.page, "lua")[0]
        limited = blocks(self.page, "haproxy")[0]
        limited = replace(limited, ("bind :80\n", "bind 127.0.0.1:PORT\n"), ("127.0.0.1:3000", self.behind),
                          ("/etc/haproxy/", "FOLDER/"), *changes)
        lua = replace(lua, ("127.0.0.1:8080", self.weir), ("timeout = 1000", "timeout = 60000"))
        haproxy = Proxy({"haproxy.cfg": limited, "limit.lua": lua}, "haproxy", "-W", "-f", "FOLDER/haproxy.cfg")
        self.addCleanup(haproxy.end)
        return haproxy

    def test_a_client_is_limited_and_told(self):
        self.assert_limits(self.start())

    def test_hostile_forms(self):
        self.assert_addresses_hold(self.start)

    def test_hostile_keys(self):
        self.assert_keys_hold(lambda: self.start(("lua.limit api", "lua.limit_key by_key")), hostile_forms.BOUNDED)

    def test_what_weir_refuses(self):
        """A limiter that it does not know, and no decision: neither lets pass."""
        self.assertEqual(self.start(("lua.limit api", "lua.limit other")).get()[0], 400)
        self.server.write(replace(self.server.config, (self.store.url + '?timeout=10s"', 'memcached://127.0.0.1:1?timeout=1s", fallback: none')))
        self.server.await_log("is in use now")
        self.assertEqual(self.start().get()[0], 503)

    def test_what_others_have(self):
        """Rows of the page's table."""
        haproxy = self.start(('hdr Retry-After "%[var(txn.limit_retry_after)]" hdr RateLimit ',
                              'content-type text/plain string "slowly" hdr Retry-After "%[var(txn.limit_retry_after)]" hdr RateLimit '),
                             ("lua.limit api\n", "lua.limit api unless { src 127.0.0.8 }\n"))
        self.assertEqual([haproxy.get()[0::2] for _ in range(4)], [(200, b"hello\n")] * 3 + [(429, b"slowly")])
        self.assertEqual({haproxy.get(source="127.0.0.8")[0] for _ in range(4)}, {200})
        tarpit = self.start(("  http-request return status 429", "  timeout tarpit 300ms\n  http-request tarpit deny_status 429 if "
                             "{ var(txn.limit_status) -m int 429 }\n  http-request return status 429"))
        began = time.monotonic()
        self.assertEqual(tarpit.get()[0], 429)
        self.assertLess(0.3, time.monotonic() - began)

    def test_a_window_that_slides(self):
        self.change((THREE + "}", 'rule: "sliding-window:3/2s"}'))
        self.assertGreaterEqual(self.assert_comes_again(self.start()), 3)
        self.change((THREE + "}", 'rule: "sliding-window:3/10s"}'))
        self.server.await_log("is in use now", 2)
        haproxy = self.start()
        told = [haproxy.get(source="127.0.0.5") for _ in range(4)]
        self.assertEqual([status for status, _, _ in told], [200] * 3 + [429])
        self.assertEqual(told[3][1]["RateLimit-Policy"], '"api";q=3;w=10')
        # The first of three places comes free 10.4 s after their cell began, at the latest.
        self.assertTrue(1 <= int(told[3][1]["Retry-After"]) <= 11)

    def test_a_group(self):
        self.change(("limiters:\n", "limiters:\n  few: {store: main, rule: \"quota:2/1d\"}\n"),
                    more="groups: {both: [api, few]}\n")
        self.assert_group(self.start(("lua.limit api", "lua.limit both")))

    def test_what_is_not_asked(self):
        haproxy = self.start(("  http-request lua.limit", "  http-request return status 200 if { path /returns }\n"
                              "  http-request lua.limit"))
        for _ in range(5):
            self.assertEqual(haproxy.get("/returns")[0], 200)
        self.assertRegex(haproxy.get()[1]["RateLimit"], r'^"api";r=2;')

    def test_while_the_server_is_away(self):
        self.server.end()
        self.assertEqual(self.start().get()[0], 200)
        closed = self.start(("  http-after-response set-header RateLimit ", "  http-request return status 503 unless "
                             "{ var(txn.limit_status) -m int 200 }\n  http-after-response set-header RateLimit "))
        self.assertEqual(closed.get()[0], 503)


class Places(Behind):
    page, whole = "serve/haproxy.md", 2

    def setUp(self):
        super().setUp()
        lua, limited = blocks(self.page, "lua")[1], blocks(self.page, "haproxy")[1]
        limited = replace(limited, ("bind :80\n", "bind 127.0.0.1:PORT\n"), ("127.0.0.1:3000", self.behind),
                          ("/etc/haproxy/", "FOLDER/"))
        lua = replace(lua, ('"127.0.0.1", 6380', '"127.0.0.1", %d' % self.server.ports["resp"][0]))
        self.haproxy = Proxy({"haproxy.cfg": limited, "places.lua": lua}, "haproxy", "-W", "-f", "FOLDER/haproxy.cfg")
        self.addCleanup(self.haproxy.end)

    def test_at_most_three_and_none_leaks(self):
        self.assert_places(self.haproxy, "downloads")
        for early in (b"", b"GET /he", b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n123"):
            client = Client(("127.0.0.1", self.haproxy.port), source="127.0.0.2")
            client.send(early)
            time.sleep(0.1)
            client.close()
        await_that(lambda: self.held("downloads") == 0, "the places of clients that left early")

    def test_a_place_lasts_as_long_as_its_request(self):
        """Longer than the timeouts of the connection while it asks."""
        client, status = self.haproxy.begin("/held/200")
        time.sleep(1.5)
        self.assertEqual((status, self.held("downloads")), (200, 1))
        client.close()

    def test_connections_that_are_used_up(self):
        """Many clients that hold places must not open the limit for those who come behind them."""
        self.server.write(replace(self.server.config, ("connections_per_address: 10000", "connections_per_address: 4")))
        self.server.await_log("is in use now")
        told = [self.haproxy.begin("/held/200", "127.0.0.%d" % (2 + i // 3)) for i in range(8)]
        self.assertEqual([status for _, status in told], [200] * 4 + [429] * 4)
        for client, _ in told:
            client.close()

    def test_haproxy_that_is_killed(self):
        for _ in range(3):
            client, status = self.haproxy.begin("/held/200")
            self.addCleanup(client.close)
            self.assertEqual(status, 200)
        self.assertEqual(self.held("downloads"), 3)
        for worker in children(self.haproxy.process.pid):
            os.kill(worker, signal.SIGKILL)
        await_that(lambda: self.held("downloads") == 0, "the places of who was killed")

    def test_while_the_server_is_away(self):
        os.kill(self.server.process.pid, signal.SIGSTOP)
        self.assertEqual(self.haproxy.get()[0], 200)
        os.kill(self.server.process.pid, signal.SIGCONT)
        await_that(lambda: self.server.metric('weir_places_total{limiter="downloads",fate="released"}') == 1,
                   "the place that came too late")
        client, _ = self.haproxy.begin("/held/200")
        self.addCleanup(client.close)
        self.server.end()  # with the place
        self.application.over.set()
        client.take(199000)
        self.assertEqual(self.haproxy.get()[0], 200)


def children(process):
    with open(f"/proc/{process}/task/{process}/children", encoding="ascii") as file:
        return [int(each) for each in file.read().split()]


if __name__ == "__main__":
    unittest.main()
