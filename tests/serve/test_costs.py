"""Costs for each rule of a limiter, over RESP and HTTP."""

import json
import unittest

from server import BASE, command, http
from speaks import Speaks
from test_http import get, post

LIMITERS = """limiters:
  both: {store: main, rule: "quota:3/1d;quota:100/1d,name=tokens", tiers: {free: unlimited}, overrides: {free: free}}
"""


class Costs(Speaks):
    CONFIG = BASE.replace("limiters:\n", LIMITERS)

    def test_resp(self):
        told = self.fields("WEIR.TAKE", "both", "r", "COST", "1,60")
        self.assertEqual((told["allowed"], told["cost"], told["remaining"]), (1, "1,60", 2))
        told = self.fields("WEIR.TAKE", "both", "r", "cost", "1,60")
        self.assertEqual((told["allowed"], told["cost"], told["rule"]), (0, "1,60", 1))
        self.assertEqual(self.fields("WEIR.TAKE", "both", "r", "COST", "0,40")["allowed"], 1)
        self.assertEqual(self.fields("WEIR.PEEK", "both", "r", "COST", "2,0")["allowed"], 1)
        self.assertEqual(self.fields("WEIR.PEEK", "both", "r", "COST", "3,0")["allowed"], 0)
        self.assertEqual(self.fields("WEIR.TAKE", "both", "s", "COST", 2)["cost"], 2)
        self.assertEqual(self.fields("WEIR.TAKE", "both", "free", "COST", "1,9")["cost"], "1,9")

    def test_many_in_one_turn(self):
        self.client.send(b"".join(command("WEIR.TAKE", "both", "turn%d" % (i % 40), "COST", "1,%d" % (i % 40 + 1))
                                  for i in range(120)))
        for i in range(120):
            flat = self.client.reply()
            told = dict(zip(flat[::2], flat[1::2]))
            used = (i // 40 + 1) * (i % 40 + 1)
            self.assertEqual((told["allowed"], told["cost"]), (int(used <= 100), "1,%d" % (i % 40 + 1)), i)

    def test_http(self):
        told = self.told("/take", {"limiter": "both", "key": "h", "cost": [1, 60]})[1]
        self.assertEqual((told["allowed"], told["cost"], told["charged"]), (True, [1, 60], [1, 60]))
        told = self.told("/take", {"limiter": "both", "key": "h", "cost": [1, 60]})[1]
        self.assertEqual((told["allowed"], told["cost"], told["charged"]), (False, [1, 60], 0))
        self.assertEqual(http(self.web, get("/check/both?key=h&cost=1,41"))[0], 429)
        self.assertEqual(http(self.web, get("/check/both?key=h&cost=1,40"))[0], 200)
        self.assertEqual(self.told("/peek", {"limiter": "both", "key": "h", "cost": [1, 1]})[1]["rule"], 1)

    def test_what_cannot_be_asked(self):
        for cost, says in (("1,1,1", "-ERR there are 3 costs: one, or one for each of the 2 rules, is accepted"),
                           ("0,0", "-ERR COST: 0 to 2147483648 is accepted for each rule, and for one of them more than 0"),
                           ("1,-1", "-ERR COST: 0 to 2147483648 is accepted for each rule, and for one of them more than 0"),
                           ("1,2147483649", "-ERR COST: 0 to 2147483648 is accepted for each rule, and for one of them more than 0"),
                           ("1,", "-ERR COST: 1 to 2147483648 is accepted"), (",1", "-ERR COST: 1 to 2147483648 is accepted"),
                           ("1,x", "-ERR COST: 1 to 2147483648 is accepted"), ("1 ,1", "-ERR COST: 1 to 2147483648 is accepted"),
                           ("1,1,1,1,1,1,1,1,1", "-ERR COST: 1 to 2147483648 is accepted"),
                           ("0", "-ERR COST: 1 to 2147483648 is accepted")):
            self.assertEqual(self.client.ask("WEIR.TAKE", "both", "bad", "COST", cost), says, cost)
        self.assertEqual(self.client.ask("WEIR.TAKE", "api", "bad", "COST", "1,1"),
                         "-ERR there are 2 costs: one is accepted")
        self.assertEqual(self.client.ask("WEIR.TAKE", "both", "bad", "UPTO", "COST", "1,1"),
                         "-ERR UPTO needs one cost for every rule")
        for request, says in ((get("/check/both?key=bad&cost=1,1,1"), "there are 3 costs"),
                              (get("/check/both?key=bad&cost=1,"), "cost: 1 to 2147483648"),
                              (get("/check/both?key=bad&cost=0,0"), "cost: 0 to 2147483648"),
                              (post("/take", {"limiter": "both", "key": "bad", "cost": []}), "cost: a whole number, or a list"),
                              (post("/take", {"limiter": "both", "key": "bad", "cost": [1, 1.5]}), "cost: a whole number, or"),
                              (post("/take", {"limiter": "both", "key": "bad", "cost": [1] * 9}), "cost: a whole number, or"),
                              (post("/take", {"limiter": "both", "key": "bad", "cost": [1, -1]}), "cost: 0 to 2147483648"),
                              (post("/take", {"limiter": "both", "key": "bad", "cost": [1, 1], "up_to": True}), "up_to: one cost")):
            status, body, _ = http(self.web, request)
            self.assertEqual(status, 400, says)
            self.assertIn(says, json.loads(body)["detail"])
        self.assertEqual(self.fields("WEIR.PEEK", "both", "bad", "COST", "3,100")["allowed"], 1)


if __name__ == "__main__":
    unittest.main()
