"""What requests say of themselves: class, limit and tenant, over RESP and HTTP."""

import json
import random
import unittest

from server import BASE, Server, Store, command, http
from speaks import Speaks
from test_http import get, post

LIMITERS = """limiters:
  api: {store: main, rule: "quota:10/1d,classes=batch:60%|free:80%"}
  web: {store: main, rule: "quota:10/1d,classes=batch:5,name=web"}
  plain: {store: main, rule: "quota:10/1d,name=plain"}
  owed: {store: main, rule: "quota:10/1d,debt=5,classes=batch:6,name=owed"}
  plans: {store: main, rule: "quota:5/1d,name=plans,most=100"}
  both: {store: main, rule: "quota:10/1d,classes=batch:60%,name=both,most=1000"}
  chance: {store: main, rule: "quota:10/1d,classes=batch:60%|free:80%,name=chance,most=100"}
  places: {store: main, rule: "in-flight:4/1h,classes=batch:2"}
  tiered: {store: main, rule: "quota:10/1d,classes=batch:6,name=tiered", tiers: {free: unlimited, no: blocked}, overrides: {root: free, eve: no}}
"""
GROUPS = "groups: {pair: [api, plain], two: [api, web], bare: [plain, plans]}\n"
ALL = "says: [class, limit, tenant], "


def allow(config):
    for protocol in ("resp", "http"):
        config = config.replace(protocol + ": {", protocol + ": {" + ALL, 1)
    return config


CONFIG = BASE.replace('  api: {store: main, rule: "quota:3/1d"}\n', "").replace("limiters:\n", LIMITERS) + GROUPS


class Says(Speaks):
    CONFIG = allow(CONFIG)

    def take(self, limiter, key, *words):
        return self.fields("WEIR.TAKE", limiter, key, *words)

    def left(self, limiter, key, *words):
        return self.fields("WEIR.PEEK", limiter, key, *words)["remaining"]

    def refused(self, *words):
        told = self.client.ask(*words)
        self.assertEqual(told[:5], "-ERR ", told)
        return told

    def test_each_class_has_its_part(self):
        for left in range(5, -1, -1):
            told = self.take("api", "a", "CLASS", "batch")
            self.assertEqual((told["allowed"], told["limit"], told["remaining"]), (1, 6, left))
        told = self.take("api", "a", "CLASS", "batch")
        self.assertEqual((told["allowed"], told["limit"], told["remaining"]), (0, 6, 0))
        self.assertEqual(self.left("api", "a", "CLASS", "free"), 2)
        self.assertEqual(self.left("api", "a"), 4)
        status, told = self.told("/take", {"limiter": "api", "key": "a", "class": "free", "cost": 2})
        self.assertEqual((status, told["allowed"], told["limit"], told["remaining"]), (200, True, 8, 0))
        status, body, fields = http(self.web, get("/check/api?key=a&class=free"))
        self.assertEqual(status, 429)
        self.assertEqual(fields["ratelimit-policy"], '"api/free";q=8;w=86400')
        self.assertTrue(fields["ratelimit"].startswith('"api/free";r=0;'), fields)
        self.assertEqual(json.loads(body)["violated-policies"], ["api/free"])
        status, _, fields = http(self.web, get("/check/api?key=a"))
        self.assertEqual((status, fields["ratelimit-policy"]), (200, '"api";q=10;w=86400'))

    def test_requests_of_one_turn_have_each_its_own(self):
        """One write of RESP is one turn: classes, limits and none stand side by side."""
        words = [("WEIR.TAKE", "both", "t", "COST", "6", "CLASS", "batch"), ("WEIR.TAKE", "both", "t"),
                 ("WEIR.TAKE", "both", "t", "CLASS", "batch"),
                 ("WEIR.TAKE", "both", "t", "LIMIT", "20", "COST", "5", "CLASS", "batch"),
                 ("WEIR.TAKE", "plain", "t"), ("WEIR.TAKE", "both", "t", "CLASS", "gold"),
                 ("WEIR.TAKE", "both", "t", "LIMIT", "20", "CLASS", "batch"),
                 ("WEIR.TAKE", "both", "t", "LIMIT", "1001"), ("WEIR.TAKE", "both", "t", "LIMIT", "1000", "COST", "988")]
        self.client.send(b"".join(command(*each) for each in words))
        told = [self.client.reply() for _ in words]
        fields = [dict(zip(t[::2], t[1::2])) if isinstance(t, list) else str(t) for t in told]
        self.assertEqual([(f["allowed"], f["limit"]) if isinstance(f, dict) else 0 for f in fields],
                         [(1, 6), (1, 10), (0, 6), (1, 12), (1, 10), 0, (0, 12), 0, (1, 1000)])
        self.assertIn('the class "gold" is none of this limiter: accepted are batch, or none', fields[5])
        self.assertIn("accepted are 1 to 1000", fields[7])

    def test_each_is_decided_by_what_it_says(self):
        """Thousands by chance, good and bad, fifty in each write: what is admitted is what the figures say, in their order."""
        chance = random.Random(44)
        classes = {None: 100, "batch": 60, "free": 80}
        used = {}
        for _ in range(60):
            words, wanted = [], []
            for _ in range(50):
                key, cost = "m%d" % chance.randrange(8), chance.randint(1, 4)
                name, limit = chance.choice([None, "batch", "free", "gold"]), chance.choice([None, 5, 20, 100, 101])
                words.append(["WEIR.TAKE", "chance", key, "COST", cost] + (["CLASS", name] if name else []) +
                             (["LIMIT", limit] if limit else []))
                if name == "gold" or limit == 101:
                    wanted.append(None)
                    continue
                most = (limit or 10) * classes[name] // 100
                fits = used.get(key, 0) + cost <= most
                used[key] = used.get(key, 0) + cost * fits
                wanted.append((int(fits), most, max(0, most - used[key]) if cost <= most else -1))
            self.client.send(b"".join(command(*each) for each in words))
            for each, expected in zip(words, wanted):
                told = self.client.reply()
                if expected is None:
                    self.assertEqual(told[:5], "-ERR ", each)
                    continue
                self.assertEqual((told[1], told[3], told[5]), expected, each)
        for key, cost in used.items():
            self.assertEqual(self.left("chance", key, "LIMIT", 100), 100 - cost)

    def test_a_limit_is_that_of_the_request(self):
        self.assertEqual(self.take("plans", "a", "COST", "5")["remaining"], 0)
        self.assertEqual(self.take("plans", "a")["allowed"], 0)
        told = self.take("plans", "a", "LIMIT", "100", "COST", "95")
        self.assertEqual((told["allowed"], told["limit"], told["remaining"]), (1, 100, 0))
        self.assertEqual(self.told("/take", {"limiter": "plans", "key": "a", "limit": 100})[1]["allowed"], False)
        self.assertIn("accepted are 1 to 100", self.refused("WEIR.TAKE", "plans", "a", "LIMIT", "101"))
        self.assertIn("accepted is a limiter with most=", self.refused("WEIR.TAKE", "plain", "a", "LIMIT", "5"))

    def test_a_group_says_it_to_those_that_have_classes(self):
        told = self.fields("WEIR.TAKE", "pair", "g", "g", "CLASS", "batch", "COST", "6")
        self.assertEqual((told["allowed"], told["remaining"]), (1, 0))
        told = self.fields("WEIR.TAKE", "pair", "g", "g", "CLASS", "batch")
        self.assertEqual((told["allowed"], told["denied_by"], told["limit"]), (0, "api", 6))
        self.assertEqual(self.left("plain", "g"), 4)
        self.assertEqual(self.fields("WEIR.TAKE", "pair", "g", "g")["allowed"], 1)
        status, told = self.told("/take", {"limiter": "two", "keys": ["w", "w"], "class": "batch", "cost": 5})
        self.assertEqual((status, told["allowed"], told["limit"]), (200, True, 5))
        self.assertEqual(self.told("/peek", {"limiter": "two", "keys": ["w", "w"], "class": "batch"})[1]["denied_by"], "web")
        for words, why in ((("two", "x", "x", "CLASS", "free"), 'web: the class "free" is none of this limiter'),
                           (("bare", "x", "x", "CLASS", "batch"), "none of its members has classes"),
                           (("two", "x", "x", "LIMIT", "5"), "a class is accepted, and neither limit nor tenant"),
                           (("two", "x", "x", "TENANT", "n"), "a class is accepted, and neither limit nor tenant")):
            self.assertIn(why, self.refused("WEIR.TAKE", *words))
        for limiter in ("api", "web", "plain"):
            self.assertEqual(self.left(limiter, "x"), 10)

    def test_a_settlement_is_cut_at_its_class(self):
        stamp = self.take("owed", "s", "COST", "6", "CLASS", "batch")["stamp"]
        told = self.fields("WEIR.SETTLE", "owed", "s", 6, 20, "STAMP", stamp, "CLASS", "batch")
        self.assertEqual((told["cost"], self.left("owed", "s")), (11, 0))
        stamp = self.take("owed", "r", "COST", "6", "CLASS", "batch")["stamp"]
        self.fields("WEIR.REFUND", "owed", "r", 6, "STAMP", stamp, "CLASS", "batch")
        self.assertEqual(self.left("owed", "r"), 10)
        stamp = self.take("owed", "j", "COST", "6")["stamp"]
        body = {"limiter": "owed", "key": "j", "estimate": 6, "real": 9, "stamp": stamp, "class": "batch"}
        self.assertEqual(self.told("/settle", body)[1]["cost"], 9)
        self.assertIn('the class "gold"', self.refused("WEIR.SETTLE", "owed", "j", 6, 9, "CLASS", "gold"))

    def test_places_are_kept_for_higher_classes(self):
        held = [self.fields("WEIR.ACQUIRE", "places", "p", "CLASS", "batch") for _ in range(3)]
        self.assertEqual([(h["allowed"], h["limit"]) for h in held], [(1, 2), (1, 2), (0, 2)])
        self.assertEqual(self.told("/acquire", {"limiter": "places", "key": "p"})[1]["allowed"], True)
        self.assertEqual(http(self.web, get("/acquire/places?key=p&class=batch"))[0], 429)
        self.assertEqual(self.client.ask("WEIR.RELEASE", "places", "p", held[0]["place"])[1], 1)
        self.assertEqual(self.fields("WEIR.ACQUIRE", "places", "p", "CLASS", "batch")["allowed"], 0)
        self.assertEqual(self.fields("WEIR.ACQUIRE", "places", "p")["allowed"], 1)

    def test_lists_do_not_ask_for_a_class(self):
        self.assertEqual(self.take("tiered", "root", "CLASS", "batch")["allowed"], 1)
        self.assertEqual(self.take("tiered", "eve", "CLASS", "batch")["allowed"], 0)

    def test_what_a_limiter_does_not_know_is_refused(self):
        for words, why in ((("plain", "k", "CLASS", "batch"), "quota:10/1d,name=plain has no classes"),
                           (("api", "k", "CLASS", "Batch"), "accepted are batch and free, or none"),
                           (("api", "k", "TENANT", "n"), "this rule has no tenants"),
                           (("api", "k", "CLASS", ""), "a name of 1 to 32"),
                           (("api", "k", "CLASS", "b" * 5000), "a name of 1 to 32"),
                           (("api", "k", "TENANT", "t" * 129), "1 to 128 bytes are accepted"),
                           (("nobody", "k", "CLASS", "batch"), "there is no limiter of this name")):
            for verb in ("WEIR.TAKE", "WEIR.PEEK"):
                self.assertIn(why, self.refused(verb, *words))
        status, told = self.told("/take", {"limiter": "api", "key": "k", "class": "gold"})
        self.assertEqual(status, 400)
        self.assertIn("accepted are batch and free", told["detail"])
        self.assertEqual(http(self.web, get("/check/api?key=k&class=gold"))[0], 400)
        self.assertEqual(http(self.web, get("/check/nobody?key=k&class=gold"))[0], 404)
        self.assertEqual(self.left("api", "k"), 10)


class Unasked(Speaks):
    """No listener allows anything unless it says so, and nothing is charged."""

    CONFIG = CONFIG.replace("http: {", "http: {says: [limit], ", 1)

    def test_the_setting_is_named(self):
        for word, value in (("CLASS", "batch"), ("LIMIT", "5"), ("TENANT", "n")):
            for verb in ("TAKE", "PEEK", "SETTLE", "REFUND", "ACQUIRE"):
                costs = {"SETTLE": (5, 5), "REFUND": (5,)}.get(verb, ())
                told = str(self.client.ask("WEIR." + verb, "api", "k", *costs, word, value))
                self.assertEqual(told, "-ERR %s: no request may say it here: says: [%s] in listen.resp of the "
                                 "configuration allows it" % ((word.lower(),) * 2))
        self.assertIn("says: [class] in listen.resp", str(self.client.ask("WEIR.TAKE", "pair", "k", "k", "CLASS", "batch")))
        for name, value in (("class", "batch"), ("tenant", "n")):
            status, told = self.told("/take", {"limiter": "api", "key": "k", name: value})
            self.assertEqual(status, 400)
            self.assertIn("says: [%s] in listen.http" % name, told["detail"])
            self.assertEqual(http(self.web, get("/check/api?key=k&%s=%s" % (name, value)))[0], 400)
        self.assertEqual(self.fields("WEIR.PEEK", "api", "k")["remaining"], 10)
        self.assertEqual(self.told("/take", {"limiter": "plans", "key": "k", "limit": 50})[1]["limit"], 50)


GIVEN = """limiters:
  edge:
    store: main
    rule: "quota:10/1d,classes=batch:60%|free:80%"
    key: header:X-Key
    class: header:X-Class
    class_else: batch
    tiers: {gold: "quota:50/1d,name=gold"}
    overrides: {rich: gold}
  asked: {store: main, rule: "quota:10/1d,classes=batch:60%,name=asked", key: header:X-Key, class: "query:kind"}
  pool: {store: main, rule: "shared-window:2480/1h,cells=60,weights=north:5|south:3", key: header:X-Key, tenant: header:X-Team}
"""
GIVEN_CONFIG = BASE.replace('  api: {store: main, rule: "quota:3/1d"}\n', "").replace(
    "limiters:\n", GIVEN) + "groups: {pair: [edge, asked]}\n"


class Given(Speaks):
    """The file says who is of which class, and whose tenant."""

    CONFIG = GIVEN_CONFIG.replace("resp: {", "resp: {" + ALL, 1)

    def check(self, target, *fields):
        status, body, told = http(self.web, get(target, *fields))
        return status, told.get("ratelimit-policy"), body

    def test_a_header_says_the_class_and_others_have_the_one_for_all(self):
        limit = lambda *more: int(self.check("/check/edge", "X-Key: a", *more)[1].split("q=")[1].split(";")[0])
        self.assertEqual([limit(), limit("X-Class: free"), limit("X-Class:"), limit("X-Class: batch")], [6, 8, 6, 6])
        status, policy, body = self.check("/check/edge", "X-Key: a", "X-Class: gold")
        self.assertEqual((status, policy), (400, None))
        self.assertIn("accepted are batch and free", body)
        self.assertEqual(self.check("/check/edge", "X-Key: a", "X-Class: " + "x" * 99)[0], 400)
        for first in ("free", ""):
            self.assertEqual(self.check("/check/edge", "X-Key: a", "X-Class: " + first, "X-Class: batch")[0], 400)
        self.assertEqual(self.fields("WEIR.PEEK", "edge", "a")["remaining"], 2)  # of six; nothing wrong was charged
        self.assertEqual(self.fields("WEIR.PEEK", "edge", "a", "CLASS", "free")["remaining"], 4)
        self.assertEqual(self.told("/peek", {"limiter": "edge", "key": "a"})[1]["limit"], 6)
        self.assertEqual(self.check("/check/edge", "X-Key: rich", "X-Class: free")[1], '"gold";q=50;w=86400')
        self.assertEqual(self.check("/check/edge?class=free", "X-Key: a")[0], 400)  # no client says it over HTTP

    def test_an_argument_says_it(self):
        self.assertEqual(self.check("/check/asked?kind=batch", "X-Key: a")[1], '"asked/batch";q=6;w=86400')
        self.assertEqual(self.check("/check/asked?kind=", "X-Key: a")[1], '"asked";q=10;w=86400')
        self.assertEqual(self.check("/check/asked?kind=batch&kind=", "X-Key: a")[0], 400)

    def test_a_group_reads_its_first_source(self):
        self.assertEqual(self.check("/check/pair?cost=6", "X-Key: g", "X-Class: batch")[:2],
                         (200, '"edge/batch";q=6;w=86400, "asked/batch";q=6;w=86400'))
        status, _, body = self.check("/check/pair", "X-Key: g", "X-Class: batch")
        self.assertEqual(status, 429)
        self.assertIn(json.loads(body)["violated-policies"], (["edge/batch"], ["asked/batch"]))  # whose wait is longer
        self.assertEqual(self.check("/check/pair", "X-Key: g", "X-Class: free")[0], 400)  # of which the other knows nothing

    def test_tenants_have_their_floors(self):
        for team, status in (("north", 200), ("south", 200), ("new", 200)):
            self.assertEqual(self.check("/check/pool", "X-Key: all", "X-Team: " + team)[0], status)
        status, _, body = self.check("/check/pool", "X-Key: all")
        self.assertEqual(status, 400)
        self.assertIn("shared by tenants, and the request names none", body)
        self.assertIn("names none", self.client.ask("WEIR.TAKE", "pool", "all"))
        self.assertIn("names none", self.client.ask("WEIR.PEEK", "pool", "all"))
        self.assertEqual(self.fields("WEIR.TAKE", "pool", "all", "TENANT", "north")["allowed"], 1)
        self.assertIn("-ERR", self.client.ask("WEIR.RESET", "pool", "all"))
        self.assertEqual(self.told("/take", {"limiter": "pool", "key": "all", "tenant": "north"})[0], 400)

    def test_a_tenant_settles_what_it_took(self):
        left = lambda tenant: self.fields("WEIR.PEEK", "pool", "llm", "TENANT", tenant)["remaining"]
        whole = {tenant: left(tenant) for tenant in ("north", "south")}
        stamp = self.fields("WEIR.TAKE", "pool", "llm", "COST", "100", "TENANT", "north")["stamp"]
        settle = lambda *words: self.client.ask("WEIR.SETTLE", "pool", "llm", 100, 40, *words)
        self.assertIn("a shared-window needs the one", settle("TENANT", "north"))
        self.assertIn("names none", settle("STAMP", stamp))
        self.assertIn("limiter, key, tier or tenant", settle("STAMP", stamp, "TENANT", "south"))
        self.assertEqual(left("north"), whole["north"] - 100)
        told = self.fields("WEIR.SETTLE", "pool", "llm", 100, 40, "STAMP", stamp, "TENANT", "north")
        self.assertEqual(told["cost"], 40)
        self.assertEqual((left("north"), left("south")), (whole["north"] - 40, whole["south"] - 40))
        stamp = self.fields("WEIR.TAKE", "pool", "llm", "COST", "30", "TENANT", "south")["stamp"]
        refund = lambda tenant: self.client.ask("WEIR.REFUND", "pool", "llm", 30, "STAMP", stamp, "TENANT", tenant)
        self.assertIn("limiter, key, tier or tenant", refund("north"))
        self.assertNotIn("-ERR", str(refund("south")))
        self.assertEqual(left("south"), whole["south"] - 40)

    def test_a_greedy_tenant_takes_no_floor(self):
        taken = 0
        while self.fields("WEIR.TAKE", "pool", "greedy", "TENANT", "south", "COST", "5")["allowed"] == 1:
            taken += 5
            self.assertLess(taken, 2480)
        self.assertGreater(taken, 500)
        told = self.fields("WEIR.TAKE", "pool", "greedy", "TENANT", "north", "COST", "5")
        self.assertEqual(told["allowed"], 1)


class Told(Speaks):
    """What operators see."""

    def status(self, server):
        admin = server.connect("admin")
        told = json.loads(http(admin, get("/status.json"))[1])
        admin.close()
        return told

    def test_classes_are_counted(self):
        server = Server(allow(CONFIG))
        self.addCleanup(server.end)
        self.speak(server)
        for words in (("CLASS", "batch"),) * 7 + (("CLASS", "free"),) * 3 + ((),):
            self.client.ask("WEIR.TAKE", "api", "c", *words)
        self.client.ask("WEIR.TAKE", "api", "c", "CLASS", "x" * 30)  # no value of a label
        self.client.ask("WEIR.TAKE", "pair", "d", "d", "CLASS", "batch")
        self.assertEqual(self.client.ask("WEIR.TAKE", "tiered", "root", "CLASS", "batch")[1], 1)
        series = 'weir_serve_class_decisions_total{limiter="%s",class="%s",decision="%s"}'
        for limiter, name, decision, count in (
                ("api", "batch", "allowed", 7), ("api", "batch", "denied", 1), ("api", "free", "allowed", 2),
                ("api", "free", "denied", 1), ("api", "", "allowed", 1), ("api", "", "denied", 0),
                ("tiered", "", "allowed", 1), ("places", "batch", "denied", 0)):
            self.assertEqual(server.metric(series % (limiter, name, decision)), count, (limiter, name, decision))
        rows = {row["name"]: row for row in self.status(server)["limiters"]}
        self.assertEqual(rows["api"]["classes"], [
            {"class": "batch", "allowed": 7, "denied": 1}, {"class": "free", "allowed": 2, "denied": 1},
            {"class": "", "allowed": 1, "denied": 0}])
        self.assertNotIn("classes", rows["plain"])

    def test_tenants_are_shown_as_keys_are(self):
        for log_keys, shown in (("plain", "no\\x00rth"), ("off", None)):
            server = Server(GIVEN_CONFIG.replace("resp: {", "resp: {" + ALL, 1).replace(
                "tenant: header:X-Team", "tenant: header:X-Team, log_keys: " + log_keys))
            self.addCleanup(server.end)
            self.speak(server)
            while self.fields("WEIR.TAKE", "pool", "all", "TENANT", b"no\0rth", "COST", "20")["allowed"] == 1:
                pass
            for pool, cost in (("all", "2"), ("more", "1")):  # south of each pool is another one
                self.assertEqual(self.fields("WEIR.TAKE", "pool", pool, "TENANT", "south", "COST", cost)["allowed"], 1)
            told = self.status(server)
            self.assertTrue(next(one for one in told["limiters"] if one["name"] == "pool")["shared"])
            if shown is None:
                self.assertEqual((told["tenants"]["top"], told["stopped_tenants"]["top"]), ([], []))
                continue
            self.assertEqual([(one["pool"], one["key"], one["limiter"]) for one in told["tenants"]["top"]],
                             [("all", shown, "pool"), ("all", "south", "pool"), ("more", "south", "pool")])
            self.assertEqual([one["admitted"] for one in told["tenants"]["top"][1:]], [2, 1])
            self.assertEqual([(one["pool"], one["key"], one["denied"]) for one in told["stopped_tenants"]["top"]], [("all", shown, 1)])
            self.assertTrue(all("pool" not in one for one in told["denied_keys"]["top"]))
            server.await_log('denied limiter=pool key="all" tenant="%s" protocol=resp' % shown)


class Stores(Speaks):
    def test_far_stores_decide_it_as_near_ones(self):
        for kind in ("memcached", "redis"):
            store = Store(kind)
            self.addCleanup(store.end)
            server = Server(allow(CONFIG).replace("memory:?timeout=10s", store.url + "?timeout=10s"))
            self.addCleanup(server.end)
            self.speak(server)
            for _ in range(2):  # in one turn: the loop hands them to a thread beside it
                self.client.send(command("WEIR.TAKE", "api", "far", "COST", 3, "CLASS", "batch"))
            self.client.send(command("WEIR.TAKE", "pair", "f", "f"))
            told = [self.client.reply() for _ in range(3)]
            self.assertEqual([(t[1], t[3]) for t in told[:2]], [(1, 6), (1, 6)])
            self.assertEqual(self.fields("WEIR.TAKE", "api", "far", "CLASS", "batch")["allowed"], 0)
            self.assertEqual(self.fields("WEIR.TAKE", "api", "far")["limit"], 10)
            self.assertEqual(self.fields("WEIR.TAKE", "plans", "far", "LIMIT", "50", "COST", "50")["allowed"], 1)
            self.assertEqual(self.fields("WEIR.ACQUIRE", "places", "far", "COST", "2", "CLASS", "batch")["allowed"], 1)
            self.assertEqual(self.fields("WEIR.ACQUIRE", "places", "far", "CLASS", "batch")["allowed"], 0)
            server.end()


if __name__ == "__main__":
    unittest.main()
