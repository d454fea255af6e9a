"""A memcached whose machine's clock is 100 days ahead. An item that lives for more than 30 days is stored
with a date. By the clock of a right machine it is gone as soon as it is stored."""

import os
import pathlib
import socket
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "serve"))

from doctor import DoctorTest, Proxy
from program import ALLOWED, DENIED, NO_DECISION, run
from server import Server, await_that

AHEAD_S = 100 * 86400
RULE = "fixed-window:3/40d"
CONFIG = """
listen:
  resp: {address: "127.0.0.1:0"}
  admin: {address: "127.0.0.1:0"}
stores:
  main: {url: "STORE"}
limiters:
  api: {store: main, rule: "%s"}
""" % RULE


class Memcached:
    """The members are those that doctor's Proxy looks at."""

    def __init__(self):
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.url = "memcached://127.0.0.1:%d" % self.port
        ahead = {"LD_PRELOAD": os.environ["WEIR_CLOCK_AHEAD"], "WEIR_CLOCK_AHEAD_S": str(AHEAD_S)}
        self.process = subprocess.Popen(["memcached", "-l", "127.0.0.1", "-p", str(self.port), "-u", "nobody"],
                                        env={**os.environ, **ahead})
        await_that(self.answers, "memcached")

    def answers(self):
        with socket.socket() as client:
            return client.connect_ex(("127.0.0.1", self.port)) == 0

    def connect(self):
        return socket.create_connection(("127.0.0.1", self.port))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()


def hide_clock(said):
    if b"stats\r\n" in said:
        raise Proxy.Cut
    return said


class ClockAhead(DoctorTest):
    def test_one_process_admits_no_more_than_the_limit(self):
        for protocol in ("auto", "classic"):
            with Memcached() as memcached:
                url = "%s?timeout=10s&protocol=%s" % (memcached.url, protocol)
                with Server(CONFIG.replace("STORE", url)) as server:
                    client = server.connect()
                    told = [client.ask("WEIR.TAKE", "api", "k") for _ in range(6)]
                    told = [dict(zip(one[::2], one[1::2])) for one in told]
                    client.close()
                    self.assertEqual([one["allowed"] for one in told], [1, 1, 1, 0, 0, 0])
                    self.assertNotIn("fallback", {one["source"] for one in told})
                    name = 'weir_server_clock_ahead_seconds{store="main",server="127.0.0.1:%d"}' % memcached.port
                    self.assertAlmostEqual(server.metric(name), AHEAD_S, delta=60)
                took = [run("take", "--store", url, "--rule", RULE, "k").returncode for _ in range(6)]
                self.assertEqual(took, 3 * [ALLOWED] + 3 * [DENIED])  # nor do several

    def test_where_its_clock_is_hidden_nothing_is_taken_for_counted(self):
        with Memcached() as memcached, Proxy(memcached, asked=hide_clock) as proxy:
            for protocol in ("auto", "classic"):
                took = run("take", "--store", proxy.url("timeout=10s&protocol=" + protocol), "--rule", RULE, "k")
                self.assert_error(took, NO_DECISION, "127.0.0.1:%d" % proxy.port, "its clock is ahead")
                found = self.inspect(proxy.url("timeout=10s&protocol=" + protocol), "--rule", RULE)
                self.assert_found(found, "fault", "expiry", "its clock is ahead")

    def test_doctor_finds_it(self):
        with Memcached() as memcached:
            for options in ((), ("--rule", RULE)):
                found = self.inspect(memcached.url + "?timeout=10s", *options)
                self.assert_faults(found, "clock")
                self.assert_found(found, "fault", "clock", "100.0 days ahead")
            found = self.inspect(memcached.url + "?timeout=10s", "--rule", "fixed-window:3/1h")
            self.assert_faults(found)
            self.assert_found(found, "warning", "clock", "ahead")


if __name__ == "__main__":
    unittest.main()
