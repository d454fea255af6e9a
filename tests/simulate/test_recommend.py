"""weir simulate --recommend and --top: known answers, and answers confirmed by running them."""

import json
import pathlib
import sys
import tempfile
import unittest
import xml.etree.ElementTree as xml

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "cli"))

from program import ProgramTest, run  # noqa: E402

NASA = str(HERE.parent / "replay" / "data" / "nasa1995aug01.txt.gz")
# Key i asks i times within a second, 100 keys: limit L denies sum(i - L) of 5050, of 100 - L keys.
LADDER = b"".join(b"%d k%d\n" % (60000 + n, i) for n in range(100) for i in range(1, 101) if n < i)
KINDS = ("sliding-log:5/1h", "fixed-window:5/1h", "quota:5/1h", "sliding-window:5/1h,strict")


class Recommend(ProgramTest):
    def lines(self, *arguments, stdin=b""):
        result = run("simulate", "--json", *arguments, stdin=stdin)
        self.assert_ends(result, 0)
        return [json.loads(line) for line in result.stdout.splitlines()]

    def recommended(self, rule, goal, *arguments, stdin=b""):
        return self.lines("--rule", rule, "--recommend", goal, *arguments, stdin=stdin)[0]

    def test_of_a_known_log_the_limit_is_exact(self):
        goals = {"0%": 100, "keys:0%": 100, "keys:5%": 95, "keys:4.9999%": 96, "key:k37": 37}
        share = lambda limit: sum(i - limit for i in range(limit, 101)) / 5050  # noqa: E731
        for percent in (0.1, 1, 25, 97):
            goals[f"{percent}%"] = min(limit for limit in range(1, 101) if share(limit) <= percent / 100)
        for goal, limit in goals.items():
            for rule in KINDS if goal == "1%" else KINDS[:1]:
                found = self.recommended(rule, goal, stdin=LADDER)
                self.assertEqual((goal, rule, found["limit"]), (goal, rule, limit))
                self.assertEqual(found["recommended"], rule.replace(":5/", f":{limit}/"))
                if not goal.startswith("key:"):
                    self.assertEqual(found["denied"], {"requests": round(share(limit) * 5050), "keys": 100 - limit})

    def test_peaks_are_counted(self):
        found = self.recommended(KINDS[0], "1%", stdin=LADDER)
        self.assertEqual(found["peaks"], {"p50": 50, "p90": 90, "p99": 99, "p99_9": 100, "most": 100})
        self.assertEqual([(bin_["from"], bin_["to"], bin_["keys"]) for bin_ in found["histogram"]],
                         [(1, 1, 1), (2, 3, 2), (4, 7, 4), (8, 15, 8), (16, 31, 16), (32, 63, 32), (64, 127, 37)])

    def test_a_peak_is_that_of_any_period_not_of_all_the_time(self):
        stdin = b"".join(b"%d a\n" % ms for ms in (0, 400, 999, 1000, 1399, 1400, 9000))
        self.assertEqual(self.recommended("quota:1/1s", "0%", stdin=stdin)["peaks"]["most"], 4)

    def test_running_it_confirms_it(self):
        for rule, goal, whole in (("sliding-window:10/1m", "0.1%", "requests"),
                                  ("token-bucket:10/1m,name=a", "keys:1%", "keys")):
            with self.subTest(rule):
                found = self.recommended(rule, goal, NASA)
                limits = [found["limit"], found["limit"] - 1]
                given = [part for limit in limits
                         for part in ("--rule", rule.replace(":10/", f":{limit}/"))]
                shares = [(r["requests"] - r["allowed"] if whole == "requests" else r["denied_keys"]) / found[whole]
                          for r in self.lines(*given, NASA)[1:]]
                most = 0.001 if whole == "requests" else 0.01
                self.assertLessEqual(shares[0], most)
                self.assertGreater(shares[1], most)

    def test_the_report_has_the_limits_side_by_side(self):
        rules = [line["rule"] for line in self.lines("--rule", "quota:50/1h", "--recommend", "key:k37", stdin=LADDER)[2:]]
        self.assertEqual(rules, ["quota:37/1h", "quota:36/1h", "quota:50/1h"])

    def test_the_top_keys_are_told_with_all_that_is_known(self):
        rule = self.lines("--rule", "fixed-window:95/1h", "--top", "3", stdin=LADDER)[1]
        self.assertEqual([(key["key"], key["denied"], key["requests"], key["peak"]) for key in rule["denied_most"]],
                         [("k100", 5, 100, 100), ("k99", 4, 99, 99), ("k98", 3, 98, 98)])
        text = run("simulate", "--rule", "fixed-window:95/1h", "--top", "3", stdin=LADDER).stdout.decode()
        self.assertRegex(text, r"5 +5\.000% +100 +100  1970-01-01 00:01:00.095 +k100\n")

    def test_costs_count_in_peaks_and_limits(self):
        stdin = b"0 a 7\n1 a 5\n2 b 3\n"
        found = self.recommended("fixed-window:1/1m", "0%", stdin=stdin)
        self.assertEqual((found["limit"], found["peaks"]["most"], found["smallest"]), (12, 12, True))

    def test_of_costs_it_is_the_smallest_or_it_says_that_it_may_not_be(self):
        large_first = b"0 a 10\n" + b"".join(b"%d a 1\n" % ms for ms in range(1, 11))
        found = self.recommended("fixed-window:1/1m", "20%", stdin=large_first)  # from 10 on, the first leaves less room
        self.assertEqual((found["limit"], found["denied"]["requests"], found["smallest"]), (9, 2, True))
        self.assertGreater(self.lines("--rule", "fixed-window:12/1m", stdin=large_first)[1]["denied_most"][0]["denied"], 2)
        dear = b"".join(b"%d a %d\n" % (ms, 1 + ms * 7919 % 100000) for ms in range(1, 400))
        arguments = ("--rule", "fixed-window:1/1m", "--recommend", "30%")
        found = self.recommended(*arguments[1::2], stdin=dear)
        self.assertEqual(found["smallest"], False)
        self.assertIn(b"may be enough, too", run("simulate", *arguments, stdin=dear).stdout)

    def test_times_that_step_back_are_counted_as_without_it(self):
        stdin = b"5000 a\n4000 a\n4500 b\n6000 a\n5999 b\n"
        found = self.lines("--rule", "quota:1/1m", "--recommend", "0%", stdin=stdin)[1]
        plain = self.lines("--rule", "quota:1/1m", stdin=stdin)[0]
        self.assertEqual((plain["out_of_order"], plain["out_of_order_most_us"]), (3, 1000000))
        self.assertEqual(found, plain)

    def test_one_line_years_ahead_changes_no_limit(self):
        usual = [b"%d k%d\n" % (60000 + 50 * n, n % 13) for n in range(4000)]
        usual[1000:1000] = [b"%d k1\n" % (60000 + 50 * 1000)] * 20
        far = usual[:500] + [b"2000000000000 k2\n"] + usual[500:]
        for goal in ("keys:0%", "0.1%"):
            limits = [self.recommended("sliding-window:10/1m", goal, stdin=b"".join(lines))["limit"]
                      for lines in (usual, far)]
            self.assertEqual(*limits)

    def test_limits_that_are_no_rule_are_passed_over(self):
        for rule, least in (("token-bucket:100/1s,lease=20ms", 2), ("token-bucket:100/40d,burst=20", 2),
                            ("token-bucket:100/100d,burst=5,lease=20ms", 2), ("sliding-window:100/1m,lease=20ms", 1)):
            with self.subTest(rule):
                lines = self.lines("--rule", rule, "--recommend", "0%", stdin=b"1 a\n")
                self.assertEqual(lines[0]["limit"], least)
                self.assertEqual(lines[0]["denied_with_one_less"] is None, least > 1)
                self.assertEqual(len(lines), 4)  # the input, what was recommended, what was given
                text = run("simulate", "--rule", rule, "--recommend", "0%", stdin=b"1 a\n").stdout
                self.assertEqual(b"one less is no rule with these options" in text, least > 1)

    def test_a_goal_that_cannot_be_reached_says_why(self):
        stdin = b"".join(b"%d000 a 3\n%d000 b\n" % (s, s) for s in range(5))
        for rule, named in (("token-bucket:5/1h,burst=2", ("at once; 7 requests cost more", "admits 2 at")),
                            ("token-bucket:5/1m,burst=5,lease=1ms", ("denies", "keys"))):
            result = run("simulate", "--rule", rule, "--recommend", "0%", stdin=stdin + b"4000 a 3\n" * 2)
            self.assert_refused(result, "no limit is enough", rule, *named)

    def test_a_share_that_rests_on_one_client_says_so(self):
        crowd = b"".join(b"%d k%d\n" % (60000 + 600 * n + i, i) for n in range(10) for i in range(50))
        hammer = b"".join(b"%d bot\n" % (66000 + n) for n in range(5000))
        found = self.recommended("sliding-log:5/1m", "0.1%", stdin=crowd + hammer)
        self.assertEqual((found["limit"], found["denied"]), (4995, {"requests": 5, "keys": 1}))
        self.assertEqual(found["rests_on"], {"key": "bot", "denied_with_one_less": 6, "limit_by_keys": 5000})
        found = self.recommended("sliding-log:5/1m", "2%", stdin=crowd + hammer)
        self.assertEqual(found["rests_on"]["limit_by_keys"], 10)
        text = run("simulate", "--rule", "sliding-log:5/1m", "--recommend", "2%", stdin=crowd + hammer).stdout.decode()
        self.assertIn("111 of these would be of one key, on which this rests: bot\n", text)
        self.assertIn("  keys:2%, which counts each key once, gives sliding-log:10/1m", text)
        for goal in ("keys:2%", "key:k7"):
            self.assertIsNone(self.recommended("sliding-log:5/1m", goal, stdin=crowd + hammer)["rests_on"])
        self.assertIsNone(self.recommended("sliding-log:5/1m", "2%", stdin=LADDER)["rests_on"])

    def test_the_picture_has_all_limits_however_far_apart(self):
        hammering = LADDER + b"".join(b"61000 k100\n" for _ in range(20000))
        with tempfile.TemporaryDirectory() as folder:
            path = folder + "/peaks.svg"
            with tempfile.NamedTemporaryFile() as trace:
                trace.write(hammering)
                trace.flush()
                self.lines("--rule", "quota:5/1h", "--rule", "fixed-window:9/1h", "--recommend", "key:k9", "--plot",
                           path, trace.name)
            text = " ".join("".join(node.itertext()) for node in xml.parse(path).getroot().iter()
                            if node.tag.endswith("}text"))
        for part in ("quota:9/1h", "fixed-window:9/1h", "16384", "keys with so high a peak"):
            self.assertIn(part, text)

    def test_what_cannot_be_is_refused(self):
        for goal in ("0.1", "100%", "-1%", "0.00001%", "keys:", "key:", "client:1%", ""):
            self.assert_refused(run("simulate", "--rule", KINDS[0], "--recommend", goal, stdin=LADDER), "--recommend")
        for arguments, named in (((*("--rule", "quota:5/1m;quota:9/1h"), "--recommend", "1%"), "its own --rule"),
                                 (("--rule", "quota:5/1m", "--recommend", "key:nobody"), "never asks"),
                                 ((*("--rule", "quota:5/1m") * 6, "--recommend", "1%"), "up to 5"),
                                 (("--rule", "quota:5/1m", "--recommend", "1%", "--attack"), "--attack"),
                                 (("--rule", "quota:5/1m", "--top", "0"), "--top")):
            self.assert_refused(run("simulate", *arguments, stdin=LADDER), named)
        self.assert_refused(run("simulate", "--rule", KINDS[0], "--recommend", "1%"), "no request")


if __name__ == "__main__":
    unittest.main()
