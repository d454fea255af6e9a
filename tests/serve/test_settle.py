"""Settling and giving back, over RESP and HTTP, on every kind of store."""

import json
import re
import time
import unittest

from server import BASE, Server, Store, command, http
from speaks import Speaks
from test_http import get, post

LIMITERS = """limiters:
  fixed: {store: main, rule: "fixed-window:100/1d,debt=20"}
  sliding: {store: main, rule: "sliding-window:100/1d,debt=20", log_keys: plain}
  quota: {store: main, rule: "quota:100/1d"}
  bucket: {store: main, rule: "token-bucket:100/1d,debt=20"}
  all: {store: main, rule: "quota:100/1d,count=all"}
  both: {store: main, rule: "quota:3/1d;quota:100/1d,name=tokens,debt=20", log_keys: hashed}
  log: {store: main, rule: "sliding-log:5/1d"}
  queue: {store: main, rule: "leaky-bucket:5/1s,queue=4"}
  seen: {store: main, rule: "quota:10/1d", shadow: true}
  tiered: {store: main, rule: "quota:100/1d", tiers: {gold: "quota:1000/1d", no: blocked, free: unlimited}, overrides: {rich: gold, free: free, bad: no}}
  headed: {store: main, rule: "quota:100/1d", key: "header:X-Key"}
"""
CONFIG = BASE.replace("limiters:\n", LIMITERS)
STAMP = r"\A\d{16}\.store\.[0-9a-f]{8}\Z"
KINDS = ("fixed", "sliding", "quota", "bucket")


class Takes(Speaks):
    def take(self, limiter, key, cost):
        told = self.fields("WEIR.TAKE", limiter, key, "COST", cost)
        self.assertEqual(told["allowed"], 1)
        return told["stamp"]

    def used(self, limiter, key):
        """The charge that a peek finds, of 100."""
        return 100 - self.fields("WEIR.PEEK", limiter, key)["remaining"]


class Settle(Takes):
    CONFIG = CONFIG

    def test_a_stamp_stands_where_something_was_taken(self):
        flat = self.client.ask("WEIR.TAKE", "quota", "stamped")
        self.assertEqual((len(flat), flat[-2]), (20, "stamp"))
        self.assertRegex(flat[-1], STAMP)
        self.assertLess(abs(int(flat[-1].split(".")[0]) - time.time() * 1e6), 60e6)
        self.assertEqual(self.fields("WEIR.TAKE", "quota", "stamped", "COST", 100)["stamp"], "")
        self.assertEqual(len(self.client.ask("WEIR.PEEK", "quota", "stamped")), 18)
        self.assertRegex(self.fields("WEIR.TAKE", "quota", "stamped", "COST", 200, "UPTO")["stamp"], STAMP)
        self.assertRegex(self.fields("WEIR.TAKE", "tiered", "free")["stamp"], r"\A0\.none\.")
        told = self.told("/take", {"limiter": "quota", "key": "web"})[1]
        self.assertEqual(list(told)[-1], "stamp")
        self.assertRegex(told["stamp"], STAMP)
        self.assertNotIn("stamp", self.told("/take", {"limiter": "quota", "key": "web", "cost": 100})[1])
        self.assertNotIn("stamp", self.told("/peek", {"limiter": "quota", "key": "web"})[1])
        self.assertRegex(http(self.web, get("/check/quota?key=check"))[2]["weir-stamp"], STAMP)
        self.assertNotIn("weir-stamp", http(self.web, get("/check/quota?key=check&cost=100"))[2])

    def test_less_goes_back_and_more_is_charged_to_the_bound(self):
        for limiter in KINDS:
            stamp = self.take(limiter, "k", 50)
            told = self.fields("WEIR.SETTLE", limiter, "k", 50, 30, "STAMP", stamp)
            self.assertEqual((told["allowed"], told["cost"], told["source"], told["stamp"]), (1, 30, "settled", ""))
            self.assertEqual(self.used(limiter, "k"), 30, limiter)
            stamp = self.take(limiter, "k", 10)
            self.assertEqual(self.fields("WEIR.SETTLE", limiter, "k", 10, 25, "stamp", stamp)["cost"], 25)
            self.assertEqual(self.used(limiter, "k"), 55, limiter)
            stamp = self.take(limiter, "k", 40)
            debt = 0 if limiter == "quota" else 20
            told = self.fields("WEIR.SETTLE", limiter, "k", 40, 200, "STAMP", stamp)
            self.assertEqual((told["cost"], told["remaining"], told["retry_after_us"]), (45 + debt, 0, 0), limiter)
            self.assertEqual(self.fields("WEIR.TAKE", limiter, "k")["allowed"], 0)
            stamp = self.take(limiter, "exact", 7)
            self.assertEqual(self.fields("WEIR.SETTLE", limiter, "exact", 7, 7, "STAMP", stamp)["cost"], 7)
            self.assertEqual(self.used(limiter, "exact"), 7)

    def test_count_all_charges_all(self):
        stamp = self.take("all", "k", 50)
        self.assertEqual(self.fields("WEIR.SETTLE", "all", "k", 50, 5000, "STAMP", stamp)["cost"], 5000)

    def test_giving_back(self):
        for limiter in KINDS:
            stamp = self.take(limiter, "back", 50)
            self.assertEqual(self.fields("WEIR.REFUND", limiter, "back", 20, "STAMP", stamp)["cost"], 0)
            self.assertEqual(self.used(limiter, "back"), 30, limiter)
            if limiter != "sliding":
                self.assertEqual(self.fields("WEIR.REFUND", limiter, "back", 10)["cost"], 0)
                self.assertEqual(self.used(limiter, "back"), 20, limiter)

    def test_a_cost_for_each_rule(self):
        stamp = self.take("both", "k", "1,60")
        told = self.fields("WEIR.SETTLE", "both", "k", "1,60", "1,40", "STAMP", stamp)
        self.assertEqual(told["cost"], "1,40")
        stamp = self.take("both", "k", "1,60")
        told = self.fields("WEIR.SETTLE", "both", "k", "1,60", "0,200", "STAMP", stamp)
        self.assertEqual(told["cost"], "0,80")
        self.assertEqual(self.fields("WEIR.PEEK", "both", "k", "COST", "2,0")["allowed"], 1)
        self.assertEqual(self.fields("WEIR.PEEK", "both", "k", "COST", "3,0")["allowed"], 0)
        self.assertEqual(self.fields("WEIR.REFUND", "both", "k", "0,80", "STAMP", stamp)["cost"], "0,0")
        self.assertEqual(self.fields("WEIR.PEEK", "both", "k", "COST", "0,60")["allowed"], 1)
        self.assertEqual(self.fields("WEIR.PEEK", "both", "k", "COST", "0,61")["allowed"], 0)
        told = self.told("/take", {"limiter": "both", "key": "w", "cost": [1, 60]})[1]
        status, told = self.told("/settle", {"limiter": "both", "key": "w", "estimate": [1, 60], "real": [1, 300],
                                             "stamp": told["stamp"]})
        self.assertEqual((status, told["cost"], told["charged"]), (200, [1, 120], [1, 120]))

    def test_json(self):
        stamp = self.told("/take", {"limiter": "sliding", "key": "w", "cost": 50})[1]["stamp"]
        status, told = self.told("/settle", {"limiter": "sliding", "key": "w", "estimate": 50, "real": 70, "stamp": stamp})
        self.assertEqual((status, told["allowed"], told["charged"]), (200, True, 70))
        self.assertEqual(self.used("sliding", "w"), 70)
        status, told = self.told("/refund", {"limiter": "sliding", "key": "w", "cost": 70, "stamp": stamp})
        self.assertEqual((status, told["charged"]), (200, 0))
        self.assertEqual(self.used("sliding", "w"), 0)

    def test_a_path_for_proxies(self):
        for method, limiter, key in (("GET", "sliding", "?key=p"), ("PUT", "fixed", "?key=p"), ("POST", "quota", "?key=p"),
                                     ("HEAD", "bucket", "?key=p")):
            stamp = http(self.web, get("/check/%s%s&cost=50" % (limiter, key)))[2]["weir-stamp"]
            asked = get("/settle/%s%s&estimate=50&real=30&stamp=%s" % (limiter, key, stamp)).replace("GET", method, 1)
            if method == "POST":
                asked = asked.replace("\r\n\r\n", "\r\nContent-Length: 0\r\nOrigin: http://elsewhere\r\n\r\n")
            status, body, fields = http(self.web, asked)
            self.assertEqual((status, body), (200, ""), limiter)
            self.assertIn("ratelimit-policy", fields)
            self.assertEqual(self.used(limiter, "p"), 30, limiter)
        self.assertEqual(http(self.web, get("/check/headed?cost=50", "X-Key: h"))[0], 200)
        self.assertEqual(http(self.web, get("/settle/headed?estimate=50&real=10", "X-Key: h"))[0], 200)
        self.assertEqual(self.used("headed", "h"), 10)

    def test_nothing_is_counted_where_nothing_was_taken(self):
        for key in ("free", "bad"):
            told = self.fields("WEIR.SETTLE", "tiered", key, 5, 9)
            self.assertEqual((told["allowed"], told["cost"], told["source"]), (1, 9, "local"))
        stamps = [self.fields("WEIR.TAKE", "seen", "k", "COST", 6)["stamp"] for _ in "12"]
        self.assertRegex(stamps[0], STAMP)
        self.assertRegex(stamps[1], r"\A\d{16}\.none\.[0-9a-f]{8}\Z")
        self.assertEqual(self.fields("WEIR.SETTLE", "seen", "k", 6, 1, "STAMP", stamps[1])["cost"], 1)
        self.assertEqual(self.fields("WEIR.PEEK", "seen", "k")["remaining"], 4)
        self.assertEqual(self.fields("WEIR.SETTLE", "seen", "k", 6, 1, "STAMP", stamps[0])["cost"], 1)
        self.assertEqual(self.fields("WEIR.PEEK", "seen", "k")["remaining"], 9)

    def test_what_cannot_be_settled(self):
        """One clear error each, and nothing is charged."""
        stamp = self.take("fixed", "bad", 50)
        other = self.take("fixed", "other", 50)
        gold = self.take("tiered", "rich", 50)
        at_us, source, mark = stamp.split(".")
        old, ahead = "%d.store.%s" % (int(at_us) - 3 * 86400000000, mark), "%d.store.%s" % (int(at_us) + 3600000000, mark)
        no_stamp = "^-ERR stamp: the one that the answer had when it was taken is accepted$"
        cases = [((50, -1), "^-ERR real: 0 to 2147483648 is accepted$"), ((50, 2**31 + 1), "^-ERR real: 0 to"),
                 ((50, "x"), "^-ERR real: 0 to"), ((50, ""), "^-ERR real: 0 to"), ((0, 1), "^-ERR estimate: 1 to 2147483648"),
                 ((-5, 1), "^-ERR estimate: 1 to"), ((2**31 + 1, 1), "^-ERR estimate: 1 to"), (("1,2", 1), "as many numbers in each"),
                 (("1,2", "1,2"), "there are 2 costs: one is accepted"), ((50, 60, "STAMP"), "^-ERR STAMP TEXT"),
                 ((50, 60, "SOON", stamp), "^-ERR STAMP TEXT"), ((50, 60, "STAMP", other), "another limiter, key, tier or tenant"),
                 ((50, 60, "STAMP", old), "^-ERR (WEIR_)?BAD_ARGUMENT the stamp is of the future, or longer ago"),
                 ((50, 60, "STAMP", ahead), "^-ERR (WEIR_)?BAD_ARGUMENT the stamp is of the future, or"),
                 ((500, 50, "STAMP", stamp), "^-ERR (WEIR_)?BAD_COST "), ((90, 10, "STAMP", stamp), "^-ERR (WEIR_)?BAD_COST ")]
        for text in ("", "x", stamp[:-1], stamp + "0", stamp.upper(), " " + stamp, stamp.replace("store", "shop"),
                     "0" + stamp, "-" + stamp, "9" * 19 + stamp[16:], "..", "1.store.", stamp.replace(".", ":")):
            cases.append(((50, 60, "STAMP", text), no_stamp))
        for words, says in cases:
            self.assertRegex(self.client.ask("WEIR.SETTLE", "fixed", "bad", *words), says, words)
        self.assertRegex(self.client.ask("WEIR.SETTLE", "fixed", "bad", 50), "wrong number of arguments")
        self.assertRegex(self.client.ask("WEIR.SETTLE", "nobody", "bad", 50, 1), "there is no limiter")
        self.assertRegex(self.client.ask("WEIR.SETTLE", "quota", "bad", 50, 60, "STAMP", stamp), "another limiter")
        self.assertRegex(self.client.ask("WEIR.SETTLE", "tiered", "poor", 50, 60, "STAMP", gold), "another limiter, key, tier or tenant")
        self.assertRegex(self.client.ask("WEIR.REFUND", "fixed", "bad", 0), "^-ERR n: 1 to 2147483648")
        self.assertRegex(self.client.ask("WEIR.REFUND", "fixed", "bad", 60), "BAD_COST")
        self.assertRegex(self.client.ask("WEIR.SETTLE", "sliding", "bad", 5, 6), "a sliding-window needs the one")
        self.assertRegex(self.client.ask("WEIR.SETTLE", "log", "bad", 1, 2), "a sliding-log cannot be settled")
        self.assertRegex(self.client.ask("WEIR.SETTLE", "queue", "bad", 1, 2), "a leaky-bucket cannot be settled")
        asked = {"limiter": "fixed", "key": "bad", "estimate": 50, "real": 60, "stamp": stamp}
        for change, status, says in (({"real": -1}, 400, "real: 0 to"), ({"real": 2**31 + 1}, 400, "real: 0 to"),
                                     ({"real": 1.5}, 400, "real: a whole number"), ({"real": None}, 400, '"real" is missing'),
                                     ({"estimate": 0}, 400, "estimate: 1 to"), ({"stamp": ""}, 400, "stamp: the one"),
                                     ({"stamp": 7}, 400, "stamp: a string"), ({"stamp": other}, 400, "another limiter"),
                                     ({"stamp": old}, 400, "the stamp is of the future, or longer ago"),
                                     ({"limiter": "log"}, 400, "cannot be settled"), ({"limiter": "nobody"}, 404, "no limiter"),
                                     ({"cost": 1}, 400, '"cost" is no member')):
            told = self.told("/settle", {**asked, **change})
            self.assertEqual(told[0], status, change)
            self.assertIn(says, told[1]["detail"], change)
        for target, says in (("?key=bad", "one argument estimate=N"), ("?key=bad&estimate=50", "one argument real=N"),
                             ("?key=bad&estimate=50&real=", "real: 0 to"), ("?estimate=50&real=1", "key=KEY"),
                             ("?key=bad&estimate=50&real=1&real=2", "one argument real=N"),
                             ("?key=bad&estimate=50&real=1&stamp=", "stamp: the one"),
                             ("?key=bad&estimate=50&real=1&stamp=a&stamp=b", "stamp: one is accepted")):
            status, body, _ = http(self.web, get("/settle/fixed" + target))
            self.assertEqual(status, 400, target)
            self.assertIn(says, json.loads(body)["detail"], target)
        self.assertEqual(http(self.web, get("/settle/nobody?key=k&estimate=5&real=1"))[0], 404)
        self.assertEqual(http(self.web, get("/settle"))[0], 405)
        self.assertEqual(self.used("fixed", "bad"), 50)

    def test_it_is_counted_and_shown(self):
        before = {way: self.server.metric('weir_serve_settled_cost_total{limiter="sliding",way="%s"}' % way)
                  for way in ("up", "down", "cut")}
        done = self.server.metric('weir_serve_settlements_total{result="done"}')
        decided = self.server.metric('weir_serve_decisions_total{limiter="sliding",protocol="resp",decision="allowed",source="store"}')
        for estimate, real in ((50, 10), (10, 30), (60, 500)):
            self.fields("WEIR.SETTLE", "sliding", "shown", estimate, real, "STAMP", self.take("sliding", "shown", estimate))
        for way, cost in (("up", 20 + 20), ("down", 40), ("cut", 420)):
            now = self.server.metric('weir_serve_settled_cost_total{limiter="sliding",way="%s"}' % way)
            self.assertEqual(now - before[way], cost, way)
        self.assertEqual(self.server.metric('weir_serve_settlements_total{result="done"}') - done, 3)
        now = self.server.metric('weir_serve_decisions_total{limiter="sliding",protocol="resp",decision="allowed",source="store"}')
        self.assertEqual(now - decided, 3)  # what was settled is no decision
        stamp = self.take("both", "secret", "1,10")
        self.fields("WEIR.SETTLE", "both", "secret", "1,10", "1,90", "STAMP", stamp)
        admin = self.server.connect("admin")
        self.addCleanup(admin.close)
        status = json.loads(http(admin, get("/status.json"))[1])
        top = {one["key"]: one["overrun"] for one in status["overrun_keys"]["top"]}
        self.assertEqual(top["shown"], 460)
        self.assertEqual([size for key, size in top.items() if re.fullmatch("[0-9a-f]{16}", key)][-1], 80)
        row = next(one for one in status["limiters"] if one["name"] == "sliding")
        self.assertEqual(set(row["settled"]), {"up", "down", "cut"})


class Stores(Takes):
    """Two servers of one store: either settles what the other has taken."""

    def hold(self, kind):
        store = Store(kind)
        self.addCleanup(store.end)
        config = CONFIG.replace("memory:?", store.url + "?")
        with Server(config) as one, Server(config) as other:
            self.speak(other)
            takes = one.connect()
            self.addCleanup(takes.close)
            for limiter in KINDS:
                for i, (real, left) in enumerate(((20, 20), (80, 80), (200, 100))):
                    key = "%s%d" % (limiter, i)
                    flat = takes.ask("WEIR.TAKE", limiter, key, "COST", 50)
                    told = self.fields("WEIR.SETTLE", limiter, key, 50, real, "STAMP", flat[-1])
                    debt = 20 if real == 200 and limiter != "quota" else 0
                    self.assertEqual(told["cost"], left + debt, key)
                    self.assertEqual(self.used(limiter, key), left, key)
            # All of one turn leave together.
            stamps = [self.take("sliding", "turn%d" % i, 50) for i in range(100)]
            self.client.send(b"".join(command("WEIR.SETTLE", "sliding", "turn%d" % i, 50, i, "STAMP", stamps[i])
                                      for i in range(100)))
            for i in range(100):
                flat = self.client.reply()
                self.assertEqual(dict(zip(flat[::2], flat[1::2]))["cost"], i)

    def test_memcached(self):
        self.hold("memcached")

    def test_redis(self):
        self.hold("redis")

    def test_a_store_that_is_away_settles_nothing(self):
        store = Store("memcached")
        self.addCleanup(store.end)
        config = CONFIG.replace("memory:?timeout=10s", store.url + "?timeout=100ms").replace('"}\nlimiters', '", fallback: allow}\nlimiters')
        with Server(config) as server:
            self.speak(server)
            stamp = self.take("fixed", "k", 50)
            store.order("stop")
            self.assertRegex(str(self.client.ask("WEIR.SETTLE", "fixed", "k", 50, 60, "STAMP", stamp)), "^-ERR (TIMEOUT|UNKNOWN_OUTCOME|UNAVAILABLE) ")
            flat = self.client.ask("WEIR.TAKE", "fixed", "k", "COST", 50)
            told = dict(zip(flat[::2], flat[1::2]))
            self.assertEqual(told["allowed"], 1)
            self.assertRegex(told["stamp"], r"\A\d+\.(fallback|late)\.")
            store.order("continue")
            used = self.until_it_answers()
            # The policy's admission takes nothing off the store.
            self.assertEqual(self.fields("WEIR.SETTLE", "fixed", "k", 50, 0, "STAMP", told["stamp"])["allowed"], 1)
            self.assertEqual(self.used("fixed", "k"), used)

    def until_it_answers(self):
        until = time.monotonic() + 60
        while time.monotonic() < until:
            told = self.fields("WEIR.PEEK", "fixed", "k")
            if told["source"] == "store":
                return 100 - told["remaining"]
            time.sleep(0.05)
        raise AssertionError("the store never came back")


if __name__ == "__main__":
    unittest.main()
