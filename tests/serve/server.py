"""Starts weir serve with a configuration, and speaks with it over plain sockets."""

import os
import re
import select
import signal
import socket
import subprocess
import tempfile
import time
import unittest

PROGRAM = os.environ["WEIR_PROGRAM"]
SANITIZED = os.environ.get("WEIR_SANITIZED", "") != ""  # memory then says nothing about the server's own
MORTAL = ["setpriv", "--pdeathsig", "KILL"]  # before a command that must not outlive the test
PATIENCE_S = 60  # for what must happen soon, on however busy a machine


class Server:
    """Listeners at port 0 get one that is free; self.ports has them by protocol, in order."""

    def __init__(self, config, *, wait=True, environment=None, under=()):
        self.reserved = []
        config = re.sub(r"127\.0\.0\.1:0\b", lambda _: self.reserve(), config)
        self.config = config
        self.folder = tempfile.TemporaryDirectory(prefix="weir-serve-")
        self.file = os.path.join(self.folder.name, "weir.yaml")
        self.write(config)
        self.log_path = os.path.join(self.folder.name, "log")
        self.log_file = self.open_log()
        self.process = subprocess.Popen([*MORTAL, *under, PROGRAM, "serve", self.file], stderr=self.log_file,
                                        stdin=subprocess.DEVNULL, env=environment)
        self.ports = {}
        if wait:
            self.await_start(config)

    def open_log(self):
        return open(self.log_path, "wb")

    def reserve(self):
        self.reserved.append(hold_port())
        return "127.0.0.1:%d" % self.reserved[-1].getsockname()[1]

    def write(self, config):
        """As editors do: a new file takes the old one's place."""
        with open(self.file + ".new", "w", encoding="utf-8") as file:
            file.write(config.replace("FOLDER", self.folder.name))
        os.rename(self.file + ".new", self.file)

    def log(self):
        with open(self.log_path, encoding="ascii") as file:
            return file.read()

    def await_start(self, config):
        wanted = len(re.findall(r"\baddress:", config))
        await_that(lambda: self.process.poll() is not None
                   or self.log().count("listening at") == wanted, "start")
        if self.process.poll() is not None:
            log = self.log()
            self.release()
            raise AssertionError("did not start: " + log)
        for port, protocol in re.findall(r"listening at \S*?:(\d+) \((\w+)\)", self.log()):
            self.ports.setdefault(protocol, []).append(int(port))

    def await_log(self, text, times=1):
        await_that(lambda: self.log().count(text) >= times, f"{text!r} in the log")

    def connect(self, protocol="resp", index=0, source=None):
        return Client(("127.0.0.1", self.ports[protocol][index]), source=source)

    def metric(self, name):
        client = self.connect("admin")
        body = http(client, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")[1]
        client.close()
        return float(re.search(r"^%s (\S+)$" % re.escape(name), body, re.MULTILINE).group(1))

    def memory_kib(self):
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as file:
            return int(re.search(r"VmRSS:\s+(\d+)", file.read()).group(1))

    def end(self):
        """SIGTERM must end it well. Asked again, it is nothing."""
        if self.log_file.closed:
            return
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(PATIENCE_S)
        log = self.log()
        self.release()
        if status != 0:
            raise AssertionError(f"ended with {status}: {log}")

    def release(self):
        self.log_file.close()
        self.folder.cleanup()
        for held in self.reserved:
            held.close()

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        if kind is not None:
            print(self.log())
            self.process.kill()
            self.process.wait()
            self.release()
        else:
            self.end()


class Store:
    """A private store of its own, which can be stopped and continued."""

    def __init__(self, kind, *arguments):
        self.process = subprocess.Popen([*MORTAL, os.environ["WEIR_SERVE"], kind, *arguments], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.url = self.process.stdout.readline().strip()

    def order(self, what):
        """What: stop, continue, kill or restart."""
        self.process.stdin.write(what + "\n")
        self.process.stdin.flush()
        if self.process.stdout.readline() != "done\n":
            raise AssertionError(f"the store did not {what}")

    def end(self):
        self.process.stdin.close()
        self.process.wait(PATIENCE_S)
        self.process.stdout.close()


class Client:
    def __init__(self, address, family=socket.AF_INET, source=None):
        self.socket = socket.socket(family)
        self.socket.settimeout(PATIENCE_S)
        if source is not None:
            self.socket.bind((source, 0))
        self.socket.connect(address)
        self.buffer = b""

    def send(self, data):
        self.socket.sendall(data.encode("latin-1") if isinstance(data, str) else data)

    def fill(self):
        """More bytes; False: the end."""
        data = self.socket.recv(1 << 16)
        self.buffer += data
        return bool(data)

    def line(self):
        while b"\n" not in self.buffer:
            if not self.fill():
                raise EOFError(self.buffer)
        line, self.buffer = self.buffer.split(b"\n", 1)
        return line.rstrip(b"\r").decode("latin-1")

    def take(self, length):
        parts = bytearray(self.buffer)
        while len(parts) < length:
            data = self.socket.recv(1 << 16)
            if not data:
                raise EOFError(bytes(parts))
            parts += data
        self.buffer = bytes(parts[length:])
        return bytes(parts[:length])

    def reply(self):
        """One reply, a map of RESP3 as a dict; errors come back as text with their '-'."""
        line = self.line()
        if line[0] == ":":
            return int(line[1:])
        if line[0] == "$":
            return self.take(int(line[1:]) + 2)[:-2].decode("latin-1")
        if line[0] == "*":
            return [self.reply() for _ in range(int(line[1:]))]
        if line[0] == "%":
            return {self.reply(): self.reply() for _ in range(int(line[1:]))}
        return line

    def ask(self, *words):
        self.send(command(*words))
        return self.reply()

    def rest(self):
        """All that comes until the end; a reset is one."""
        try:
            while self.fill():
                pass
        except ConnectionResetError:
            pass
        data, self.buffer = self.buffer, b""
        return data

    def is_quiet(self):
        return not select.select([self.socket], [], [], 0)[0]

    def close(self):
        self.socket.close()


def hold_port():
    """Bound and not listened at: the kernel gives the port to nobody, and who names it may listen there."""
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    held.bind(("127.0.0.1", 0))
    return held


def command(*words):
    parts = [word if isinstance(word, bytes) else str(word).encode("latin-1") for word in words]
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(p), p) for p in parts)


def http(client, request):
    """(status, body, fields) of one answer."""
    client.send(request)
    status = int(client.line().split()[1])
    fields = {}
    while line := client.line():
        name, value = line.split(": ", 1)
        fields[name.lower()] = value
    body = client.take(int(fields["content-length"]))
    return status, body.decode("utf-8"), fields


def await_that(what, name):
    until = time.monotonic() + PATIENCE_S
    while not what():
        if time.monotonic() > until:
            raise AssertionError("waited in vain for " + name)
        time.sleep(0.01)


# A store patient enough for a busy machine.
BASE = """
listen:
  resp: {address: "127.0.0.1:0"}
  http: {address: "127.0.0.1:0"}
  admin: {address: "127.0.0.1:0"}
stores:
  main: {url: "memory:?timeout=10s"}
limiters:
  api: {store: main, rule: "quota:3/1d"}
  big: {store: main, rule: "quota:1000000000/1d"}
  listed: {store: main, rule: "quota:3/1d", tiers: {gold: "quota:5/1d", no: blocked, free: unlimited}, overrides: {alice: gold, eve: no, "bot-*": free}}
  watched: {store: main, rule: "quota:1/1d", shadow: true}
throttle: {enabled: true, throttlecrab: true, store: main}
"""
