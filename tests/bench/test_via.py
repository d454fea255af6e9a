"""weir bench --via: a server of weir is measured as stores are."""

import json
import os
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "cli"), os.path.join(HERE, "..", "serve")]
from program import ProgramTest, run  # noqa: E402
from server import Server  # noqa: E402

CONFIG = """
listen:
  resp: {address: "127.0.0.1:0"}
  http: {address: "127.0.0.1:0", denied_status: 403}
  grpc: {address: "127.0.0.1:0"}
stores:
  main: {url: "memory:?timeout=10s"}
  away: {url: "memcached://127.0.0.1:1", fallback: none}
limiters:
  api: {store: main, rule: "fixed-window:5/400d"}
  big: {store: main, rule: "fixed-window:1000000000/400d"}
  plain: {store: main, rule: "fixed-window:5/400d", headers: off}
  gone: {store: away, rule: "fixed-window:5/400d"}
envoy: {files: "FOLDER/*.rls", domains: {main: {store: main}, away: {store: away}}}
"""
FILES = {name: "domain: %s\ndescriptors:\n" % name +
         "".join("  - {key: %s, rate_limit: {unit: year, requests_per_unit: %d}}\n" % pair
                 for pair in (("api", 5), ("plain", 5), ("big", 10**9), ("gone", 5)))
         for name in ("main", "away")}


FOLDER = tempfile.TemporaryDirectory(prefix="weir-via-")


def start(text):
    """A server, and the files of its descriptors."""
    for name, file in FILES.items():
        with open(os.path.join(FOLDER.name, name + ".rls"), "w", encoding="ascii") as made:
            made.write(file)
    return Server(text.replace("FOLDER", FOLDER.name))


BRIEF = ["--duration", "100ms", "--rounds", "1", "--quiet"]


class Via(ProgramTest):
    @classmethod
    def setUpClass(cls):
        cls.server = start(CONFIG)
        cls.resp = "redis://127.0.0.1:%d" % cls.server.ports["resp"][0]
        cls.http = "http://127.0.0.1:%d" % cls.server.ports["http"][0]

        cls.grpc = "grpc://127.0.0.1:%d" % cls.server.ports["grpc"][0]

    @classmethod
    def tearDownClass(cls):
        cls.server.end()

    def lines(self, *options):
        result = run("bench", *BRIEF, "--json", *options)
        self.assertEqual((result.returncode, result.stderr), (0, b""))
        return [json.loads(line) for line in result.stdout.splitlines()]

    def refused(self, url, status):
        result = run("bench", *BRIEF, "--via", url)
        self.assertEqual((result.returncode, result.stdout), (status, b""))
        self.assertEqual(result.stderr.count(b"\n"), 1)
        return result.stderr.decode()

    def test_both_protocols_are_measured_beside_stores(self):
        found = self.lines("--via", self.resp + "/big", "--via", self.http + "/big", "--baseline",
                           "--threads", "3", "--keys", "50", "--store", "memory:", "--rule",
                           "quota:1000000000/1d")
        self.assertEqual([(line["store"].split(":")[0], line["raw_loop"]) for line in found],
                         [("memory", False), ("redis", False), ("redis", True), ("http", False)])
        self.assertEqual([line["rule"] is None for line in found], [False, True, True, True])
        for line in found:
            self.assertGreater(line["median"]["decisions_per_second"], 0)
        for line in (found[1], found[3]):
            self.assertEqual(line["median"]["late_share"], 0)
            self.assertGreater(line["median"]["admitted"], 50)
        self.assertIn("ratio_to_raw_loop", found[1])
        self.assertNotIn("ratio_to_raw_loop", found[3])

    def test_what_the_server_admits_is_counted(self):
        for url in (self.resp + "/api", self.http + "/api", self.http + "/plain", self.grpc + "/main/api"):
            for batch in ("1", "16"):
                line = self.lines("--via", url, "--hot", "--batch", batch, "--threads", "2")[0]
                self.assertEqual(line["median"]["admitted"], 5, (url, batch))

    def test_the_largest_batch_leaves_in_one_write(self):
        for url in (self.resp, self.http, self.grpc + "/main"):
            line = self.lines("--via", url + "/big", "--batch", "1024")[0]
            self.assertGreaterEqual(line["median"]["admitted"], 1024)

    def test_requests_without_a_decision_are_late(self):
        for url in (self.resp, self.http, self.grpc + "/away"):
            line = self.lines("--via", url + "/gone", "--hot")[0]["median"]
            self.assertEqual((line["late_share"], line["admitted"]), (1, 0))

    def test_credentials_of_the_url_are_shown_to_the_server_alone(self):
        closed = CONFIG.replace('resp: {', 'resp: {auth: {bench: hidden}, ')
        closed = closed.replace('http: {', 'http: {auth: hidden, ').replace('grpc: {', 'grpc: {auth: hidden, ')
        with start(closed) as server:
            resp, http, grpc = (server.ports[name][0] for name in ("resp", "http", "grpc"))
            found = self.lines("--via", f"redis://bench:hidden@127.0.0.1:{resp}/big", "--via",
                               f"http://:hidden@127.0.0.1:{http}/big", "--via",
                               f"grpc://:hidden@127.0.0.1:{grpc}/main/big")
            self.assertEqual([line["store"].count("hidden") for line in found], [0, 0, 0])
            self.assertIn("status 16", self.refused(f"grpc://127.0.0.1:{grpc}/main/big", 3))
            self.assertIn("NOAUTH", self.refused(f"redis://127.0.0.1:{resp}/big", 3))
            self.assertIn("401", self.refused(f"http://127.0.0.1:{http}/big", 3))
            wrong = self.refused(f"redis://bench:guessed@127.0.0.1:{resp}/big", 3)
            self.assertIn("refuses the credentials", wrong)
            self.assertNotIn("guessed", wrong)

    def test_what_is_wrong_is_said(self):
        self.assertIn("no limiter of this name", self.refused(self.resp + "/nobody", 3))
        self.assertIn("404", self.refused(self.http + "/nobody", 3))
        for url in (self.resp, self.http + "/", self.http + "/a/b", self.resp + "/" + 65 * "x"):
            self.assertIn("--via: the path must be the name of a limiter", self.refused(url, 2))
        for url in (self.grpc, self.grpc + "/main", self.grpc + "/main/", self.grpc + "/a/b/c", self.grpc + "//b"):
            self.assertIn("--via: the path must be a domain and a key", self.refused(url, 2))
        self.assertIn("accepted are redis, http", self.refused("https://127.0.0.1/api", 2))
        for scheme in ("redis", "http"):
            self.assertEqual(self.refused(scheme + "://127.0.0.1:1/api", 3),
                             "weir: --via 127.0.0.1:1: connect: Connection refused\n")
        store = run("bench", *BRIEF, "--store", "redis://127.0.0.1:1", "--rule", "quota:1/1d")
        self.assertIn(b"the store cannot be reached", store.stderr)

    def test_a_store_needs_a_rule_all_the_same(self):
        result = run("bench", "--via", self.resp + "/big", "--store", "memory:")
        self.assertEqual(result.returncode, 2)
        self.assertIn(b"no rule", result.stderr)

    def test_no_more_than_eight(self):
        result = run("bench", *(9 * ["--via", self.resp + "/big"]))
        self.assertEqual(result.returncode, 2)
        self.assertIn(b"--via is given more than 8 times", result.stderr)


if __name__ == "__main__":
    unittest.main()
