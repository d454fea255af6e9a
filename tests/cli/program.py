"""Runs the program under test and says what every run must obey."""

import os
import re
import socket
import subprocess
import unittest

PROGRAM = os.environ["WEIR_PROGRAM"]
RULE = "fixed-window:10/1m"
TIMEOUT_S = 120
ALLOWED, DENIED, USAGE, NO_DECISION = range(4)


# Patient, so that a busy machine does not run out of time in the middle of a decision.
STORE = "memory:?timeout=10s"
reserved = []  # sockets


def environment(**variables):
    """This process's, with STORE and without a rule unless `variables` says otherwise; None unsets."""
    inherited = {name: value for name, value in os.environ.items() if name != "WEIR_RULE"}
    wanted = {**inherited, "WEIR_STORE": STORE, **variables}
    return {name: value for name, value in wanted.items() if value is not None}


def run(*arguments, stdin=b"", stdout=subprocess.PIPE, **variables):
    """Runs weir with those variables in its environment; stdout and stderr come back as bytes."""
    return subprocess.run([PROGRAM, *arguments], input=stdin, stdout=stdout,
                          stderr=subprocess.PIPE, env=environment(**variables),
                          timeout=TIMEOUT_S, check=False)


def store_that_is_away():
    """The URL of a port that nobody listens at, nor can until this program ends."""
    reserved.append(socket.socket())
    reserved[-1].bind(("127.0.0.1", 0))
    return "memcached://127.0.0.1:%d?timeout=30s" % reserved[-1].getsockname()[1]


def said(stderr):
    """Without the warning of a long deadline, which tests give to stores that others might use, too."""
    return re.sub(rb"weir: warning: the deadline is [^\n]*, longer than 100ms: [^\n]*\n", b"", stderr)


class ProgramTest(unittest.TestCase):
    def assert_ends(self, result, status):
        self.assertEqual(result.returncode, status, result.stderr)

    def assert_error(self, result, status, *named):
        """One line on stderr that names what is wrong."""
        self.assert_ends(result, status)
        text = said(result.stderr).decode("ascii")
        self.assertTrue(text.startswith("weir: "), text)
        self.assertTrue(text.endswith("\n"), text)
        self.assertEqual(text.count("\n"), 1, text)
        self.assertFalse([c for c in text[:-1] if c < " " or c == "\x7f"], repr(text))
        for part in named:
            self.assertIn(part, text)

    def assert_refused(self, result, *named):
        """Bad input: exit status 2 and nothing on stdout."""
        self.assert_error(result, USAGE, *named)
        self.assertEqual(result.stdout, b"")

    def assert_output(self, result, status, pattern):
        self.assert_ends(result, status)
        self.assertEqual(said(result.stderr), b"")
        self.assertRegex(result.stdout, pattern)
