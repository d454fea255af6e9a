"""Caddy by its recipe, docs/serve/caddy.md."""

import re
import unittest

import hostile_forms
from recipe import KEYED, Behind, Proxy, blocks, replace


class Caddy(Behind):
    page = "serve/caddy.md"

    def start(self, *changes):
        limited, = blocks(self.page, "caddy")
        limited = replace(limited, (":80 {", "{\n  admin off\n  auto_https off\n}\nhttp://:PORT {\n  bind 127.0.0.1"),
                          ("127.0.0.1:8080", self.weir), ("127.0.0.1:3000", self.behind), *changes)
        caddy = Proxy({"Caddyfile": limited}, "caddy", "run", "--config", "FOLDER/Caddyfile")
        self.addCleanup(caddy.end)
        return caddy

    def test_a_client_is_limited_and_told(self):
        caddy = self.start()
        self.assert_limits(caddy, tells_allowed=False)

    def test_hostile_forms(self):
        self.assert_addresses_hold(self.start, ["as it was", "20 KB of cookies", "X-Forwarded-For, no address", "UTF-8 in a field"])

    def test_hostile_keys(self):
        self.assert_keys_hold(lambda: self.start(("/check/api", "/check/by_key"), ("  reverse_proxy", "  request_header -X_Api_Key\n  reverse_proxy")),
                              hostile_forms.ANY | {"its own by underscores"})

    def test_what_others_have(self):
        """Rows of the page's table."""
        caddy = self.start(("forward_auth ", "forward_auth /api/* "), ("    copy_headers", "    @denied status 429\n"
                           "    handle_response @denied {\n      respond slowly 429\n    }\n    copy_headers"))
        self.assertEqual([caddy.get("/api/x")[0::2] for _ in range(4)], [(200, b"hello\n")] * 3 + [(429, b"slowly")])
        self.assertEqual({caddy.get("/other")[0] for _ in range(4)}, {200})

    def test_several_zones(self):
        """One behind the other, in their order; and as a group."""
        self.change((KEYED, 'rule: "quota:2/1d", key'), more="groups: {both: [api, by_key]}\n")
        one, = re.findall(r"  forward_auth .*?\n  }\n", blocks(self.page, "caddy")[0], re.DOTALL)
        one = one.replace("127.0.0.1:8080", self.weir)
        zones = self.start((one, "  route {\n%s%s  }\n" % (one.replace("/check/api", "/check/by_key"), one)))
        alice, bob = {"X-Api-Key": "alice"}, {"X-Api-Key": "bob"}
        self.assertEqual([zones.get(fields=alice)[0] for _ in range(4)], [200, 200, 429, 429])
        self.assertEqual([zones.get(fields=bob)[0] for _ in range(2)], [200, 429])
        self.assertEqual([self.charged("by_key", "bob", 2), self.charged("api", "127.0.0.2")], [2, 3])  # bob's second stopped behind it
        group = self.start(("/check/api", "/check/both"))
        self.assertEqual([group.get(fields={"X-Api-Key": "carol"}, source="127.0.0.3")[0] for _ in range(3)], [200, 200, 429])
        self.assertEqual([group.get(fields={"X-Api-Key": "dora"}, source="127.0.0.3")[0] for _ in range(2)], [200, 429])
        self.assertEqual([self.charged("by_key", "dora", 2), self.charged("api", "127.0.0.3")], [1, 3])

    def test_what_is_not_asked(self):
        caddy = self.start(("  reverse_proxy", '  redir /moved /new\n  respond /told "told"\n  reverse_proxy'))
        for _ in range(5):
            self.assertEqual(caddy.get("/moved")[0], 302)
        for status in (200, 200, 200, 429):
            self.assertEqual(caddy.get("/told")[0], status)

    def test_while_the_server_is_away(self):
        self.server.end()
        self.assertEqual(self.start().get()[0], 502)


if __name__ == "__main__":
    unittest.main()
