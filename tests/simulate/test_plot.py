"""weir simulate --plot: the picture that gnuplot draws."""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as xml

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "cli"))

from program import ProgramTest, run  # noqa: E402

RULES = ("--rule", "sliding-window:10/1m,cells=1", "--rule", "sliding-window:10/1m,cells=16")


class Plot(ProgramTest):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = os.path.join(self.folder.name, "it's a plot.svg")

    def tearDown(self):
        self.folder.cleanup()

    def draw(self, *arguments):
        result = run("simulate", "--plot", self.path, *arguments)
        self.assert_ends(result, 0)
        self.assertEqual(result.stderr, b"")
        texts = [text for _, text in self.texts()]
        return " ".join(texts)

    def texts(self):
        root = xml.parse(self.path).getroot()
        return [(node.tag, "".join(node.itertext()).strip()) for node in root.iter()
                if node.tag.endswith("}text")]

    def test_axes_panels_and_marks_have_names(self):
        text = self.draw(*RULES, "--generate", "bursts:requests=3000,keys=5,load=60")
        for name in ("truth", "estimate", "limit", "wrongly allowed", "wrongly denied", "in the last 1m",
                     "time in periods of 1m", "sliding-window:10/1m,cells=1",
                     "sliding-window:10/1m,cells=16"):
            self.assertIn(name, text)

    def test_the_key_that_is_asked_for_is_drawn(self):
        text = self.draw(*RULES, "--plot-key", "key3", "--generate", "poisson:requests=3000,keys=5")
        self.assertIn("key key3", text)

    def test_a_key_that_looks_like_a_command_stays_a_key(self):
        with tempfile.NamedTemporaryFile() as trace:
            key = "';system(\"touch${IFS}pwned\");'`touch${IFS}pwned2`"
            trace.write("".join(f"{i} {key}\n" for i in range(30)).encode())
            trace.flush()
            text = self.draw("--rule", "fixed-window:10/1m", trace.name)
        self.assertIn(r"\x27;system(", text)
        self.assertEqual(os.listdir(self.folder.name), ["it's a plot.svg"])
        self.assertFalse([name for name in os.listdir() if name.startswith("pwned")])

    def test_every_kind_of_rule_can_be_drawn(self):
        rules = [part for rule in ("quota:5/1m", "token-bucket:5/1m,burst=9", "leaky-bucket:5/1m,queue=2",
                                   "sliding-log:5/1m", "fixed-window:5/1m") for part in ("--rule", rule)]
        self.assertIn("sliding-log:5/1m", self.draw(*rules, "--generate", "pages:requests=2000,keys=3"))

    def test_what_is_many_times_the_limit_has_a_logarithmic_axis(self):
        with tempfile.NamedTemporaryFile() as trace:
            trace.write("".join(f"{60000 + i * 10} hammer\n" for i in range(9000)).encode())
            trace.flush()
            text = self.draw("--rule", "token-bucket:10/1m,burst=5000", "--rule", "fixed-window:10/1m", trace.name)
        self.assertIn(" 10000 ", text)
        self.assertRegex(text, "10000 .* 0 2 4 6 8 10 12 ")

    def test_marks_are_those_of_the_report_also_where_denied_requests_count(self):
        with tempfile.NamedTemporaryFile() as trace:
            trace.write("".join(f"{60000 + i * 10} hammer\n" for i in range(9000)).encode())
            trace.flush()
            for rule, wrong in (("sliding-window:10/1m,count=all", False), ("sliding-window:10/1m", True)):
                result = run("simulate", "--json", "--plot", self.path, "--rule", rule, trace.name)
                self.assertEqual(json.loads(result.stdout.splitlines()[1])["wrongly_denied"] > 0, wrong)
                uses = [node.get("{http://www.w3.org/1999/xlink}href") for node in
                        xml.parse(self.path).getroot().iter() if node.tag.endswith("}use")]
                self.assertEqual(len(uses) > 10, wrong)  # one or two are the legend's

    def test_the_marks_of_a_client_that_hammers_stay_apart(self):
        link = "{http://www.w3.org/1999/xlink}href"
        with tempfile.NamedTemporaryFile() as trace:
            trace.write("".join(f"{60000 + i * 10} hammer\n" for i in range(90000)).encode())
            trace.flush()
            self.draw("--rule", "sliding-window:500/1m,strict", trace.name)
        uses = [node for node in xml.parse(self.path).getroot().iter()
                if node.tag.endswith("}use") and "translate" in node.get("transform", "")]
        marks = {}
        for node in uses:
            place = re.search(r"translate\(([\d.]+),([\d.]+)\)", node.get("transform"))
            if float(place[2]) > 78:  # above stands the legend
                marks.setdefault(node.get(link), []).append(float(place[1]))
        self.assertGreater(max(map(len, marks.values())), 10)
        for alike in marks.values():  # 810 pixels are six periods
            self.assertLessEqual(len(alike), 93)
            apart = [right - left for left, right in zip(sorted(alike), sorted(alike)[1:])]
            self.assertGreaterEqual(min(apart, default=9), 8)

    def test_a_key_nobody_has_is_an_error(self):
        result = run("simulate", *RULES, "--plot", self.path, "--plot-key", "nobody", "--generate",
                     "poisson:requests=10", stdout=subprocess.DEVNULL)
        self.assert_error(result, 2, "no request")

    def test_a_place_that_cannot_be_written_is_an_error(self):
        result = run("simulate", *RULES, "--plot", "/no/such/folder/a.svg", "--generate",
                     "poisson:requests=10", stdout=subprocess.DEVNULL)
        self.assert_error(result, 2, "/no/such/folder/a.svg")

    def test_without_gnuplot_it_says_so_and_leaves_no_file(self):
        result = run("simulate", *RULES, "--plot", self.path, "--generate", "poisson:requests=10",
                     stdout=subprocess.DEVNULL, PATH="/no/such/folder")
        self.assert_error(result, 3, "gnuplot")
        self.assertFalse(os.path.exists(self.path))


if __name__ == "__main__":
    unittest.main()
