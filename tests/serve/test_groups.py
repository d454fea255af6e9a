"""Groups: limiters whose requests are one decision, over RESP and HTTP."""

import json
import threading
import unittest

from server import BASE, Server, Store, await_that, command, http
from speaks import Speaks
from test_http import get, post

LIMITERS = """limiters:
  by_address: {store: main, rule: "quota:5/1d", key: client, log_keys: plain}
  by_account:
    store: main
    rule: "quota:2/1d"
    key: header:X-Account
    log_keys: plain
    tiers: {gold: "quota:4/1d", free: unlimited, none: blocked}
    overrides: {alice: gold, root: free, eve: none}
  costly: {store: main, rule: "quota:10/1d", cost: 4, headers: draft-03}
  tenant: {store: main, rule: "quota:10/1d;quota:100/1h,name=hour", headers: "off"}
  trial: {store: main, rule: "quota:1/1d", shadow: true}
  other: {store: main, rule: "quota:1/1d", shadow: true}
  half: {store: main, rule: "quota:1/1d", enforce: 50%}
"""
GROUPS = """groups:
  login: [by_address, by_account]
  mixed: [by_account, costly, tenant]
  tried: [by_account, trial]
  new: [trial, other]
  rolled: [by_account, half]
"""
CONFIG = BASE.replace("limiters:\n", LIMITERS) + GROUPS + "limits: {logged_denials: 10000}\n"
RETRIES = (1, 2 * 86400 * 10**6)


def raw_fields(client, request):
    """(status, all lines of the head)."""
    client.send(request)
    status = int(client.line().split()[1])
    lines = []
    while line := client.line():
        lines.append(line)
    length = next(int(line.split()[1]) for line in lines if line.lower().startswith("content-length"))
    return status, lines, client.take(length).decode()


class Groups(Speaks):
    CONFIG = CONFIG

    def left(self, limiter, key):
        return self.fields("WEIR.PEEK", limiter, key)["remaining"]

    def test_all_are_charged_or_none(self):
        for left in (1, 0):
            told = self.fields("WEIR.TAKE", "login", "1.1.1.1", "bob")
            self.assertEqual((told["allowed"], told["limit"], told["remaining"], told["cost"], told["denied_by"]),
                             (1, 2, left, 1, ""))
        for _ in range(9):
            told = self.fields("WEIR.TAKE", "login", "1.1.1.1", "bob")
            self.assertEqual((told["allowed"], told["limit"], told["remaining"], told["denied_by"], told["stamp"]),
                             (0, 2, 0, "by_account", ""))
            self.assertTrue(RETRIES[0] <= told["retry_after_us"] <= RETRIES[1], told)
        self.assertEqual((self.left("by_address", "1.1.1.1"), self.left("by_account", "bob")), (3, 0))
        told = self.fields("WEIR.TAKE", "login", "1.1.1.1", "carl", "COST", 4)
        self.assertEqual((told["allowed"], told["cost"], told["denied_by"], told["retry_after_us"]),
                         (0, 4, "by_account", -1))
        told = self.fields("WEIR.TAKE", "login", "1.1.1.1", "alice", "cost", 4)
        self.assertEqual((told["allowed"], told["limit"], told["denied_by"]), (0, 5, "by_address"))
        self.assertEqual((self.left("by_address", "1.1.1.1"), self.left("by_account", "alice")), (3, 4))

    def test_peek(self):
        for _ in range(2):
            told = self.fields("WEIR.PEEK", "login", "2.2.2.2", "peek")
            self.assertEqual((told["allowed"], told["remaining"], told["denied_by"]), (1, 2, ""))
            self.assertNotIn("stamp", told)
        told = self.fields("WEIR.PEEK", "login", "2.2.2.2", "peek", "COST", 3)
        self.assertEqual((told["allowed"], told["denied_by"]), (0, "by_account"))
        told = self.fields("WEIR.PEEK", "login", "2.2.2.2", "alice2", "COST", 6)
        self.assertEqual((told["allowed"], told["denied_by"]), (0, "by_address"))  # both for ever: the first

    def test_own_costs_and_a_stack(self):
        for left in (1, 0):
            told = self.fields("WEIR.TAKE", "mixed", "m", "m", "m")
            self.assertEqual((told["allowed"], told["remaining"]), (1, left))
        self.assertEqual([self.left(name, "m") for name in ("by_account", "costly", "tenant")], [0, 2, 8])
        told = self.fields("WEIR.TAKE", "mixed", "n", "m", "n")
        self.assertEqual((told["allowed"], told["cost"], told["denied_by"]), (0, 4, "costly"))

    def test_keys_in_lists(self):
        told = self.fields("WEIR.TAKE", "login", "3.3.3.3", "root")
        self.assertEqual((told["allowed"], told["limit"], told["remaining"]), (1, 5, 4))
        for verb in ("WEIR.TAKE", "WEIR.PEEK"):
            told = self.fields(verb, "login", "3.3.3.3", "eve")
            self.assertEqual((told["allowed"], told["limit"], told["retry_after_us"], told["source"], told["denied_by"]),
                             (0, 0, -1, "local", "by_account"))
        self.assertEqual(self.left("by_address", "3.3.3.3"), 4)
        told = self.fields("WEIR.TAKE", "tried", "root", "r")
        self.assertEqual((told["allowed"], told["remaining"]), (1, 0))  # trial, in shadow mode, is the only one asked
        self.assertEqual((self.fields("WEIR.TAKE", "tried", "root", "r")["allowed"], self.left("trial", "r")), (1, 0))

    def test_shadow_mode(self):
        """One member has no say, and is asked when the others have admitted."""
        denied = 'weir_serve_limiter_shadow_denied_total{limiter="%s"}'
        before = [self.server.metric(denied % name) for name in ("trial", "new")]
        for allowed in (1, 1, 0, 0):
            told = self.fields("WEIR.TAKE", "tried", "s", "s")
            self.assertEqual((told["allowed"], told["limit"], told["denied_by"]),
                             (allowed, 2, "" if allowed else "by_account"))
        self.assertEqual(self.server.metric(denied % "trial") - before[0], 1)
        # All are: the decision is as ever, and allowed.
        for _ in range(3):
            self.assertEqual(self.fields("WEIR.TAKE", "new", "x", "y")["allowed"], 1)
        self.assertEqual(self.fields("WEIR.TAKE", "new", "z", "y")["denied_by"], "")
        self.assertEqual((self.left("trial", "z"), self.left("other", "y")), (1, 0))
        self.assertEqual(self.server.metric(denied % "new") - before[1], 3)

    def test_enforced_for_some(self):
        """A member has a say with the keys that it enforces, and with no other."""
        told = {}
        for i in range(40):
            key = "k%d" % i
            self.assertEqual(self.fields("WEIR.TAKE", "rolled", key, key)["allowed"], 1)
            told[key] = self.fields("WEIR.TAKE", "rolled", key, key)["denied_by"]
            self.assertEqual(self.left("by_account", key), 0 if told[key] == "" else 1)
        self.assertEqual(set(told.values()), {"", "half"})
        self.assertEqual({key for key in told if self.fields("WEIR.TAKE", "half", key)["allowed"] == 0},
                         {key for key in told if told[key] == "half"})

    def test_stamps_settle_member_by_member(self):
        told = self.fields("WEIR.TAKE", "login", "4.4.4.4", "sam", "COST", 2)
        stamps = told["stamp"].split(",")
        self.assertEqual(len(stamps), 2)
        settled = self.fields("WEIR.REFUND", "by_account", "sam", 1, "STAMP", stamps[1])
        self.assertEqual((settled["source"], settled["cost"]), ("settled", 0))
        self.assertIn("another limiter", self.client.ask("WEIR.REFUND", "by_account", "sam", 1, "STAMP", stamps[0]))
        self.assertEqual((self.left("by_address", "4.4.4.4"), self.left("by_account", "sam")), (3, 1))
        idle = self.fields("WEIR.TAKE", "login", "4.4.4.4", "root")["stamp"].split(",")
        self.assertEqual(self.fields("WEIR.SETTLE", "by_account", "root", 1, 5, "STAMP", idle[1])["allowed"], 1)

    def test_what_cannot_be_asked(self):
        for words, says in ((("WEIR.TAKE", "login", "k"), "-ERR this is a group of 2: a key for each is accepted"),
                            (("WEIR.TAKE", "login", "k", "k", "k"), "-ERR COST N, UPTO, CLASS NAME"),
                            (("WEIR.TAKE", "login", "k", ""), "-ERR the key has 0 bytes: 1 to 4096 are accepted"),
                            (("WEIR.TAKE", "login", "k", "k", "COST", "1,2"),
                             "-ERR this is a group: one cost for all of its members is accepted"),
                            (("WEIR.TAKE", "login", "k", "k", "UPTO"),
                             "-ERR this is a group: all of its cost is taken or none, not up to it"),
                            (("WEIR.RESET", "login", "k"), "-ERR this is a group: take and peek are accepted, and all "
                             "else of its members, each by its own name"),
                            (("WEIR.SETTLE", "login", "k", 1, 2), "-ERR this is a group: take and peek"),
                            (("WEIR.ACQUIRE", "login", "k"), "-ERR this is a group: take and peek"),
                            (("WEIR.TAKE", "by_account", "k", "k"), "-ERR COST N, UPTO, CLASS NAME"),
                            (("WEIR.TAKE", "login", "COST", "COST", "COST", "3"), None)):
            told = self.client.ask(*words)
            if says is not None:
                self.assertTrue(told.startswith(says), told)
        self.assertEqual(self.left("by_address", "COST"), 5)
        for request, status, says in (
                (post("/take", {"limiter": "login", "key": "k"}), 400, "a key for each of its members"),
                (post("/take", {"limiter": "login", "keys": ["k"]}), 400, "a group of 2"),
                (post("/take", {"limiter": "login", "keys": ["k", ""]}), 400, "keys: a list of up to 8 strings"),
                (post("/take", {"limiter": "login", "keys": ["k", 7]}), 400, "keys: a list of up to 8 strings"),
                (post("/take", {"limiter": "login", "keys": ["k"] * 9}), 400, "keys: a list of up to 8 strings"),
                (post("/take", {"limiter": "login", "keys": []}), 400, "keys: a list of up to 8 strings"),
                (post("/take", {"limiter": "login", "key": "k", "keys": ["k", "k"]}), 400, "one of them"),
                (post("/take", {"limiter": "api", "keys": ["k"]}), 400, "this is a limiter: one key"),
                (post("/take", {"limiter": "nobody", "keys": ["k"]}), 404, "no limiter of this name"),
                (post("/take", {"limiter": "login", "keys": ["k", "k" * 4097]}), 400, "the key is too long"),
                (post("/take", {"limiter": "login", "keys": ["k", "k"], "cost": [1, 2]}), 400, "one cost for all"),
                (post("/take", {"limiter": "login", "keys": ["k", "k"], "up_to": True}), 400, "not up to it"),
                (post("/settle", {"limiter": "login", "key": "k", "estimate": 1, "real": 1}), 400, "this is a group"),
                (get("/settle/login?key=k&estimate=1&real=1"), 400, "this is a group"),
                (get("/check/login?key=k"), 400, "send the header X-Account")):
            told = http(self.web, request)
            self.assertEqual(told[0], status, request)
            self.assertIn(says, json.loads(told[1])["detail"])

    def test_json(self):
        asked = {"limiter": "login", "keys": ["5.5.5.5", "json"], "cost": 2}
        told = self.told("/take", asked)[1]
        self.assertEqual((told["limiter"], told["keys"], told["allowed"], told["remaining"], told["charged"]),
                         ("login", ["5.5.5.5", "json"], True, 0, 2))
        self.assertEqual(told["stamp"].count(","), 1)
        told = self.told("/take", asked)[1]
        self.assertEqual((told["allowed"], told["denied_by"], told["charged"]), (False, "by_account", 0))
        self.assertNotIn("stamp", told)
        self.assertEqual(self.told("/peek", asked)[1]["denied_by"], "by_account")
        self.assertEqual(self.left("by_address", "5.5.5.5"), 3)

    def test_check_finds_the_key_of_each(self):
        for left in (1, 0):
            status, lines, body = raw_fields(self.web, get("/check/login", "X-Account: web"))
            self.assertEqual((status, body), (200, ""))
            self.assertIn('RateLimit-Policy: "by_address";q=5;w=86400, "by_account";q=2;w=86400', lines)
            self.assertEqual([line for line in lines if line.startswith("RateLimit:")],
                             ['RateLimit: "by_account";r=%d;t=86400' % left])
            self.assertEqual(sum(line.startswith("Weir-Stamp: ") for line in lines), 1)
        status, lines, body = raw_fields(self.web, get("/check/login", "X-Account: web"))
        self.assertEqual((status, json.loads(body)["detail"]), (429, "by_account"))
        self.assertIn('RateLimit-Policy: "by_address";q=5;w=86400, "by_account";q=2;w=86400', lines)
        self.assertEqual(sum(line.startswith("RateLimit: \"by_account\";r=0;t=") for line in lines), 1)
        self.assertEqual(sum(line.startswith("Retry-After: ") for line in lines), 1)
        self.assertEqual((self.left("by_address", "127.0.0.1"), self.left("by_account", "web")), (3, 0))
        self.assertEqual(raw_fields(self.web, get("/check/login?cost=4", "X-Account: alice"))[0], 429)

    def test_fields_are_as_each_member_says(self):
        """draft-10, draft-03 and off beside each other."""
        def names(cost):
            status, lines, _ = raw_fields(self.web, get("/check/mixed?key=f&cost=%d" % cost, "X-Account: fields"))
            return status, sorted({line.split(":")[0] for line in lines if "R" in line} - {"Content-Type"})
        self.assertEqual(names(2), (200, ["RateLimit", "RateLimit-Policy"]))
        self.assertEqual(names(1), (429, ["RateLimit", "RateLimit-Policy", "Retry-After"]))

    def test_counts_and_the_log(self):
        rows = 'weir_serve_decisions_total{limiter="%s",protocol="resp",decision="%s",source="%s"}'
        names = [("login", "allowed", "store"), ("by_address", "allowed", "store"), ("by_account", "allowed", "store"),
                 ("login", "denied", "local"), ("by_address", "denied", "local"), ("by_account", "denied", "local")]
        before = [self.server.metric(rows % name) for name in names]
        for _ in range(2):
            self.fields("WEIR.TAKE", "login", "6.6.6.6", "count")
        for _ in range(3):
            self.fields("WEIR.TAKE", "login", "6.6.6.6", "count", "COST", 3)
        told = [self.server.metric(rows % name) - count for name, count in zip(names, before)]
        self.assertEqual(told, [2, 2, 2, 3, 0, 3])
        self.server.await_log('denied limiter=by_account group=login key="count" protocol=resp cost=3 retry_after_us=-1')
        admin = self.server.connect("admin")
        status = json.loads(http(admin, get("/status.json"))[1])
        admin.close()
        row = next(row for row in status["limiters"] if row["name"] == "login")
        self.assertEqual(row["rule"], "all of by_address, by_account")
        self.assertIn("by_account", [key["limiter"] for key in status["denied_keys"]["top"]])

    def test_in_the_order_of_a_connection(self):
        """Also where others come before and behind in one turn."""
        words = [("WEIR.TAKE", "by_account", "order"), ("WEIR.TAKE", "login", "7.7.7.7", "order"),
                 ("WEIR.PEEK", "by_account", "order"), ("WEIR.TAKE", "login", "7.7.7.7", "order"),
                 ("WEIR.PEEK", "by_address", "7.7.7.7")]
        self.client.send(b"".join(command(*each) for each in words))
        told = [dict(zip(flat[::2], flat[1::2])) for flat in (self.client.reply() for _ in words)]
        self.assertEqual([(one["allowed"], one["remaining"]) for one in told],
                         [(1, 1), (1, 0), (0, 0), (0, 0), (1, 4)])


class Stores(unittest.TestCase):
    """Members on two stores, several servers, and stores that go away."""

    def config(self, one, other, fallback="local"):
        return CONFIG[:CONFIG.index("stores:")] + """stores:
  main: {url: "%s?timeout=10s", processes: 2, fallback: %s}
  second: {url: "%s?timeout=10s", processes: 2, fallback: %s}
limiters:
  by_address: {store: main, rule: "quota:40/1d"}
  by_account: {store: second, rule: "quota:60/1d"}
groups:
  login: [by_address, by_account]
""" % (one, fallback, other, fallback)

    def store(self, kind):
        store = Store(kind)
        self.addCleanup(store.end)
        return store

    def test_two_servers_on_crossing_keys(self):
        """Never over a limit, and nothing stays charged of what was denied."""
        stores = [self.store("memcached"), self.store("redis")]
        with Server(self.config(stores[0].url, stores[1].url)) as one, \
                Server(self.config(stores[0].url, stores[1].url)) as other:
            admitted = []

            def ask(server, index):
                client = server.connect()
                for i in range(40):
                    address, account = "a%d" % (i % 2), "u%d" % (i // 2 % 2)
                    told = client.ask("WEIR.TAKE", "login", address, account)
                    if told[1] == 1:
                        admitted.append((address, account))
                client.close()
            threads = [threading.Thread(target=ask, args=(server, i)) for server in (one, other) for i in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            client = one.connect()
            for limiter, limit, at, keys in (("by_address", 40, 0, ("a0", "a1")), ("by_account", 60, 1, ("u0", "u1"))):
                for key in keys:
                    flat = client.ask("WEIR.PEEK", limiter, key)
                    used = sum(pair[at] == key for pair in admitted)
                    self.assertEqual(dict(zip(flat[::2], flat[1::2]))["remaining"], limit - used, (limiter, key))
            self.assertEqual(len(admitted), 80)  # both addresses are used up
            client.close()

    def test_a_store_is_away(self):
        for fallback, expected in (("none", None), ("deny", 0), ("allow", 1)):
            stores = [self.store("memcached"), self.store("redis")]
            with Server(self.config(stores[0].url, stores[1].url, fallback)) as server:
                client = server.connect()
                self.assertEqual(client.ask("WEIR.TAKE", "login", "a", "u")[1], 1)
                stores[1].order("kill")
                for _ in range(3):
                    told = client.ask("WEIR.TAKE", "login", "a", "u")
                    if expected is None:
                        self.assertTrue(told.startswith(("-ERR UNAVAILABLE ", "-ERR UNKNOWN_OUTCOME ")), told)
                    else:
                        fields = dict(zip(told[::2], told[1::2]))
                        self.assertEqual(fields["allowed"], expected, told)
                        self.assertIn(fields["source"], ("late", "fallback"))
                flat = client.ask("WEIR.PEEK", "by_address", "a")
                self.assertEqual(dict(zip(flat[::2], flat[1::2]))["remaining"], 39 - 3 * (expected == 1))
                client.close()

    def test_a_reload(self):
        store = self.store("memcached")
        config = self.config(store.url, store.url)
        with Server(config) as server:
            client = server.connect()
            self.assertEqual(client.ask("WEIR.TAKE", "login", "a", "u")[1], 1)
            rows = 'weir_serve_decisions_total{limiter="login",protocol="resp",decision="allowed",source="store"}'
            server.write(server.config.replace("login: [by_address, by_account]", "login: [by_account, by_adress]"))
            server.await_log('groups.login: no limiter "by_adress", did you mean "by_address"?')
            server.await_log("stays as it was")
            self.assertEqual(client.ask("WEIR.TAKE", "login", "a", "u")[5], 38)
            server.write(server.config.replace("login: [by_address, by_account]",
                                               "more: [by_account, by_address]\n  login: [by_account, by_address]"))
            server.await_log("is in use now")
            await_that(lambda: client.ask("WEIR.PEEK", "more", "u", "a")[1] == 1, "the reload")
            self.assertEqual(client.ask("WEIR.TAKE", "login", "u", "a")[5], 37)
            self.assertEqual(server.metric(rows), 3)
            client.close()


if __name__ == "__main__":
    unittest.main()
