"""The log: its form, and that nothing waits for who reads it.

    python3 tests/serve/test_log.py 60

leaves it unread for a minute, not for two seconds (with WEIR_PROGRAM)."""

import contextlib
import json
import os
import re
import signal
import sys
import threading
import time
import unittest

from server import BASE, PATIENCE_S, Server, await_that, http
from test_http import get

UNREAD_S = float(sys.argv.pop(1)) if len(sys.argv) > 1 and sys.argv[1].isdigit() else 2
WAIT_MOST_S = 5  # for twenty answers, on a busy machine: one that waits for the log waits for ever
TIME = r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"
DENIES = BASE.replace("limiters:\n", """limiters:
  none: {store: main, rule: "quota:1/1d", log_keys: plain}
""") + "limits: {logged_denials: 1000000}\nloops: 2\n"


class Piped(Server):
    """Its log is a pipe, which is read until unread() and again from read() on."""

    def open_log(self):
        self.readable, writable = os.pipe()
        self.copy = open(self.log_path, "wb", buffering=0)
        self.may_read = threading.Event()
        self.may_read.set()
        self.reader = threading.Thread(target=self.read_on)
        self.reader.start()
        return open(writable, "wb")

    def read_on(self):
        while self.may_read.wait():
            data = os.read(self.readable, 1 << 16)
            self.copy.write(data)
            if not data:
                return

    def unread(self):
        self.may_read.clear()

    def read(self):
        self.may_read.set()

    def release(self):
        self.log_file.close()  # the last who may write
        self.read()
        self.reader.join(PATIENCE_S)
        self.copy.close()
        os.close(self.readable)
        super().release()


class Full(Server):
    """Its log can take nothing."""

    def open_log(self):
        return open("/dev/full", "wb")

    def log(self):
        return ""

    def await_start(self, config):
        ports = [held.getsockname()[1] for held in self.reserved]
        self.ports = {name: [port] for name, port in zip(("resp", "http", "admin"), ports)}

        def answers():
            with contextlib.suppress(OSError), contextlib.closing(self.connect()) as client:
                return client.ask("PING") == "+PONG"
            return False
        await_that(answers, "start")


class Unread(unittest.TestCase):
    def ask_on(self, server, protocol, request, until, longest):
        client = server.connect(protocol)
        while time.monotonic() < until:
            began = time.monotonic()
            for _ in range(20):
                client.send(request)
            for _ in range(20):
                if protocol == "resp":
                    client.reply()
                else:
                    http(client, "")
            longest.append(time.monotonic() - began)
        client.close()

    def load(self, server, seconds):
        """The longest that somebody waited for twenty answers."""
        longest, until = [], time.monotonic() + seconds
        request = "*3\r\n$9\r\nWEIR.TAKE\r\n$4\r\nnone\r\n$1\r\nk\r\n"
        asks = [("resp", request)] * 2 + [("http", get("/check/none?key=k"))] * 2 + [("admin", get("/healthz"))]
        threads = [threading.Thread(target=self.ask_on, args=(server, *ask, until, longest)) for ask in asks]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return max(longest)

    def test_nothing_waits_for_it(self):
        with Piped(DENIES) as server:
            server.unread()
            await_that(lambda: self.load(server, 0.5) and server.metric("weir_serve_log_lines_lost_total") > 0,
                       "the pipe to be full")
            before = server.metric("weir_serve_log_lines_lost_total")
            longest = self.load(server, UNREAD_S)
            self.assertLess(longest, WAIT_MOST_S)
            lost = server.metric("weir_serve_log_lines_lost_total")
            self.assertLess(before, lost)
            print("unread for %g s: nobody waited longer than %.3f s, %d lines lost" % (UNREAD_S, longest, lost))
            server.write(server.config.replace("quota:3/1d", "quota:4/1d"))  # what says more than a line
            server.process.send_signal(signal.SIGHUP)
            await_that(lambda: server.metric('weir_serve_reloads_total{result="used"}') > 0, "the reload")
            server.process.send_signal(signal.SIGTERM)
            began = time.monotonic()
            self.assertEqual(server.process.wait(PATIENCE_S), 0)
            self.assertLess(time.monotonic() - began, 5)

    def test_what_is_lost_is_said_when_it_is_read_again(self):
        with Piped(DENIES) as server:
            server.unread()
            await_that(lambda: self.load(server, 0.5) and server.metric("weir_serve_log_lines_lost_total") > 0,
                       "the pipe to be full")
            server.read()
            await_that(lambda: "lines are not in this log" in server.log(), "the end of what waited")
            lost = server.metric("weir_serve_log_lines_lost_total")
            told = sum(int(n) for n in re.findall(r"weir: (\d+) lines are not in this log\n", server.log()))
            self.assertEqual(told, lost)
            denied = server.metric('weir_serve_answers_total{decision="denied"}')
            await_that(lambda: server.log().count(" denied limiter=none ") + lost == denied, "every line")
            for line in server.log().splitlines():
                self.assertRegex(line, "^%s weir: " % TIME)

    def test_a_full_disk_is_counted(self):
        with Full(DENIES) as server:
            client = server.connect()
            for _ in range(100):
                client.ask("WEIR.TAKE", "none", "k")
            client.close()
            await_that(lambda: server.metric("weir_serve_log_lines_lost_total") >= 99, "lines to be counted")


class Form(unittest.TestCase):
    def test_lines_are_json_where_it_is_said(self):
        with Server(DENIES + "log: {format: json}\n") as server:
            client = server.connect()
            for _ in range(2):
                client.ask("WEIR.TAKE", "none", 'a"b\\c\u00e9')
            client.close()
            server.await_log('"denied"')
            lines = [json.loads(line) for line in server.log().splitlines()]
            for line in lines:
                self.assertRegex(line["time"], "^%s$" % TIME)
            self.assertEqual(lines[0]["message"][:12], "listening at")
            told = lines[-1]
            self.assertLess(0, told.pop("retry_after_us"))
            del told["time"], told["source"]
            self.assertEqual(told, {"message": "denied", "limiter": "none", "key": 'a\\x22b\\x5cc\\xe9',
                                    "protocol": "resp", "cost": 1})
            server.write(server.config.replace("json", "text"))
            server.await_log("weir: %s is in use now" % server.file)

    def test_a_request_is_named_by_its_id(self):
        named = {"a": ["a"], "A b-{1}": ["A b-{1}"], "x" * 64: ["x" * 64], "none": []}
        wrong = {"long": ["x" * 65], "empty": [""], "quote": ['a" source="b'], "backslash": ["a\\"],
                 "tab": ["a\tb"], "wide": ["\u00e9"], "twice": ["a", "b"],
                 "again": ["a", "a"]}
        for form in ("text", "json"):
            with Server(DENIES + "log: {format: %s}\n" % form) as server:
                client = server.connect("http")
                for i, ids in enumerate([*named.values(), *wrong.values()]):
                    ask = get("/check/none?key=%d" % i, *("x-Request-ID: " + one for one in ids))
                    self.assertEqual([http(client, ask)[0] for _ in range(2)], [200, 429])
                client.close()
                server.await_log("denied", len(named) + len(wrong))
                lines = [line for line in server.log().splitlines() if "denied" in line]
            told = [json.loads(line).get("request_id") for line in lines] if form == "json" else \
                [re.search('source=store(?: request_id="([^"]*)")?$', line).group(1) for line in lines]
            self.assertEqual(told, ["a", "A b-{1}", "x" * 64] + [None] * (1 + len(wrong)), form)


if __name__ == "__main__":
    unittest.main()
