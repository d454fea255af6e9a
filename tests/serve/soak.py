"""soak.py SECONDS [PAUSE_S]: four servers and clients of all three protocols, while everything around them
fails. Nothing may be wrong: never more admitted than the limits, no answer of another form, each server
ends well, and none keeps growing. RESP and HTTP count in the same counters, gRPC and HTTP's /json in those
of descriptors. PAUSE_S is what each client rests after each question: a long soak beside other work.

The faults, in turns: a store is stopped; a store is restarted, with nothing remembered; a store
closes all connections; clients reset theirs, and streams of theirs; good files and bad ones are loaded;
a server is told to end, and another takes its place.

It needs Debian's Python for its gRPC, and WEIR_PROGRAM, WEIR_SERVE and WEIR_SANITIZED, as the tests beside it."""

import os
import random
import re
import signal
import socket
import struct
import sys
import tempfile
import threading
import time

import grpc

from h2 import Raw, RST_STREAM, call, frame
from envoy import per_year, question
from rls import OK, OVER, Rls, request_of
from server import PATIENCE_S, SANITIZED, Client, Server, Store, command, http
from test_http import post

QUOTA = 2000
PER_SECOND = 40
CONFIG = """
listen:
  resp: {address: "127.0.0.1:0"}
  http: {address: "127.0.0.1:0"}
  grpc: {address: "127.0.0.1:0"}
  admin: {address: "127.0.0.1:0"}
stores:
  main: {url: "%s?timeout=100ms", processes: 4, fallback: none}
  other: {url: "%s?timeout=100ms", processes: 4, fallback: none}
limiters:
  quota: {store: main, rule: "quota:%d/300d"}
  second: {store: main, rule: "fixed-window:%d/1s"}
  lossy: {store: other, rule: "fixed-window:%d/1s"}
  churn: {store: main, rule: "fixed-window:7/1s"}
envoy: {files: "%s/*.limits", domains: {quota: {algorithm: quota, store: main}, second: {store: main}, lossy: {store: other}, churn: {store: main}}}
"""
EACH_SECOND = "rate_limit: {unit: second, requests_per_unit: %d}"
LIMITERS = ("quota", "second", "lossy")
DOMAINS = tuple("/" + name for name in LIMITERS)  # as metrics name them
STREAMS = 4
QUESTIONS = {domain: question(domain[1:], "k=v", "k=v") for domain in DOMAINS}
MESSAGES = {domain: request_of(asked) for domain, asked in QUESTIONS.items()}
ASKS = MESSAGES["/second"].SerializeToString()
GROWTH_KIB = 16 * 1024  # of a server that has served for a while
GROWTH_FILES = 64


class Load:
    """One client: takes from the shared keys until told to stop; connections may end, answers may not be wrong."""

    def __init__(self, soak, index, protocol):
        self.soak, self.index, self.protocol = soak, index, protocol
        self.admitted = dict.fromkeys(LIMITERS + DOMAINS, 0)
        self.answered = 0
        self.resets = False  # asked to reset its connection
        self.is_whole = False  # a thread that dies of an exception is no good run
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        while not self.soak.over.is_set():
            try:
                client = self.connect(self.soak.servers[self.index])
                try:
                    while not self.soak.over.is_set() and not self.resets:
                        self.ask(client)
                        self.soak.over.wait(self.soak.pause_s)
                    if self.resets:
                        self.resets = False
                        self.reset(client)
                finally:
                    client.close()
            except TimeoutError as error:
                self.soak.wrong.append(error)
            except (EOFError, OSError):
                time.sleep(0.01)  # its server is being replaced
        self.is_whole = True

    def connect(self, server):
        return server.connect(self.protocol)

    def take(self, limiter, is_admitted, is_good, told):
        self.answered += 1
        self.admitted[limiter] += is_admitted
        if not is_good:
            self.soak.wrong.append(told)

    def reset(self, client):
        """With requests under way: what they admit is told to no client."""
        client.send(self.UNREAD)
        client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


class RespLoad(Load):
    UNREAD = command("WEIR.TAKE", "churn", "k") * 100

    def ask(self, client):
        asked = [command("WEIR.TAKE", "churn", "k%d" % random.randrange(10000))]
        asked += [command("WEIR.TAKE", limiter, "k") for limiter in LIMITERS]
        client.send(b"".join(asked))
        client.reply()
        for limiter in LIMITERS:
            told = client.reply()
            self.take(limiter, isinstance(told, list) and told[1] == 1,
                      isinstance(told, list) or told.startswith("-ERR "), told)


class HttpLoad(Load):
    UNREAD = "GET /check/churn?key=k HTTP/1.1\r\nHost: localhost\r\n\r\n" * 100

    def ask(self, client):
        name = random.choice(LIMITERS + DOMAINS)
        if name in DOMAINS:
            told, body, _ = http(client, post("/json", QUESTIONS[name]))
            self.take(name, body.count('"code":"OK"'), told in (200, 429, 503), body)
        else:
            told = http(client, f"GET /check/{name}?key=k HTTP/1.1\r\nHost: localhost\r\n\r\n")[0]
            self.take(name, told == 200, told in (200, 429, 503), told)


class GrpcLoad(Load):
    """Several streams at once, of two descriptors each."""

    UNREAD = call(1, ASKS) + b"".join(call(i, ASKS) + frame(RST_STREAM, 0, i - 2, b"\0\0\0\x08") for i in range(3, 200, 2))
    OF_THE_STORE = re.compile("(UNAVAILABLE|TIMEOUT|LOST|UNKNOWN_OUTCOME|BUSY): ")

    def connect(self, server):
        return Rls("127.0.0.1:%d" % server.ports["grpc"][0])

    def ask(self, client):
        under_way = [(domain, client.should.future(MESSAGES[domain], timeout=PATIENCE_S))
                     for domain in DOMAINS * STREAMS]
        is_gone = False
        for domain, asked in under_way:
            error = asked.exception()
            if error is None:
                self.read(domain, asked.result())
            elif error.details().startswith("failed to connect to all addresses"):
                is_gone = True  # what came before its end is answered
            else:
                is_away = error.code() == grpc.StatusCode.UNAVAILABLE and self.OF_THE_STORE.match(error.details())
                self.take(domain, 0, is_away, error)
        if is_gone:
            raise EOFError

    def read(self, domain, told):
        """Each descriptor is decided by itself."""
        codes = [status.code for status in told.statuses]
        most = QUOTA if domain == "/quota" else PER_SECOND
        self.take(domain, codes.count(OK), told.overall_code == (OVER if OVER in codes else OK) and len(codes) == 2 and
                  all(status.limit_remaining < most and status.current_limit.requests_per_unit == most
                      for status in told.statuses), told)

    def reset(self, client):
        """Calls that are taken back, by a client that goes on; and a connection of its own that ends."""
        for under_way in [client.should.future(MESSAGES["/second"]) for _ in range(100)]:
            under_way.cancel()
        raw = Raw(self.soak.servers[self.index].ports["grpc"][0])
        super().reset(raw)
        raw.close()


class Soak:
    def __init__(self, seconds, pause_s=0):
        self.seconds, self.pause_s = seconds, pause_s
        self.over = threading.Event()
        self.wrong = []
        self.faults = dict.fromkeys(("stop", "restart", "close", "reset", "load", "end"), 0)
        self.store, self.other = Store("memcached"), Store("redis")
        self.folder = tempfile.TemporaryDirectory(prefix="weir-soak-")
        for name in (*LIMITERS, "churn"):
            self.write_domain(name, per_year(QUOTA) if name == "quota" else EACH_SECOND % PER_SECOND)
        self.config = CONFIG % (self.store.url, self.other.url, QUOTA, PER_SECOND, PER_SECOND, self.folder.name)
        self.servers = [Server(self.config) for _ in range(4)]
        self.began = time.time()
        self.loads = [of(self, i, protocol) for i in range(4)
                      for of, protocol in ((RespLoad, "resp"), (HttpLoad, "http"), (GrpcLoad, "grpc"))]

    def write_domain(self, name, limit):
        with open(os.path.join(self.folder.name, name + ".new"), "w", encoding="utf-8") as file:
            file.write("domain: %s\ndescriptors: [{key: k, %s}]\n" % (name, limit))
        os.rename(file.name, os.path.join(self.folder.name, name + ".limits"))

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
        """Good ones, and now and then a bad one, which no server may use."""
        server = self.servers[1]
        refused = server.log().count("is not used")
        for limit in range(20):
            text = server.config.replace("7/1s", "%d/1s" % (7 + limit))
            server.write(text.replace("quota:", "quota: 5 #") if limit % 5 == 0 else text)
            self.write_domain("churn", EACH_SECOND % (7 + limit))
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
        self.folder.cleanup()
        return self.judge(before, after)

    def disturb(self):
        """The measures after a quarter of the time, and at its end."""
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
        most.update({"/" + name: bound for name, bound in most.items()})
        admitted = {name: sum(load.admitted[name] for load in self.loads) for name in most}
        grown = [tuple(new - old for old, new in zip(*both)) for both in zip(before, after)]
        answered = {load.protocol: 0 for load in self.loads}
        for load in self.loads:
            answered[load.protocol] += load.answered
        print("answers %s, %d wrong, admitted %s of %s, faults %s, grown by (KiB, files) %s" % (
            answered, len(self.wrong), admitted, most, self.faults, grown))
        for told in self.wrong[:10]:
            print("wrong:", repr(told))
        whole = self.wrong == [] and all(load.is_whole for load in self.loads)
        bounded = all(0 < admitted[name] <= most[name] for name in most)
        small = all(files < GROWTH_FILES and (SANITIZED or kib < GROWTH_KIB) for kib, files in grown)
        return whole and bounded and small and 0 not in answered.values()


if __name__ == "__main__":
    sys.exit(0 if Soak(*map(float, sys.argv[1:])).run() else 1)
