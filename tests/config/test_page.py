"""docs/configuration.md has every key that is accepted, and none that is not; its example is good,
and so are those of README.md and docs/serve.md."""

import os
import pathlib
import re
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "configuration.md").read_text()

GOOD = 'listen: {%s}\nstores: {m: {url: "memory:"%s}}\nlimiters: {a: {rule: "quota:1/s"%s}}\n%s\n'

DESCRIPTORS = tempfile.NamedTemporaryFile("w", suffix=".yaml")
DESCRIPTORS.write("domain: d\n")
DESCRIPTORS.flush()

# Section of the page: what stands in the four places of GOOD, so that one key is unknown.
UNKNOWN = {
    "The file": ("resp: {}", "", "", "zzzzzzzzzzzz: 1"),
    "listen": ("http: {zzzzzzzzzzzz: 1}", "", "", ""),
    "stores": ("resp: {}", ", zzzzzzzzzzzz: 1", "", ""),
    "limiters": ("resp: {}", "", ", zzzzzzzzzzzz: 1", ""),
    "throttle": ("resp: {}", "", "", "throttle: {zzzzzzzzzzzz: 1}"),
    "envoy": ("resp: {}", "", "", "envoy: {files: %s, zzzzzzzzzzzz: 1}" % DESCRIPTORS.name),
    "envoy.domains": ("resp: {}", "", "", "envoy: {files: %s, domains: {d: {zzzzzzzzzzzz: 1}}}" % DESCRIPTORS.name),
    "log": ("resp: {}", "", "", "log: {zzzzzzzzzzzz: 1}"),
    "limits": ("resp: {}", "", "", "limits: {zzzzzzzzzzzz: 1}"),
    "places": ("resp: {}", "", "", "places: {zzzzzzzzzzzz: 1}"),
}


def check(text):
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(text)
        file.flush()
        return subprocess.run([os.environ["WEIR_PROGRAM"], "check", file.name], capture_output=True,
                              text=True, timeout=60, check=False)


def accepted_keys(places):
    result = check(GOOD % places)
    assert result.returncode == 2 and result.stderr.count("\n") == 1, result
    listed = re.search(r"accepted are (.*)$", result.stderr.strip()).group(1)
    return set(re.split(r", | and ", listed))


def told_keys(section):
    text = re.split(r"^## ", PAGE, flags=re.MULTILINE)
    body = next(part for part in text if part.startswith(section + "\n"))
    rows = re.findall(r"^\| ((?:`[a-z_0-9]+`(?:, )?)+) \|", body, re.MULTILINE)
    return {key for row in rows for key in re.findall(r"`([^`]+)`", row)}


class Page(unittest.TestCase):
    def test_every_key_is_told_and_no_other(self):
        for section, places in UNKNOWN.items():
            with self.subTest(section=section):
                self.assertEqual(told_keys(section), accepted_keys(places))

    def test_the_example_is_good(self):
        example = re.search(r"```yaml\n(.*?)```", PAGE, re.DOTALL).group(1)
        result = check(example)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertIn("good: listeners 3, stores 1, limiters 2 with 3 different rules", result.stdout)

    def test_shorter_examples_are_good(self):
        for name in ("README.md", "docs/serve.md"):
            with self.subTest(page=name):
                example = re.search(r"```yaml\n(.*?)```", (ROOT / name).read_text(), re.DOTALL).group(1)
                result = check(example)
                self.assertEqual((result.returncode, result.stderr), (0, ""))

    def test_the_example_of_the_help_is_good(self):
        told = subprocess.run([os.environ["WEIR_PROGRAM"], "help", "serve"], capture_output=True, text=True, timeout=60,
                              check=True).stdout
        example = "\n".join(line.strip() for line in told.splitlines() if re.match(r" {4}\w+: \{", line))
        self.assertEqual(example.count("\n"), 2)
        self.assertEqual(check(example).returncode, 0)

    def test_faults_are_lines_on_stderr(self):
        result = check("loops: 0\nlimiters: 1\n")
        self.assertEqual(result.returncode, 2)
        self.assertEqual(result.stdout, "")
        places = [re.search(r"\.yaml:(\d+:\d+): ", line).group(1) for line in result.stderr.splitlines()]
        self.assertEqual(places, ["1:1", "1:1", "1:8", "2:11"])


if __name__ == "__main__":
    unittest.main()
