"""weir simulate --class: requests of classes, held against windows that this file counts itself."""

import json
import pathlib
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "cli"))

from program import ProgramTest, run  # noqa: E402

BEGIN_S = 1764028800
WINDOW = "fixed-window:100/1m,classes=batch:60%|free:80"
PARTS = {"batch": 60, "free": 80, None: 100}


def requests(count, seed=1):
    """(second, key, class, cost), the same on every run; some are of no class."""
    made, state, now = [], seed, BEGIN_S
    for _ in range(count):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        draw = state >> 33
        now += draw % 3 == 0
        made.append((now, "k%d" % (draw // 3 % 4), ("batch", "free", None)[draw // 12 % 3], 1 + draw // 36 % 5))
    return made


def lines(made):
    return b"".join(json.dumps({"time": now, "user": key, "class": of or "-", "cost": cost}).encode() + b"\n"
                    for now, key, of, cost in made)


def by_fixed_windows(made, parts):
    """Of each class what was asked and admitted, by windows of a minute."""
    counts, asked, admitted = {}, dict.fromkeys(parts, 0), dict.fromkeys(parts, 0)
    for now, key, of, cost in made:
        asked[of] += cost
        window = (key, now // 60)
        if counts.get(window, 0) + cost <= parts[of]:
            counts[window] = counts.get(window, 0) + cost
            admitted[of] += cost
    return asked, admitted


OF_LOG = ("--format", "json", "--key", "user", "--cost", "cost", "--class", "class")


class Classes(ProgramTest):
    def reports(self, *arguments, stdin=b""):
        result = run("simulate", "--json", *arguments, stdin=stdin)
        self.assert_ends(result, 0)
        return [json.loads(line) for line in result.stdout.splitlines()]

    def refused(self, says, *arguments, stdin=b""):
        result = run("simulate", *arguments, stdin=stdin)
        self.assert_ends(result, 2)
        self.assertEqual(len(result.stderr.splitlines()), 1)
        self.assertIn(says, result.stderr)

    def test_a_fixed_window_decides_as_counted_here(self):
        made = requests(20000)
        asked, admitted = by_fixed_windows(made, PARTS)
        plain, rule = self.reports("--rule", "fixed-window:100/1m", "--rule", WINDOW, *OF_LOG, stdin=lines(made))[1:]
        self.assertEqual([one["class"] for one in rule["classes"]], ["batch", "free", None])
        for one in rule["classes"]:
            self.assertEqual((one["limit"], one["cost"], one["cost_allowed"]),
                             (PARTS[one["class"]], asked[one["class"]], admitted[one["class"]]))
            self.assertEqual(one["cost_kept_denied"], 0)
            self.assertLess(one["cost_allowed"], one["cost"])  # each was denied some
        self.assertEqual(rule["cost_allowed"], sum(admitted.values()))
        self.assertNotIn("classes", plain)
        # Held against an exact window by class: at the edges of windows alone they differ.
        self.assertGreater(rule["wrongly_allowed"], 0)

    def test_nothing_is_denied_of_what_is_kept(self):
        classes = ",classes=batch:20%|free:50%"
        for rule in ("sliding-window:60/1m", "sliding-window:60/1m,cells=1", "sliding-window:60/1m,cells=32,strict",
                     "fixed-window:60/1m", "quota:60/1m", "token-bucket:60/1m,burst=20", "leaky-bucket:60/1m,queue=19",
                     "sliding-log:60/1m"):
            for kind in ("bursts", "poisson", "boundary"):
                made_up = kind + ":keys=4,requests=12000,classes=70" + (",load=300" if kind != "boundary" else "")
                with self.subTest(rule, kind=kind):
                    low, mid, rest = self.reports("--rule", rule + classes, "--generate", made_up)[1]["classes"]
                    self.assertEqual([one["cost_kept_denied"] for one in (low, mid, rest)], [0, 0, 0])
                    self.assertLess(low["cost_allowed"], low["cost"])
                    # The lower a class, the more of it is denied.
                    shares = [one["cost_allowed"] / one["cost"] for one in (low, mid, rest)]
                    self.assertEqual(shares, sorted(shares))

    def test_it_is_the_same_every_time_and_for_any_number_of_keys(self):
        # More keys than stand ready: most are packed between their requests.
        made = requests(6000, seed=7)
        made = [(now, "%s-%d" % (key, i % 700), of, cost) for i, (now, key, of, cost) in enumerate(made)]
        _, admitted = by_fixed_windows(made, {"batch": 3, "free": 5, None: 6})
        arguments = ("--rule", "fixed-window:6/1m,classes=batch:3|free:5", *OF_LOG)
        found = self.reports(*arguments, stdin=lines(made))
        self.assertEqual(found, self.reports(*arguments, stdin=lines(made)))
        self.assertEqual({one["class"]: one["cost_allowed"] for one in found[1]["classes"]}, admitted)
        self.assertEqual([one["cost_kept_denied"] for one in found[1]["classes"]], [0, 0, 0])

    def test_a_field_of_a_pattern_and_a_text_report(self):
        log = (b"192.0.2.1 1764028800.000 batch\n192.0.2.1 1764028800.500 batch\n"
               b"192.0.2.1 1764028801.000 -\n192.0.2.1 1764028802.000 free\n")
        result = run("simulate", "--rule", "fixed-window:10/1m,classes=batch:1|free:9", "--format",
                     "$remote_addr $msec $upstream_http_x_class", "--class", "$upstream_http_x_class", stdin=log)
        self.assert_ends(result, 0)
        self.assertRegex(result.stdout, rb"\n  batch +1 +2 +1   +50\.000% +-\n  free +9 +1 +1 +0\.000% +0\n  - +10 +1 +1 +")

    def test_a_picture_of_a_rule_with_classes(self):
        with tempfile.TemporaryDirectory() as folder:
            log, picture = folder + "/log", folder + "/picture.svg"
            pathlib.Path(log).write_bytes(lines(requests(2000)))
            self.assert_ends(run("simulate", "--rule", WINDOW, *OF_LOG, "--plot", picture, log), 0)
            drawn = pathlib.Path(picture).read_text()
            self.assertIn(">batch<", drawn)
            self.assertIn(">free<", drawn)

    def test_what_is_no_class(self):
        good, bad = (b'{"time": 1764028800, "client": "a", "class": "%s"}\n' % name for name in (b"batch", b"gold"))
        of_log = ("--format", "json", "--class", "class")
        self.refused(b'weir: stdin:3: the class "gold" is none of the rule: accepted are batch and free, or none',
                     "--rule", WINDOW, *of_log, stdin=good + good + bad)
        self.refused(b"accepted are batch and free", "--rule", WINDOW, *of_log, stdin=good.replace(b"batch", b"batch" * 999))
        self.refused(b"--class: no --rule has classes=", "--rule", "quota:5/1d", *of_log, stdin=good)
        self.refused(b'--class "bytes": accepted are client, user,', "--rule", WINDOW, "--class", "bytes", stdin=good)
        self.refused(b"a trace names its keys and costs itself", "--rule", WINDOW, "--class", "user", stdin=b"1 a\n")
        self.refused(b"--key, --cost or --class: ", "--rule", WINDOW, "--format", "$remote_addr $msec", "--class", "$plan")
        self.refused(b"classes= needs a rule that has some", "--rule", "quota:5/1d", "--generate", "poisson:classes=9")
        for name in (("--attack",), ("--generate", "poisson"), ("--recommend", "1%"), ("--real", "bytes"),
                     ("--duration", "took")):
            rule = "in-flight:5/1m,classes=batch:60%" if name[0] == "--duration" else WINDOW
            self.refused(b"--class is for logs: %s does not go with it" % name[0].encode(), "--rule", rule, *of_log, *name)


if __name__ == "__main__":
    unittest.main()
