"""Costs per rule, waiting and giving back, from one process to the next on a real store."""

import json
import os
import time
import unittest

from program import ALLOWED, DENIED, ProgramTest, run, said

PATIENT = "10s"


class Taking(ProgramTest):
    def setUp(self):
        self.key = f"{self.id()}-{os.getpid()}-{time.time_ns()}"

    def ask(self, command, rule, *options):
        result = run(command, "--json", "--store", self.store, "--rule", rule, "--deadline",
                     PATIENT, *options, self.key)
        self.assertIn(result.returncode, (ALLOWED, DENIED), result.stderr)
        self.assertEqual(said(result.stderr), b"")
        return json.loads(result.stdout)


class OnMemcached(Taking):
    store = os.environ.get("WEIR_TEST_MEMCACHED_META", "")

    def test_every_rule_is_charged_its_own_cost(self):
        rule = "quota:5/1d;token-bucket:1000/1d;fixed-window:7/400d"
        answer = self.ask("take", rule, "--cost", "1,900,0")
        self.assertEqual(answer["decision"], "allowed")
        self.assertEqual(answer["costs"], [1, 900, 0])
        self.assertNotIn("charged", answer)
        answer = self.ask("take", rule, "--cost", "1,900,1")
        self.assertEqual((answer["decision"], answer["rule"]), ("denied", 1))
        answer = self.ask("peek", rule, "--cost", "4,1,7")
        self.assertEqual(answer["decision"], "allowed", "a denied request charged something")

    def test_a_part_is_taken_where_it_is_welcome(self):
        rule = "quota:10/1d"
        self.assertEqual(self.ask("take", rule, "--cost", "7", "--up-to")["charged"], 7)
        self.assertEqual(self.ask("take", rule, "--cost", "7", "--up-to")["charged"], 3)
        answer = self.ask("take", rule, "--cost", "7", "--up-to")
        self.assertEqual((answer["decision"], answer["charged"]), ("denied", 0))

    def test_tenants_share_a_key_and_keep_their_floors(self):
        rule = "shared-window:1000/800s,cells=8,weights=a:3|b:1|c:1"  # floors of 30, 10 and 10 in 100 s
        while self.ask("take", rule, "--tenant", "who has none", "--cost", "100")["decision"] == "allowed":
            pass
        for tenant, cost in (("a", "30"), ("b", "10"), ("c", "9")):
            answer = self.ask("take", rule, "--tenant", tenant, "--cost", cost)
            self.assertEqual(answer["decision"], "allowed", tenant)
        self.assertEqual(self.ask("peek", rule, "--tenant", "c")["decision"], "allowed")
        told = self.ask("settle", rule, "--tenant", "b", "--cost", "10", "--real", "4", "--at", str(answer["at_us"]))
        self.assertEqual((told["settled"], told["charged"]), (True, 4))

    def test_a_class_fills_its_part(self):
        rule = "quota:10/1d,debt=2,classes=batch:60%|free:80%"
        taken = self.ask("take", rule, "--cost", "5", "--class", "batch")
        self.assertEqual((taken["decision"], taken["limit"], taken["remaining"]), ("allowed", 6, 1))
        self.assertEqual(self.ask("take", rule, "--cost", "2", "--class", "batch")["decision"], "denied")
        self.assertEqual(self.ask("peek", rule, "--class", "free")["remaining"], 3)
        self.assertEqual(self.ask("take", rule, "--cost", "5")["decision"], "allowed")
        self.assertEqual(self.ask("take", rule, "--class", "free")["limit"], 8)

    def test_what_was_taken_can_be_given_back_once(self):
        for rule in ("fixed-window:10/400d", "sliding-window:10/1d", "quota:10/1d",
                     "token-bucket:10/1d"):
            with self.subTest(rule):
                at_us = self.ask("take", rule, "--cost", "10")["at_us"]
                self.assertEqual(self.ask("take", rule)["decision"], "denied")
                refund = self.ask("refund", rule, "--cost", "9", "--at", str(at_us))
                self.assertTrue(refund["refunded"])
                self.assertEqual(self.ask("take", rule, "--cost", "8")["decision"], "allowed")

    def test_what_was_taken_is_settled(self):
        for rule, most in (("fixed-window:100/400d,debt=20", 120), ("sliding-window:100/1d,debt=20", 120), ("quota:100/1d", 100),
                           ("token-bucket:100/200d,debt=20", 120)):
            with self.subTest(rule):
                def settle(at_us, cost, real, rule=rule):
                    return self.ask("settle", rule, "--cost", str(cost), "--real", str(real), "--at", str(at_us))
                told = settle(self.ask("take", rule, "--cost", "50")["at_us"], 50, 30)
                self.assertEqual((told["settled"], told["charged"], told["cut"]), (True, 30, 0))
                self.assertEqual(self.ask("peek", rule)["remaining"], 70)
                told = settle(self.ask("take", rule, "--cost", "50")["at_us"], 50, 500)
                self.assertEqual((told["charged"], told["cut"], told["remaining"]), (most - 30, 530 - most, 0))
                self.assertEqual(self.ask("take", rule)["decision"], "denied")

    def test_every_rule_is_settled_by_its_own_cost(self):
        rule = "quota:5/1d;quota:100/1d,name=tokens"
        at_us = self.ask("take", rule, "--cost", "1,60")["at_us"]
        told = self.ask("settle", rule, "--cost", "1,60", "--real", "1,300", "--at", str(at_us))
        self.assertEqual((told["costs"], told["real"], told["charged"], told["cut"]), ([1, 60], [1, 300], [1, 100], [0, 200]))

    def limit(self, rule, *words, status=0, stdin=b""):
        result = run("limit", *words, "--store", self.store, "--rule", rule, stdin=stdin)
        self.assertEqual(result.returncode, status, result.stderr)
        return said(result.stdout if status == 0 else result.stderr).decode().strip()

    def test_a_key_gets_a_limit(self):
        rule = "fixed-window:2/1h,most=5000"
        self.assertEqual(self.limit(rule, "get", self.key), "absent")
        for text, read in (("500/1h", "500"), ("7", "7"), ("blocked", "blocked"), ("unlimited", "unlimited"), ("none", "none")):
            self.assertEqual(self.limit(rule, "set", self.key, text, "--for", "1h"), "set")
            self.assertEqual(self.limit(rule, "get", self.key), read)
        self.limit(rule, "set", self.key, "9")
        self.assertEqual(self.limit(rule, "unset", self.key), "unset")
        self.assertEqual(self.limit(rule, "get", self.key), "none")
        self.assertEqual(self.limit(rule, "load", "-", stdin=f"{self.key}\t8\n\n".encode()), "1 set")
        self.assertEqual(self.limit(rule, "get", self.key), "8")

    def test_a_key_is_of_a_tier(self):
        rule, raised = [f"fixed-window:2/1h,most=5000,tiers=gold:{gold}|silver:40" for gold in (400, 900)]
        self.limit(rule, "load", "-", stdin=f"{self.key}\tgold\n".encode())
        self.assertEqual((self.limit(rule, "get", self.key), self.ask("take", rule, "--key-limits")["limit"]), ("gold", 400))
        self.assertEqual(self.ask("take", raised, "--key-limits")["limit"], 900)
        other = "fixed-window:2/1h,most=5000"
        self.assertEqual((self.limit(other, "get", self.key), self.ask("peek", other, "--key-limits")["limit"]), ("an unknown tier", 2))
        self.assertIn("blocked, unlimited and none, and the tiers gold and silver", self.limit(rule, "set", "k", "bronze", status=2))

    def test_the_limit_of_a_key_is_gone_by(self):
        rule = "fixed-window:2/1h,most=5000"
        self.limit(rule, "set", self.key, "500")
        self.assertEqual(self.ask("take", rule)["limit"], 2)
        self.assertEqual(self.ask("take", rule, "--key-limits")["limit"], 500)
        self.limit(rule, "set", self.key, "blocked")
        self.assertEqual(self.ask("peek", rule, "--key-limits")["decision"], "denied")
        self.limit(rule, "load", "-", stdin=f"{self.key}\tunlimited\n".encode())
        free = self.ask("take", rule, "--key-limits", "--cost", "3000")
        self.assertEqual([free[name] for name in ("decision", "source", "limit", "remaining")], ["allowed", "unlimited", 5000, 5000])
        result = run("take", "--store", self.store, "--rule", rule, "--key-limits", self.key)
        self.assertIn(b"source unlimited", result.stdout)
        self.limit(rule, "unset", self.key)
        self.assertEqual(self.ask("peek", rule, "--key-limits")["remaining"], 0)  # what was free is not counted
        result = run("take", "--store", self.store, "--rule", "fixed-window:2/1h", "--key-limits", self.key)
        self.assertEqual(result.returncode, 2)
        self.assertIn("--key-limits", said(result.stderr).decode())

    def test_a_wrong_limit_is_refused(self):
        rule = "fixed-window:2/1h,most=5000"
        for words, why in ((("set", "k", "5/1m"), "a number, which may have /1h behind it, blocked, unlimited and none"),
                           (("set", "k", "0"), "accepted are 1 to 5000; to deny all"),
                           (("set", "k", "5001"), "accepted are 1 to 5000"),
                           (("set", "k"), "KEY and LIMIT are accepted"),
                           (("get",), "KEY is accepted"),
                           (("drop", "k"), "set, get, unset and load are accepted"),
                           (("set", "k", "5", "--for", "401d"), "from 1s to 400d is accepted"),
                           (("load", "/nowhere"), "cannot be read")):
            self.assertIn(why, self.limit(rule, *words, status=2))
        told = self.limit(rule, "load", "-", status=2, stdin=f"{self.key}\t9\nk 7\n".encode())
        self.assertIn("line 2, after 0 that are set: KEY, a tab and LIMIT are accepted", told)
        self.assertEqual(self.limit(rule, "get", self.key), "absent")
        for line, why in (("y\t0", "a limit of 0 "), ("y\t9/1m", "the limit is no number"), ("y", "KEY, a tab")):
            told = self.limit(rule, "load", "-", status=2, stdin=f"{self.key}\t9\n\n{line}\nz\t1\n".encode())
            self.assertIn("line 3, after 0 that are set: " + why, told)
        self.assertEqual(self.limit(rule, "get", self.key), "absent")
        many = b"".join(b"%s-%d\t9\n" % (self.key.encode(), i) for i in range(1100))
        for line in (b"y\t0", b"y"):
            told = self.limit(rule, "load", "-", status=2, stdin=many + line + b"\n")
            self.assertIn("line 1101, after 1024 that are set: ", told)
        self.assertIn("most= in one of its rules", self.limit("fixed-window:2/1h", "set", "k", "5", status=2))
        leased = "in-flight:5/10m,most=50,lease=1s"
        self.assertIn("the rule without lease=", self.limit(leased, "set", "k", "5", status=2))

    def test_a_request_brings_its_limit(self):
        rule = "sliding-window:2/1h,most=50"
        self.assertEqual(self.ask("take", rule, "--limit", "50")["remaining"], 49)
        self.assertEqual(self.ask("take", rule, "--limit", "1")["decision"], "denied")
        self.assertEqual(self.ask("take", rule)["remaining"], 0)
        result = run("take", "--store", self.store, "--rule", rule, "--limit", "51", self.key)
        self.assertIn(b"a limit of 51 for sliding-window:2/1h,most=50: accepted are 1 to 50", result.stderr)

    def test_nothing_is_charged_ahead(self):
        # A limiter alone at its keys would soon lease as much as it was asked for.
        for rule in ("sliding-window:1000/1d,lease=1s", "quota:1000/1d,lease=1s"):
            with self.subTest(rule):
                now_ms = time.time_ns() // 1_000_000
                trace = "".join(f"{now_ms + i} {self.key}\n" for i in range(40))
                replayed = run("replay", "--store", self.store, "--rule", rule, "--deadline",
                               PATIENT, stdin=trace.encode())
                self.assertEqual((replayed.returncode, replayed.stderr), (0, b""))
                self.assertEqual(self.ask("take", rule, "--processes", "1")["remaining"], 959)

    def test_a_lease_makes_a_bucket_smaller_for_everybody(self):
        rule = "token-bucket:100/1d,lease=1s"
        self.assertEqual(self.ask("take", rule, "--cost", "100")["decision"], "denied")
        answer = self.ask("take", rule, "--cost", "99")
        self.assertEqual((answer["decision"], answer["limit"]), ("allowed", 99))

    def test_a_queue_makes_callers_wait_their_turn(self):
        rule = "leaky-bucket:2/1s,queue=5"
        begin = time.monotonic()
        for _ in range(4):
            self.assertEqual(self.ask("take", rule, "--wait", "30s")["decision"], "allowed")
        self.assertGreater(time.monotonic() - begin, 1.4)  # three intervals of half a second

    def test_a_wait_that_cannot_be_enough_is_denied_at_once(self):
        rule = "fixed-window:1/400d"
        self.ask("take", rule)
        begin = time.monotonic()
        self.assertEqual(self.ask("take", rule, "--wait", "20s")["decision"], "denied")
        self.assertLess(time.monotonic() - begin, 15)

    def test_a_held_refusal_says_how_long(self):
        rule = "quota:1/1d,hold=700ms"
        self.ask("take", rule)
        self.assertEqual(self.ask("take", rule)["delay_us"], 700000)


class OnRedis(OnMemcached):
    store = os.environ.get("WEIR_TEST_REDIS", "")


if __name__ == "__main__":
    unittest.main()
