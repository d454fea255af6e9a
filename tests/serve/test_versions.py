"""A roll-out: servers of two versions side by side on the same keys, each first, with leases held. Together
they admit the limit, and both read the same of what is left.

The check runs one version twice. Two versions run by:

    WEIR_OLD_PROGRAM=OLD/weir ctest --preset dev -R '^serve/versions$'

tests/house/wire_forms.py holds what one version writes to what the one before wrote."""

import json
import os
import re
import signal
import subprocess
import unittest

import server
from server import PATIENCE_S, PROGRAM, Store, command, http

OLD = os.environ.get("WEIR_OLD_PROGRAM", PROGRAM)
# Their windows end long after the test, and buckets fill by nothing meanwhile.
RULES = {
    "fixed": "fixed-window:200/300d",
    "fixed-leased": "fixed-window:2000/300d,lease=1s",
    "four-lanes": "sliding-window:200/300d,lease=1s",
    "two-lanes": "sliding-window:2000/300d,lease=1s",
    "cells": "sliding-window:200/300d,cells=16,debt=50",
    "one-cell": "sliding-window:200/300d,cells=1,strict",
    "log": "sliding-log:100/300d",
    "quota": "quota:200/300d",
    "quota-leased": "quota:2000/300d,lease=1s",
    "bucket": "token-bucket:200/300d",
    "bucket-leased": "token-bucket:2000/300d,lease=1s",
    "stack": "quota:200/300d;sliding-window:500/300d;fixed-window:900/300d",
}
PROCESSES = 4
CONFIG = """
listen: {resp: {address: "127.0.0.1:0"}, admin: {address: "127.0.0.1:0"}}
stores: {main: {url: "%s", processes: """ + str(PROCESSES) + """, fallback: none}}
limiters:
""" + "".join(f'  {name}: {{rule: "{rule}"}}\n' for name, rule in RULES.items())


def start(program, config):
    server.PROGRAM = program
    return server.Server(config)


def take(client, limiter, key, cost, times):
    """How many of so many requests are admitted."""
    client.send(command("WEIR.TAKE", limiter, key, "COST", cost) * times)
    replies = [client.reply() for _ in range(times)]
    assert all(isinstance(reply, list) for reply in replies), replies
    return sum(cost for reply in replies if reply[:2] == ["allowed", 1])


def take_rest(client, limiter, key, cost):
    admitted = 0
    while taken := take(client, limiter, key, cost, 1 if cost > 1 else 8):
        admitted += taken
    return admitted


def leased(one):
    """The cost that a server has charged ahead so far, under all rules."""
    client = one.connect("admin")
    body = http(client, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")[1]
    client.close()
    return sum(map(int, re.findall(r'^weir_lease_cost_total\{.*fate="charged".*\} (\d+)$', body, re.MULTILINE)))


def peek(program, url, name, key):
    done = subprocess.run([program, "peek", "--json", "--store", url, "--rule", RULES[name], "--processes",
                           str(PROCESSES), "--deadline", "10s", f"{name}:{key}"], capture_output=True,
                          timeout=PATIENCE_S, check=False)
    told = json.loads(done.stdout)
    return told["remaining"], told["limit"]


class Versions(unittest.TestCase):
    def spend(self, first, second):
        """Both in turn, so that each holds what it has leased while the other asks; then all that is left."""
        admitted = {}
        for name in RULES:
            cost = 1 if name == "log" else 20
            admitted[name] = sum(take(client, name, "k", 1, 10) for _ in range(3) for client in (first, second))
            for client in (first, second):
                admitted[name] += take_rest(client, name, "k", cost)
                admitted[name] += take_rest(client, name, "k", 1)
        return admitted

    def check(self, kind, programs):
        store = Store(kind)
        self.addCleanup(store.end)
        url = store.url + ("&" if "?" in store.url else "?") + "timeout=10s"
        with start(programs[0], CONFIG % url) as one, start(programs[1], CONFIG % url) as other:
            clients = [one.connect(), other.connect()]
            admitted = self.spend(*clients)
            for client in clients:
                client.close()
            for each in (one, other):  # what is leased goes back
                self.assertGreater(leased(each), 0)
                each.process.send_signal(signal.SIGTERM)
                self.assertEqual(each.process.wait(PATIENCE_S), 0)
        for name, rule in RULES.items():
            with self.subTest(store=kind, rule=rule, first=programs[0]):
                told = {peek(program, url, name, "k") for program in programs}
                self.assertEqual(len(told), 1, told)
                [(remaining, limit)] = told
                used = admitted[name] + remaining
                if name == "bucket-leased":  # a bucket gets nothing back
                    self.assertLessEqual(used, limit)
                    self.assertGreater(used, limit // 2)
                else:
                    self.assertEqual(used, limit)

    def test_the_old_one_first(self):
        for kind in ("memcached", "redis"):
            self.check(kind, (OLD, PROGRAM))

    def test_the_new_one_first(self):
        for kind in ("memcached", "redis"):
            self.check(kind, (PROGRAM, OLD))


if __name__ == "__main__":
    unittest.main()
