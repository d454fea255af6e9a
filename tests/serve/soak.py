"""soak.py SECONDS: four servers and clients of both protocols on one key, while stores stop, files change
and servers end. Nothing may be wrong: never more admitted than the limit, no answer of another
form, each server ends well, and none keeps growing.

It needs WEIR_PROGRAM, WEIR_SERVE and WEIR_SANITIZED, as the tests beside it."""

import random
import signal
import sys
import threading
import time

from server import PATIENCE_S, SANITIZED, Server, Store, command, http

LIMIT = 2000
CONFIG = """
listen:
  resp: {address: "127.0.0.1:0"}
  http: {address: "127.0.0.1:0"}
  admin: {address: "127.0.0.1:0"}
stores:
  main: {url: "%s?timeout=100ms", processes: 4, fallback: none}
limiters:
  api: {store: main, rule: "quota:%d/300d"}
  churn: {store: main, rule: "fixed-window:7/1s"}
"""
GROWTH_KIB = 16 * 1024  # of a server that has served for a while


class Load:
    """One client: takes from the shared key until told to stop; connections may end, answers may not be wrong."""

    def __init__(self, soak, index, protocol):
        self.soak, self.index, self.protocol = soak, index, protocol
        self.admitted = self.answered = 0
        self.is_whole = False  # a thread that dies of an exception is no good run
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        while not self.soak.over.is_set():
            try:
                client = self.soak.servers[self.index].connect(self.protocol)
                try:
                    while not self.soak.over.is_set():
                        self.ask(client)
                finally:
                    client.close()
            except TimeoutError as error:
                self.soak.wrong.append(error)
            except (EOFError, OSError):
                time.sleep(0.01)  # its server is being replaced
        self.is_whole = True

    def ask(self, client):
        if self.protocol == "resp":
            client.send(command("WEIR.TAKE", "churn", "k%d" % random.randrange(10000))
                        + command("WEIR.TAKE", "api", "k"))
            client.reply()
            told = client.reply()
            admitted, good = told[1] == 1, isinstance(told, list) or told.startswith("-ERR ")
        else:
            told, _, _ = http(client, "GET /check/api?key=k HTTP/1.1\r\nHost: x\r\n\r\n")
            admitted, good = told == 200, told in (200, 429, 503)
        self.answered += 1
        self.admitted += admitted
        if not good:
            self.soak.wrong.append(told)


class Soak:
    def __init__(self, seconds):
        self.seconds = seconds
        self.over = threading.Event()
        self.wrong = []
        self.faults = {"stop": 0, "reload": 0, "end": 0}
        self.store = Store("memcached")
        self.config = CONFIG % (self.store.url, LIMIT)
        self.servers = [Server(self.config) for _ in range(4)]
        self.loads = [Load(self, i, protocol) for i in range(4) for protocol in ("resp", "http")]

    def stop(self):
        self.store.order("stop")
        time.sleep(0.5)
        self.store.order("continue")

    def reload(self):
        server = self.servers[1]
        for limit in range(20):
            server.write(server.config.replace("7/1s", "%d/1s" % (7 + limit)))
            server.process.send_signal(signal.SIGHUP)
            time.sleep(0.01)

    def end(self):
        old, self.servers[0] = self.servers[0], Server(self.config)
        old.end()

    def run(self):
        until = time.monotonic() + self.seconds
        time.sleep(self.seconds / 4)  # what grows at first is not a leak
        before = self.servers[2].memory_kib()
        while time.monotonic() < until or 0 in self.faults.values():
            fault = min(self.faults, key=self.faults.get)
            getattr(self, fault)()
            self.faults[fault] += 1
            time.sleep(0.2)
        self.over.set()
        for load in self.loads:
            load.thread.join(PATIENCE_S)
        grown = self.servers[2].memory_kib() - before
        for server in self.servers:
            server.end()
        self.store.end()
        admitted = sum(load.admitted for load in self.loads)
        print("%d answers, %d of %d admitted, %d wrong, %s, grown by %d KiB" % (
            sum(load.answered for load in self.loads), admitted, LIMIT, len(self.wrong), self.faults, grown))
        whole = self.wrong == [] and all(load.is_whole for load in self.loads)
        return whole and 0 < admitted <= LIMIT and (SANITIZED or grown < GROWTH_KIB)


if __name__ == "__main__":
    sys.exit(0 if Soak(float(sys.argv[1])).run() else 1)
