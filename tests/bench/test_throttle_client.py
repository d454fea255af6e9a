"""The client of RESP that the server is measured with asks what it says, and counts what it is answered."""

import os
import subprocess
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "serve"))
from server import Server  # noqa: E402

CONFIG = """
listen:
  resp: {address: "127.0.0.1:0"}
stores:
  main: {url: "memory:?timeout=10s"}
throttle: {enabled: true, store: main}
"""


class ThrottleClient(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server(CONFIG)

    @classmethod
    def tearDownClass(cls):
        cls.server.end()

    def run_client(self, *arguments):
        """`arguments`: clients, depth, keys, requests, words."""
        return subprocess.run([os.environ["WEIR_THROTTLE_CLIENT"], str(self.server.ports["resp"][0]),
                               *map(str, arguments)], capture_output=True, text=True, timeout=60)

    def figures(self, *arguments):
        result = self.run_client(*arguments)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        rate, p50, p99, begun_otherwise = map(float, result.stdout.split())
        self.assertGreater(rate, 0)
        self.assertLessEqual(0, p50)
        self.assertLessEqual(p50, p99)
        return int(begun_otherwise)

    def test_every_request_is_answered_and_denials_are_counted(self):
        # A bucket of five that is full again in 400 days: of 300 requests each of three keys admits five.
        for name, clients, depth in (("one", 1, 1), ("many", 7, 1), ("deep", 3, 64)):
            rule = ["CL.THROTTLE", name + ":#", 4, 5, 400 * 86400]
            self.assertEqual(self.figures(clients, depth, 3, 300, *rule), 300 - 3 * 5)
            self.assertEqual(self.figures(clients, depth, 3, 300, *rule), 300)

    def test_a_line_is_an_answer_too(self):
        self.assertEqual(self.figures(5, 4, 1, 1000, "PING"), 0)

    def test_what_is_answered_by_an_error_ends_it(self):
        for words, said in ((["CL.THROTTLE", "a", 0, 0, 1], "Zero rates are not supported"),
                            (["WEIR.TAKE", "none", "a"], "there is no limiter of this name"),
                            (["PING", "text"], "$4")):
            result = self.run_client(1, 1, 1, 1, *words)
            self.assertEqual((result.returncode, result.stdout), (1, ""))
            self.assertIn(said, result.stderr)

    def test_numbers_out_of_range_are_refused(self):
        for arguments in ((0, 1, 1, 1, "PING"), (1, 65, 1, 1, "PING"), (1, 1, 1, "x", "PING"), (1, 1, 1, 1)):
            self.assertEqual(self.run_client(*arguments).returncode, 1)


if __name__ == "__main__":
    unittest.main(verbosity=2)
