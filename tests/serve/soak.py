"""soak.py SECONDS: four servers and clients of both protocols, while everything around them fails. Nothing
may be wrong: never more admitted than the limits, no answer of another form, each server ends well,
and none keeps growing.

The faults, in turns: a store is stopped; a store is restarted, with nothing remembered; a store
closes all connections; clients reset theirs; good files and bad ones are loaded; a server is told to
end, and another takes its place.

It needs WEIR_PROGRAM, WEIR_SERVE and WEIR_SANITIZED, as the tests beside it."""

import os
import random
import signal
import socket
import struct
import sys
import threading
import time

from server import PATIENCE_S, SANITIZED, Client, Server, Store, command, http

QUOTA = 2000
PER_SECOND = 40
CONFIG = """
listen:
  resp: {address: "127.0.0.1:0"}
  http: {address: "127.0.0.1:0"}
  admin: {address: "127.0.0.1:0"}
stores:
  main: {url: "%s?timeout=100ms", processes: 4, fallback: none}
  other: {url: "%s?timeout=100ms", processes: 4, fallback: none}
limiters:
  quota: {store: main, rule: "quota:%d/300d"}
  second: {store: main, rule: "fixed-window:%d/1s"}
  lossy: {store: other, rule: "fixed-window:%d/1s"}
  churn: {store: main, rule: "fixed-window:7/1s"}
"""
LIMITERS = ("quota", "second", "lossy")
GROWTH_KIB = 16 * 1024  # of a server that has served for a while
GROWTH_FILES = 64


class Load:
    """One client: takes from the shared keys until told to stop; connections may end, answers may not be wrong."""

    def __init__(self, soak, index, protocol):
        self.soak, self.index, self.protocol = soak, index, protocol
        self.admitted = dict.fromkeys(LIMITERS, 0)
        self.answered = 0
        self.resets = False  # asked to reset its connection
        self.is_whole = False  # a thread that dies of an exception is no good run
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        while not self.soak.over.is_set():
            try:
                client = self.soak.servers[self.index].connect(self.protocol)
                try:
                    while not self.soak.over.is_set() and not self.resets:
                        self.ask(client)
                    if self.resets:
                        self.reset(client)
                finally:
                    client.close()
            except TimeoutError as error:
                self.soak.wrong.append(error)
            except (EOFError, OSError):
                time.sleep(0.01)  # its server is being replaced
        self.is_whole = True

    def ask(self, client):
        if self.protocol == "resp":
            asked = [command("WEIR.TAKE", "churn", "k%d" % random.randrange(10000))]
            asked += [command("WEIR.TAKE", limiter, "k") for limiter in LIMITERS]
            client.send(b"".join(asked))
            client.reply()
            for limiter in LIMITERS:
                told = client.reply()
                self.take(limiter, isinstance(told, list) and told[1] == 1,
                          isinstance(told, list) or told.startswith("-ERR "), told)
        else:
            limiter = random.choice(LIMITERS)
            told = http(client, f"GET /check/{limiter}?key=k HTTP/1.1\r\nHost: localhost\r\n\r\n")[0]
            self.take(limiter, told == 200, told in (200, 429, 503), told)

    def take(self, limiter, is_admitted, is_good, told):
        self.answered += 1
        self.admitted[limiter] += is_admitted
        if not is_good:
            self.soak.wrong.append(told)

    def reset(self, client):
        """With requests under way: what they admit, nobody hears of."""
        self.resets = False
        client.send(command("WEIR.TAKE", "churn", "k") * 100 if self.protocol == "resp" else
                    "GET /check/churn?key=k HTTP/1.1\r\nHost: localhost\r\n\r\n" * 100)
        client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


class Soak:
    def __init__(self, seconds):
        self.seconds = seconds
        self.over = threading.Event()
        self.wrong = []
        self.faults = dict.fromkeys(("stop", "restart", "close", "reset", "load", "end"), 0)
        self.store, self.other = Store("memcached"), Store("redis")
        self.config = CONFIG % (self.store.url, self.other.url, QUOTA, PER_SECOND, PER_SECOND)
        self.servers = [Server(self.config) for _ in range(4)]
        self.began = time.time()
        self.loads = [Load(self, i, protocol) for i in range(4) for protocol in ("resp", "http")]

    def stop(self):
        self.store.order("stop")
        time.sleep(0.5)
        self.store.order("continue")

    def restart(self):
        self.other.order("restart")

    def close(self):
        host, port = self.other.url.rsplit("/", 1)[1].split(":")
        client = Client((host, int(port)))
        client.send(command("CLIENT", "KILL", "TYPE", "normal"))
        client.line()
        client.close()

    def reset(self):
        for load in self.loads:
            load.resets = True

    def load(self):
        """Good ones, and now and then a bad one, which nobody may use."""
        server = self.servers[1]
        refused = server.log().count("is not used")
        for limit in range(20):
            text = server.config.replace("7/1s", "%d/1s" % (7 + limit))
            server.write(text.replace("quota:", "quota: 5 #") if limit % 5 == 0 else text)
            server.process.send_signal(signal.SIGHUP)
            time.sleep(0.01)
        server.write(server.config.replace("7/1s", "seven"))
        server.process.send_signal(signal.SIGHUP)
        server.await_log("is not used", refused + 1)

    def end(self):
        old, self.servers[0] = self.servers[0], Server(self.config)
        old.end()

    def measure(self):
        """Memory and open files of one that serves undisturbed, and of one that loads files."""
        return [(server.memory_kib(), len(os.listdir(f"/proc/{server.process.pid}/fd")))
                for server in self.servers[1:3]]

    def run(self):
        try:
            before, after = self.disturb()
        finally:
            self.over.set()
        for load in self.loads:
            load.thread.join(PATIENCE_S)
        for server in self.servers:
            server.end()
        self.store.end()
        self.other.end()
        return self.judge(before, after)

    def disturb(self):
        """What was measured after a quarter of the time, and at its end."""
        until = time.monotonic() + self.seconds
        before = None
        while time.monotonic() < until or 0 in self.faults.values():
            fault = min(self.faults, key=self.faults.get)
            getattr(self, fault)()
            self.faults[fault] += 1
            time.sleep(0.2)
            if before is None and until - time.monotonic() < self.seconds * 3 / 4:
                before = self.measure()  # what grows at first is not a leak
        return before, self.measure()

    def judge(self, before, after):
        """A window that is not over at an end of the run counts whole, and one that was lost again."""
        windows = int(time.time() - self.began) + 2
        most = {"quota": QUOTA, "second": PER_SECOND * windows,
                "lossy": PER_SECOND * (windows + self.faults["restart"])}
        admitted = {name: sum(load.admitted[name] for load in self.loads) for name in LIMITERS}
        grown = [tuple(new - old for old, new in zip(*both)) for both in zip(before, after)]
        print("%d answers, %d wrong, admitted %s of %s, faults %s, grown by (KiB, files) %s" % (
            sum(load.answered for load in self.loads), len(self.wrong), admitted, most, self.faults,
            grown))
        for told in self.wrong[:10]:
            print("wrong:", repr(told))
        whole = self.wrong == [] and all(load.is_whole for load in self.loads)
        bounded = all(0 < admitted[name] <= most[name] for name in LIMITERS)
        small = all(files < GROWTH_FILES and (SANITIZED or kib < GROWTH_KIB) for kib, files in grown)
        return whole and bounded and small


if __name__ == "__main__":
    sys.exit(0 if Soak(float(sys.argv[1])).run() else 1)
