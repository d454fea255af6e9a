"""Each key of a limiter, through the whole server: what an answer would be without it is another."""

import json
import os
import subprocess
import tempfile
import unittest

from server import BASE, PATIENCE_S, PROGRAM, Server, Store, await_that, http
from test_http import get, post

LIMITERS = """limiters:
  costly: {store: main, rule: "quota:10/1d", cost: 4}
  header: {store: main, rule: "quota:1/1d", key: "header:X-Key"}
  query: {store: main, rule: "quota:1/1d", key: "query:who"}
  client: {store: main, rule: "quota:1/1d", key: client}
  listed:
    store: main
    rule: "quota:1/1d"
    tiers: {two: "quota:2/1d", three: "quota:3/1d", free: unlimited, none: blocked}
    overrides: {exact-key: three, "exact-*": two, "exact-key-*": free, "vip-*": none, "*": none}
    allow: ["vip-*", both]
    block: ["vip-bad*", both]
  filed: {store: main, rule: "quota:1/1d", tiers: {two: "quota:2/1d", three: "quota:3/1d"}, overrides: {both: three}, overrides_file: FILE}
  seen: {store: main, rule: "quota:1/1d", shadow: true}
  partly: {store: main, rule: "quota:1/1d", enforce: 10%}
  new: {store: main, rule: "quota:1/1d", headers: draft-10}
  old: {store: main, rule: "quota:1/1d", headers: draft-03}
  bare: {store: main, rule: "quota:1/1d", headers: "off"}
  apart: {store: other, rule: "quota:1/1d"}
  alike: {store: main, rule: "quota:1/1d"}
"""
CONFIG = BASE[:BASE.index("limiters:")] + '  other: {url: "redis://127.0.0.1:1?timeout=1s", fallback: allow}\n' + LIMITERS


class Fields(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="weir-fields-")
        cls.addClassCleanup(folder.cleanup)
        cls.file = os.path.join(folder.name, "customers.tsv")
        cls.fill("alice\ttwo\r\nboth\ttwo\nwith\ttab\ttwo\nlit*\tthree")
        cls.server = Server(CONFIG.replace("FILE", cls.file))
        cls.addClassCleanup(cls.server.end)

    @classmethod
    def fill(cls, text):
        with open(cls.file + ".new", "w", encoding="ascii", newline="") as file:
            file.write(text)
        os.rename(cls.file + ".new", cls.file)

    def setUp(self):
        self.client = self.server.connect()
        self.web = self.server.connect("http")
        self.addCleanup(self.client.close)
        self.addCleanup(self.web.close)

    def test_which_answers_have_fields(self):
        """docs/serve.md says which have none."""
        def told(limiter, key, more=""):
            status, _, fields = http(self.web, get("/check/%s?key=%s%s" % (limiter, key, more)))
            return status, "ratelimit" in fields, "ratelimit-policy" in fields, "retry-after" in fields
        self.assertEqual(told("listed", "fielded"), (429, False, False, False))  # "*" is blocked there
        self.assertEqual(told("listed", "exact-key-1"), (200, False, False, False))
        self.assertEqual(told("listed", "vip-1"), (200, False, False, False))
        self.assertEqual(told("listed", "vip-bad"), (429, False, False, False))
        self.assertEqual(told("bare", "fielded"), (200, False, False, False))
        self.assertEqual(told("bare", "fielded"), (429, False, False, False))
        self.assertEqual(told("new", "fielded", "&cost=2"), (429, False, True, False))
        self.assertEqual(told("new", "fielded"), (200, True, True, False))
        self.assertEqual(told("new", "fielded"), (429, True, True, True))
        self.assertNotIn("ratelimit", http(self.web, post("/reset", {"limiter": "new", "key": "fielded"}))[2])

    def take(self, limiter, key, *more):
        flat = self.client.ask("WEIR.TAKE", limiter, key, *more)
        return dict(zip(flat[::2], flat[1::2]))

    def limit(self, limiter, key):
        return self.take(limiter, key)["limit"]

    def check(self, target, *fields):
        return http(self.web, get("/check/" + target, *fields))

    def test_cost(self):
        self.assertEqual(self.take("costly", "own")["remaining"], 6)
        self.assertEqual(self.take("costly", "own", "COST", 1)["remaining"], 5)
        told = json.loads(http(self.web, post("/take", {"limiter": "costly", "key": "web"}))[1])
        self.assertEqual((told["cost"], told["remaining"]), (4, 6))
        self.assertIn(";r=2;", self.check("costly?key=web")[2]["ratelimit"])
        self.assertIn(";r=1;", self.check("costly?key=web&cost=1")[2]["ratelimit"])

    def test_key(self):
        for limiter, target, fields in (("header", "header?who=x&key=x", ["X-Key: alice"]),
                                        ("query", "query?who=alice&key=x", ["X-Key: x"]),
                                        ("client", "client?who=x&key=x", ["X-Key: x"])):
            self.assertEqual([self.check(target, *fields)[0] for _ in "12"], [200, 429], limiter)
            key = "127.0.0.1" if limiter == "client" else "alice"
            self.assertEqual(self.take(limiter, key)["allowed"], 0)

    def test_lists_tiers_and_overrides(self):
        for key, limit in (("exact-key", 3), ("exact-other", 2), ("exact-key-7", -1), ("vip-1", -1), ("vip-bad1", 0),
                           ("both", 0), ("anybody", 0)):
            self.assertEqual(self.limit("listed", key), limit, key)
        self.assertEqual(self.take("listed", "exact-key-7", "COST", 2**31)["allowed"], 1)
        blocked = self.take("listed", "anybody")
        self.assertEqual((blocked["allowed"], blocked["retry_after_us"], blocked["source"]), (0, -1, "local"))
        status, body, fields = self.check("listed?key=both")
        self.assertEqual((status, json.loads(body)["status"], "retry-after" in fields), (429, 429, False))

    def test_overrides_file(self):
        for key, limit in (("alice", 2), ("both", 3), ("with\ttab", 2), ("lit*", 3), ("literal", 1), ("bob", 1)):
            self.assertEqual(self.limit("filed", key), limit, key)
        self.fill("bob\ttwo\n")  # noticed by itself, as the configuration is
        await_that(lambda: self.limit("filed", "bob") == 2, "the new file")
        self.assertEqual(self.limit("filed", "alice"), 1)
        self.fill("bob\tfour\n")
        self.server.await_log('customers.tsv:1:5: overrides_file: no tier "four"')
        self.assertEqual(self.limit("filed", "bob"), 2)

    def test_shadow(self):
        self.assertEqual([self.take("seen", "k")["allowed"] for _ in "123"], [1, 1, 1])
        self.assertEqual(self.take("seen", "k")["remaining"], 0)  # it was decided, and charged
        self.assertEqual([self.check("seen?key=web")[0] for _ in "123"], [200, 200, 200])
        self.assertEqual(self.server.metric('weir_serve_limiter_shadow_denied_total{limiter="seen"}'), 5)

    def test_enforced_for_some(self):
        """A tenth of the keys is denied, the same ones at another server; the others are in shadow mode."""
        def denied(client):
            return {key for key in range(300) if [client.ask("WEIR.TAKE", "partly", "key-%d" % key)[1] for _ in "12"][1] == 0}
        one = denied(self.client)
        self.assertIn(len(one), range(15, 46))
        self.assertEqual(self.server.metric('weir_serve_limiter_shadow_denied_total{limiter="partly"}'), 300 - len(one))
        with Server(CONFIG.replace("FILE", self.file)) as server:
            client = server.connect()
            self.assertEqual(denied(client), one)
            server.write(server.config.replace("enforce: 10%", "enforce: 30%"))
            await_that(lambda: len(denied(client)) > 60, "a larger part")
            client.close()

    def test_headers(self):
        found = {name: set(self.check(name + "?key=h")[2]) & {"ratelimit", "ratelimit-policy", "x-ratelimit-limit",
                                                             "x-ratelimit-remaining", "x-ratelimit-reset"}
                 for name in ("new", "old", "bare")}
        self.assertEqual(found, {"new": {"ratelimit", "ratelimit-policy"}, "bare": set(),
                                 "old": {"x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"}})
        denied = {name: self.check(name + "?key=h")[2] for name in found}
        self.assertEqual([("retry-after" in denied[name]) for name in ("new", "old", "bare")], [True, True, False])

    def test_store(self):
        self.assertEqual(self.take("apart", "k")["source"], "fallback")
        self.assertEqual(self.take("alike", "k")["source"], "store")

    def test_names_keep_limiters_apart(self):
        self.assertEqual([self.take(name, "same")["allowed"] for name in ("new", "old", "new", "old")], [1, 1, 0, 0])


class Everywhere(unittest.TestCase):
    def test_shadow_of_all(self):
        with Server(BASE + "shadow: true\n") as server:
            client = server.connect()
            self.assertEqual([client.ask("WEIR.TAKE", "api", "k")[1] for _ in range(5)], [1] * 5)
            server.write(server.config.replace("shadow: true\n", "shadow: false\n"))
            await_that(lambda: client.ask("WEIR.TAKE", "api", "k")[1] == 0, "denials in earnest")
            client.close()

    def test_peek_finds_what_the_server_counts(self):
        """As docs/configuration.md says: by the limiter's name and a colon, or by the colon alone."""
        for kind in ("memcached", "redis"):
            store = Store(kind)
            self.addCleanup(store.end)
            config = BASE.replace('"memory:?timeout=10s"', '"%s?timeout=10s", processes: 4' % store.url)
            with Server(config.replace("quota:3/1d", "sliding-window:100/1d", 1)) as server:
                client = server.connect()
                for _ in range(7):
                    self.assertEqual(client.ask("WEIR.TAKE", "api", "alice")[1], 1)
                self.assertEqual(client.ask("CL.THROTTLE", "alice", 9, 1, 86400, 3)[:3], [0, 10, 7])
                for rule, key, left in (("sliding-window:100/1d", "api:alice", 93), ("sliding-window:100/1d", "alice", 100),
                                        ("token-bucket:1/86400s,burst=10", ":alice", 7)):
                    told = subprocess.run([PROGRAM, "peek", "--json", "--store", store.url, "--rule", rule, "--processes",
                                           "4", "--deadline", "10s", key], capture_output=True, check=True,
                                          timeout=PATIENCE_S).stdout
                    self.assertEqual(json.loads(told)["remaining"], left, (kind, key))
                client.close()


if __name__ == "__main__":
    unittest.main()
