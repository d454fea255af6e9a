"""weir simulate --duration: what was in flight at once, and what a limit on it would have denied."""

import json
import pathlib
import random
import sys
import tempfile
import unittest
import xml.etree.ElementTree as xml

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "cli"))

from program import ProgramTest, run  # noqa: E402

NGINX = ("--format", "$remote_addr $msec $request_time", "--duration", "$request_time")
BEGIN = 1764028800000  # ms

# As a server writes them, at their ends: a is in flight from 1 to 10, 3 to 4, 3.5 to 4.5 and 4.4 to 5.6,
# b from 4.5 to 5 and, once that is over, from 5 to 5.5.
KNOWN = [("a", 4000, 1000), ("a", 4500, 1000), ("b", 5000, 500), ("b", 5500, 500), ("a", 5600, 1200),
         ("a", 10000, 9000)]


def lines(requests):
    """Spans of (key, end, duration), in ms."""
    return "".join("%s %d.%03d %d.%03d\n" % (key, (BEGIN + end) // 1000, (BEGIN + end) % 1000, took // 1000,
                                             took % 1000) for key, end, took in requests).encode()


def most_at_once(requests, key=None):
    """By looking at every moment at which one begins. A request that takes no time is there for itself."""
    spans = sorted((end - took, took) for name, end, took in requests if key in (None, name))
    return max(1 + sum(begin <= at < begin + took for begin, took in spans[:i]) for i, (at, _) in enumerate(spans))


def decide(requests, limit):
    """The requests that are denied, told from the definition; and the same as a trace of replay."""
    inside, denied, trace = {}, [], []
    for at, took, key in sorted((end - took, took, key) for key, end, took in requests):
        held = inside.setdefault(key, [])
        for end in sorted(held):
            if end <= at:
                held.remove(end)
        if len(held) < limit:
            held.append(at + took)
            trace.append((at, 1, "%d %s\n" % (BEGIN + at, key)))
            # At one moment those who leave come first, but one who takes no time leaves behind its entry.
            trace.append((at + took, 0 if took else 1, "%d %s leave\n" % (BEGIN + at + took, key)))
        else:
            denied.append((key, at))
            trace.append((at, 1, "%d %s\n" % (BEGIN + at, key)))
    trace.sort(key=lambda line: line[:2])
    return denied, "".join(text for _, _, text in trace).encode()


def made_up(seed, count=800):
    draw = random.Random(seed)
    requests, at = [], 0
    for _ in range(count):
        at += draw.choice((0, 1, 1, 2, 10, 50))
        took = draw.choice((0, 1, 5, 20, 20, 100, 400, 5000))
        requests.append((draw.choice("aaaabbc") + draw.choice(("", "", str(draw.randrange(20)))), at + took, took))
    return sorted(requests, key=lambda request: request[1])


class Held(ProgramTest):
    def reports(self, *arguments, stdin):
        result = run("simulate", "--json", *arguments, stdin=stdin)
        self.assert_ends(result, 0)
        self.assertEqual(result.stderr, b"")
        return [json.loads(line) for line in result.stdout.splitlines()]

    def test_a_log_that_can_be_checked_by_hand(self):
        source, two, one = self.reports("--rule", "in-flight:2/10s", "--rule", "in-flight:1/10s", *NGINX,
                                        stdin=lines(KNOWN))
        self.assertEqual((source["requests"], source["first_us"], source["last_us"]),
                         (6, (BEGIN + 1000) * 1000, (BEGIN + 10000) * 1000))
        # The third of a begins at 3.5, while two are there; at 4.4 two are again, and b comes at 4.5.
        self.assertEqual((source["in_flight_most"], source["in_flight_most_us"]), (3, (BEGIN + 3500) * 1000))
        self.assertEqual(source["peaks"], {"p50": 1, "p90": 3, "p99": 3, "p99_9": 3, "most": 3})
        self.assertEqual(source["keys_most"], 2)
        self.assertEqual((two["requests"], two["allowed"], two["denied_keys"]), (6, 5, 1))
        self.assertEqual(two["denied_most"], [{"key": "a", "denied": 1, "first_us": (BEGIN + 3500) * 1000}])
        self.assertEqual(one["denied_most"], [{"key": "a", "denied": 3, "first_us": (BEGIN + 3000) * 1000}])
        text = run("simulate", "--rule", "in-flight:2/10s", *NGINX, stdin=lines(KNOWN)).stdout.decode()
        self.assertIn("in flight at once: up to 3 of all keys together, first at 2025-11-25 00:00:03.500 UTC", text)
        self.assertRegex(text, r"in-flight:2/10s +16\.667% +1 +1\n")
        self.assertIn("1 p50, 3 p90, 3 p99, 3 p99.9, 3 most\n", text)

    def test_what_limit_it_would_have_needed(self):
        for goal, key, limit, denied in (("keys:0%", (), 3, 0), ("20%", (), 2, 1), ("keys:50%", (), 1, 3),
                                         ("key:b", (), 1, 0), ("key:a", (), 3, 0), ("0%", ("--key", "all"), 3, 0),
                                         ("50%", ("--key", "all"), 2, 3)):
            found = self.reports("--rule", "in-flight:9/10s", *NGINX, *key, "--recommend", goal, stdin=lines(KNOWN))[0]
            self.assertEqual((goal, found["limit"], found["denied"]["requests"]), (goal, limit, denied))
            self.assertEqual((found["recommended"], found["smallest"]), (f"in-flight:{limit}/10s", True))
        rules = [line["rule"] for line in self.reports("--rule", "in-flight:9/10s", *NGINX, "--recommend", "20%",
                                                       stdin=lines(KNOWN))[2:]]
        self.assertEqual(rules, ["in-flight:2/10s", "in-flight:1/10s", "in-flight:9/10s"])

    def test_it_is_what_the_definition_says_and_what_replay_decides(self):
        for seed in range(4):
            requests = made_up(seed)
            limits = (1, 2, 3, 5, 9)
            arguments = [word for limit in limits for word in ("--rule", f"in-flight:{limit}/10s")]
            source, *rules = self.reports(*arguments, *NGINX, "--top", "100", stdin=lines(requests))
            self.assertEqual(source["in_flight_most"], most_at_once(requests))
            keys = {key for key, _, _ in requests}
            self.assertEqual(source["peaks"]["most"], max(most_at_once(requests, key) for key in keys))
            for limit, rule in zip(limits, rules):
                denied, trace = decide(requests, limit)
                count = {key: [at for name, at in denied if name == key] for key in keys}
                self.assertEqual({entry["key"]: (entry["denied"], entry["first_us"]) for entry in rule["denied_most"]},
                                 {key: (len(at), (BEGIN + at[0]) * 1000) for key, at in count.items() if at})
                self.assertEqual(rule["requests"] - rule["allowed"], len(denied))
                for entry in rule["denied_most"]:
                    self.assertEqual(entry["peak"], most_at_once(requests, entry["key"]))
                replayed = run("replay", "--rule", f"in-flight:{limit}/10s", "--deadline", "1s", stdin=trace)
                self.assert_ends(replayed, 0)
                verdicts = [line.split(b"\t") for line in replayed.stdout.splitlines()]
                self.assertEqual(sorted((key.decode(), int(time) - BEGIN) for time, key, _, verdict, *_ in verdicts
                                        if verdict == b"denied"), sorted(denied))

    def test_a_recommendation_is_the_smallest(self):
        requests = made_up(9)
        keys = len({key for key, _, _ in requests})
        for goal, share, of_keys in (("1%", 0.01, False), ("10%", 0.1, False), ("keys:10%", 0.1, True)):
            found = self.reports("--rule", "in-flight:1/10s", *NGINX, "--recommend", goal, stdin=lines(requests))[0]
            for limit, name in ((found["limit"], "denied"), (found["limit"] - 1, "denied_with_one_less")):
                denied, _ = decide(requests, limit)
                self.assertEqual(found[name], {"requests": len(denied), "keys": len({key for key, _ in denied})})
                enough = found[name]["keys"] <= share * keys if of_keys else len(denied) <= share * len(requests)
                self.assertEqual(enough, name == "denied")

    def test_costs_are_weights(self):
        log = b"".join(b'{"time":%d,"client":"a","took":%d,"bytes":%d}\n' % line
                       for line in ((BEGIN // 1000 + 3, 2, 4), (BEGIN // 1000 + 5, 5, 3), (BEGIN // 1000 + 6, 1, 9)))
        arguments = ("--format", "json", "--duration", "took", "--cost", "bytes")
        source, rule = self.reports("--rule", "in-flight:8/10s", *arguments, stdin=log)
        self.assertEqual((source["in_flight_most"], rule["cost"], rule["cost_allowed"]), (9, 16, 7))
        found = self.reports("--rule", "in-flight:8/10s", *arguments, "--recommend", "40%", stdin=log)[0]
        self.assertEqual((found["limit"], found["smallest"]), (7, False))
        most = run("simulate", "--rule", "in-flight:8/10s", *arguments, "--recommend", "0%",
                   stdin=log.replace(b'"bytes":9', b'"bytes":2000000000'))
        self.assert_refused(most, "no limit is enough")

    def test_what_is_logged_at_its_begin_and_in_other_units(self):
        # From 1 to 3 and from 2 to 3, however it is written down.
        apache = "[25/Nov/2025:00:00:%02d +0000]"
        logs = {
            ("--format", "%h %t %D", "--duration", "%D"): "a " + apache % 2 + " 1000000\na " + apache % 1 + " 2000000\n",
            ("--format", "%h %t %{ms}T", "--duration", "%{ms}T"): "a " + apache % 2 + " 1000\na " + apache % 1 + " 2000\n",
            ("--format", "%h %t %T", "--duration", "%T"): "a " + apache % 2 + " 1\na " + apache % 1 + " 2\n",
            ("--format", "%h %{begin:msec}t %T", "--duration", "%T"): f"a {BEGIN + 2000} 1\na {BEGIN + 1000} 2\n",
            ("--format", "%h %{end:msec}t %T", "--duration", "%T"): f"a {BEGIN + 3000} 1\na {BEGIN + 3000} 2\n",
            ("--format", "json", "--duration", "took/ms"):
                f'{{"ts":{BEGIN + 3000},"ip":"a","took":1000}}\n{{"ts":{BEGIN + 3000},"ip":"a","took":"2000"}}\n',
            ("--format", "json", "--duration", "t.ns/us"):
                f'{{"ts":{BEGIN + 3000},"ip":"a","t":{{"ns":1e6}}}}\n{{"ts":{BEGIN + 3000},"ip":"a","t":{{"ns":2000000}}}}\n',
        }
        for arguments, log in logs.items():
            with self.subTest(arguments):
                source, rule = self.reports("--rule", "in-flight:1/10s", *arguments, stdin=log.encode())
                self.assertEqual((source["first_us"], source["last_us"]), ((BEGIN + 1000) * 1000, (BEGIN + 3000) * 1000))
                self.assertEqual((source["in_flight_most"], source["in_flight_most_us"]), (2, (BEGIN + 2000) * 1000))
                self.assertEqual(rule["denied_most"][0]["first_us"], (BEGIN + 2000) * 1000)

    def test_a_line_without_a_duration_is_malformed(self):
        log = b"".join(b"a 1764028805.000 %s\n" % took for took in (b"-", b"0.1, 0.2", b"-1", b"x", b"99999999", b"3"))
        source, rule = self.reports("--rule", "in-flight:1/10s", *NGINX, stdin=log)
        self.assertEqual((source["requests"], source["malformed"], rule["allowed"]), (1, 5, 1))
        self.assertIn("--duration", source["malformed_first"][0]["reason"])
        # A field that is named twice is read twice.
        [_, rule] = self.reports("--rule", "in-flight:1/10s", *NGINX, "--cost", "$request_time",
                                 "--key", "$request_time", stdin=b"a 1764028805.000 3\n")
        self.assertEqual((rule["cost"], rule["denied_most"][0]["key"]), (3, "3"))

    def test_pictures_over_time_and_of_peaks(self):
        with tempfile.TemporaryDirectory() as folder, tempfile.NamedTemporaryFile() as log:
            log.write(lines(made_up(3)))
            log.flush()
            for arguments, named in (((), ("in flight at once, of key a", "in-flight:2/10s", "seconds since 2025-11-25")),
                                     (("--plot-key", "b"), ("of key b",)), (("--key", "all"), ("of key all",)),
                                     (("--recommend", "1%"), ("had in flight at once", "keys with so high a peak"))):
                path = folder + "/it.svg"
                self.reports("--rule", "in-flight:2/10s", *NGINX, "--plot", path, *arguments, log.name, stdin=b"")
                text = " ".join("".join(node.itertext()) for node in xml.parse(path).getroot().iter()
                                if node.tag.endswith("}text"))
                for part in named:
                    self.assertIn(part, text)
            result = run("simulate", "--rule", "in-flight:2/10s", *NGINX, "--plot", folder + "/no.svg", "--plot-key",
                         "nobody", log.name)
            self.assertEqual((result.returncode, b"no request to draw" in result.stderr), (2, True))

    def test_what_cannot_be_is_refused(self):
        rule = ("--rule", "in-flight:2/10s")
        for arguments, named in (((*rule, "--format", "%h %t %D", "--duration", "%T"), ('no "%T"', "%D")),
                                 ((*rule, "--format", "%h %t %D", "--duration", "status"), ("status", "took/ms")),
                                 ((*rule, "--duration", "$request_time"), ("as it stands",)),
                                 ((*rule, "--format", "json", "--duration", ""), ("--duration",)),
                                 (("--rule", "quota:2/10s", *NGINX), ("quota:2/10s", "in-flight")),
                                 (("--rule", "in-flight:2/10s;quota:2/10s", *NGINX), ("a stack",)),
                                 ((*rule, "--attack", "--duration", "x"), ("--attack",)),
                                 ((*rule, "--generate", "poisson", *NGINX), ("--generate",)),
                                 ((*rule, *NGINX, "--real", "$request_time"), ("--real",)),
                                 (rule, ("--duration FIELD",)),
                                 ((*rule, *NGINX[:2], "--recommend", "1%"), ("--duration FIELD",))):
            self.assert_refused(run("simulate", *arguments, stdin=lines(KNOWN)), *named)
        self.assert_refused(run("simulate", *rule, "--format", "json", "--duration", "x", "--recommend", "1%"), "no request")


if __name__ == "__main__":
    unittest.main()
