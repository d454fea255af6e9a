"""HAProxy by its recipe, docs/serve/haproxy.md."""

import unittest

from recipe import Behind, Proxy, blocks, replace


class Haproxy(Behind):
    page = "serve/haproxy.md"

    def start(self, *changes):
        lua, = blocks(self.page, "lua")
        limited, = blocks(self.page, "haproxy")
        limited = replace(limited, ("bind :80\n", "bind 127.0.0.1:PORT\n"), ("127.0.0.1:3000", self.behind),
                          ("/etc/haproxy/", "FOLDER/"), *changes)
        lua = replace(lua, ("127.0.0.1:8080", self.weir), ("timeout = 1000", "timeout = 60000"))
        haproxy = Proxy({"haproxy.cfg": limited, "limit.lua": lua}, "haproxy", "-W", "-f", "FOLDER/haproxy.cfg")
        self.addCleanup(haproxy.end)
        return haproxy

    def test_a_client_is_limited_and_told(self):
        self.assert_limits(self.start())

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


if __name__ == "__main__":
    unittest.main()
