"""Which limit a key has, and when more will fit: a server's configuration, its counts, and nothing written."""

import json
import os
import tempfile
import time
import unittest

from program import ALLOWED, DENIED, ProgramTest, run

LIMITERS = """limiters:
  api:
    rule: "sliding-window:100/1h;quota:1000/1d"
    tiers: {gold: "token-bucket:10/1h,burst=50", log: "sliding-log:3/1h", no: blocked, free: unlimited}
    overrides: {"al*": gold, alba: log, bad: no, "free-*": free}
    allow: ["vip-*"]
    block: [evil]
    enforce: 50%
  held: {rule: "in-flight:3/10m"}
  own: {rule: "sliding-window:100/1h;quota:1000/1d,most=5000", limits: store}
  closed: {rule: "quota:9/1d,name=closed,most=5000", limits: store, absent: deny}
groups: {both: [api, api2]}
"""


SAID = """listen: {resp: {}}
stores: {m: {url: "memory:", deadline: 10s}}
limiters:
  api: {rule: "quota:50/1d"}
  jobs: {rule: "sliding-window:100/1h;quota:50/1d,classes=low:20%|mid:60%", class_else: low}
  pool: {rule: "shared-window:2480/1h,weights=north:5|south:3", tenant: header:X-Team}
"""


class Explain(ProgramTest):
    store = os.environ["WEIR_TEST_MEMCACHED_META"] + "&timeout=10s"  # a busy machine is no reason to fail

    def setUp(self):
        self.mark = f"{os.getpid()}-{time.time_ns()}"
        self.configure(self.store)

    def configure(self, store):
        file = tempfile.NamedTemporaryFile("w", suffix=".yaml")
        self.addCleanup(file.close)
        file.write('listen: {resp: {}}\nstores: {m: {url: "%s", deadline: 10s}}\n' % store +
                   LIMITERS.replace("  held:", '  api2: {rule: "quota:1/1d"}\n  held:'))
        file.flush()
        self.file = file.name

    def take(self, rule, key, cost):
        result = run("take", "--store", self.store, "--deadline", "10s", "--rule", rule, "--cost", str(cost), "api:" + key)
        self.assertIn(result.returncode, (ALLOWED, DENIED), result.stderr)

    def explain(self, key, limiter="api"):
        result = run("explain", "--json", self.file, limiter, key)
        self.assert_ends(result, 0)
        return json.loads(result.stdout)

    def test_whose_limit(self):
        for key, kind, tier, entry in (("bob", "limited", "", None), ("alice", "limited", "gold", ("overrides", "al*")),
                                       ("alba", "limited", "log", ("overrides", "alba")), ("bad", "blocked", "no", ("overrides", "bad")),
                                       ("free-1", "unlimited", "free", ("overrides", "free-*")),
                                       ("vip-1", "unlimited", "", ("allow", "vip-*")), ("evil", "blocked", "", ("block", "evil"))):
            told = self.explain(key)
            self.assertEqual((told["kind"], told["tier"], told["counted"]), (kind, tier, "api:" + key))
            self.assertEqual((told.get("list"), told.get("entry")), entry or (None, None))
            self.assertEqual(len(told["rules"]), {"limited": 2 if tier == "" else 1}.get(kind, 0))

    def test_the_same_keys_are_enforced(self):
        told = [self.explain("free-%d" % i)["enforced"] for i in range(20)]
        self.assertEqual(set(told), {True, False})
        self.assertEqual(told, [self.explain("free-%d" % i)["enforced"] for i in range(20)])

    def test_each_rule_by_itself(self):
        key = "bob-" + self.mark
        self.take("sliding-window:100/1h;quota:1000/1d", key, 90)
        for _ in range(2):  # nothing was written
            hour, day = self.explain(key)["rules"]
            self.assertEqual((hour["limit"], hour["remaining"], day["limit"], day["remaining"]), (100, 10, 1000, 910))
            self.assertEqual([fit["amount"] for fit in hour["fits"]], [25, 50, 75, 100])
            waits = [fit["in_us"] for fit in hour["fits"]]
            self.assertEqual(waits[:3], sorted(waits[:3]))
            self.assertTrue(all(0 < us <= 2 * 3600 * 10**6 for us in waits), waits)
            self.assertEqual([fit["amount"] for fit in day["fits"]], [1000])
        result = run("explain", self.file, "api", key)
        self.assert_output(result, 0, rb"sliding-window:100/1h\n  allowed  limit 100  remaining 10 .*\n  25 fit in .*, 100 fit in ")

    def test_rules_of_all_kinds(self):
        key = "al-" + self.mark
        self.take("token-bucket:10/1h,burst=50", key, 40)
        [bucket] = self.explain(key)["rules"]
        self.assertEqual((bucket["limit"], bucket["remaining"]), (50, 10))
        self.assertEqual([fit["amount"] for fit in bucket["fits"]], [12, 25, 37, 50])
        [log] = self.explain("alba")["rules"]
        self.assertEqual((log["limit"], log["remaining"], log["fits"]), (3, 3, []))
        [held] = self.explain(key, "held")["rules"]
        self.assertEqual((held["limit"], held["remaining"]), (3, 3))

    def set_limit(self, rule, key, limit):
        result = run("limit", "set", "--store", self.store, "--rule", rule, key, limit)
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_the_limit_of_the_key(self):
        key, rule = "own-" + self.mark, "quota:1000/1d,most=5000"
        for limit, told, allowed, remaining in ((None, "absent", True, 1000), ("7", "7", True, 7), ("none", "none", True, 1000),
                                                ("unlimited", "unlimited", True, 5000), ("blocked", "blocked", False, 0)):
            if limit is not None:
                self.set_limit(rule, "own:" + key, limit)
            hour, day = self.explain(key, "own")["rules"]
            self.assertEqual((hour["limit"], hour["allowed"], "key_limit" in hour), (100, True, False))
            self.assertEqual((day["key_limit"], day["allowed"], day["remaining"]), (told, allowed, remaining))
        result = run("explain", self.file, "own", key)
        self.assert_output(result, 0, rb"quota:1000/1d,most=5000\n  limit of the key: blocked\n  denied  limit 0 .*  source local\n")

    def test_a_key_without_a_limit_may_be_denied(self):
        key = "closed-" + self.mark
        [rule] = self.explain(key, "closed")["rules"]
        self.assertEqual((rule["key_limit"], rule["allowed"]), ("absent", False))
        self.set_limit("quota:9/1d,name=closed,most=5000", "closed:" + key, "none")
        [rule] = self.explain(key, "closed")["rules"]
        self.assertEqual((rule["key_limit"], rule["allowed"], rule["limit"]), ("none", True, 9))

    def test_classes_and_tenants(self):
        def limits(*words):
            result = run("explain", "--json", *words, self.file, "jobs", "k")
            self.assert_ends(result, 0)
            return [rule["limit"] for rule in json.loads(result.stdout)["rules"]]

        with open(self.file, "w", encoding="ascii") as file:
            file.write(SAID)
        self.assertEqual([limits(), limits("--class", "mid")], [[100, 10], [100, 30]])
        for name in ("high", ""):
            self.assert_refused(run("explain", "--class", name, self.file, "jobs", "k"), "the limiter jobs has no class")
        self.assert_refused(run("explain", "--class", "low", self.file, "api", "k"), "the limiter api has no class")
        self.assert_refused(run("explain", self.file, "pool", "k"), "--tenant NAME is needed")
        self.assert_refused(run("explain", "--tenant", "north", self.file, "api", "k"), "no tenants")
        self.assert_ends(run("explain", "--tenant", "north", self.file, "pool", "k"), 0)

    def test_what_cannot_be_told(self):
        for arguments, status, says in (((), 2, "no FILE"), ((self.file,), 2, "no LIMITER"), ((self.file, "api"), 2, "no KEY"),
                                        ((self.file, "api", "k", "l"), 2, 'extra argument "l"; FILE LIMITER KEY is accepted'),
                                        ((self.file, "api", ""), 2, "KEY is empty"),
                                        ((self.file, "apo", "k"), 2, 'no limiter "apo": did you mean "api"?'),
                                        ((self.file, "nothing", "k"), 2, 'no limiter "nothing" in this configuration'),
                                        ((self.file, "both", "k"), 2, '"both" is a group: the name of one of its members'),
                                        (("/nowhere.yaml", "api", "k"), 2, "No such file")):
            result = run("explain", *arguments)
            self.assertEqual((result.returncode, result.stdout), (status, b""), result.stderr)
            self.assertIn(says, result.stderr.decode())
            self.assertEqual(result.stderr.count(b"\n"), 1)
        self.configure("memcached://127.0.0.1:1?timeout=100ms")
        result = run("explain", self.file, "api", "k")
        self.assertEqual((result.returncode, result.stdout), (3, b""))
        self.assertIn("127.0.0.1:1", result.stderr.decode())


if __name__ == "__main__":
    unittest.main()
