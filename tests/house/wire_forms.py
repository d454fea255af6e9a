"""A roll-out: two versions on one store. What the version before left in a store is read by this one,
and this one writes the same, so that either can go on where the other stopped.

wire_forms.json holds, for each rule and store, what the recorded version wrote while it replayed the
first part of a trace, and what it decided of the second. It is recorded by that version's program, and
never by the one under test:

    WEIR_PROGRAM=OLD/weir python3 wire_forms.py record NAME

It starts a memcached and a Redis of its own, behind sockets in a folder of its own.
"""

import contextlib
import json
import os
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import time
import urllib.parse

RECORD = pathlib.Path(__file__).with_suffix(".json")
STORES = {
    "memcached": ["memcached", "-u", "root", "-s"],
    "redis": ["redis-server", "--port", "0", "--save", "", "--unixsocket"],
}
START_S = 60
RULES = (
    "fixed-window:10/1m",
    "sliding-window:10/1m",
    "sliding-window:10/1m,cells=16,strict",
    "sliding-window:10/1m,cells=1,name=login",
    "sliding-window:10/1m,count=all",
    "sliding-log:10/1m",
    "quota:10/1m",
    "token-bucket:10/1m,burst=5",
    "leaky-bucket:10/1m,queue=5",
    "fixed-window:5/10s;token-bucket:10/1m",
)
BEGIN_MS = 1700000000000
LIFE_S = 86400


def trace():
    """Two keys over more than a minute, before and after the change of versions."""
    lines = []
    for i in range(60):
        key = b"alice" if i % 3 else b"b\xc3\xb6rg, with a name too long to stand in a key " + b"x" * 200
        lines.append(b"%d %s\n" % (BEGIN_MS + i * 1200 + (i * 7919) % 1000, key.replace(b" ", b"_")))
    return b"".join(lines[:36]), b"".join(lines[36:])


class Memcached:
    def __init__(self, connection):
        self.stream = connection.makefile("rwb")

    def ask(self, line, payload=b""):
        self.stream.write(line + b"\r\n" + payload)
        self.stream.flush()
        return self.stream.readline().rstrip(b"\r\n")

    def dump(self, begin, expected=()):
        """A metadump leaves out what memcached is moving just then: what is expected is asked for too."""
        keys = {key for key in expected if self.ask(b"mg %s" % key.encode()) == b"HD"}
        line = self.ask(b"lru_crawler metadump all")
        while line.startswith(b"BUSY"):  # with the dump before
            time.sleep(0.02)
            line = self.ask(b"lru_crawler metadump all")
        while line != b"END":
            if line == b"OK":  # 1.6.43 and newer begin with it
                line = self.stream.readline().rstrip(b"\r\n")
                continue
            key = urllib.parse.unquote(re.match(rb"key=(\S+)", line).group(1).decode())
            if key.startswith(begin):
                keys.add(key)
            line = self.stream.readline().rstrip(b"\r\n")
        found = {}
        for key in sorted(keys):
            _, size, *flags = self.ask(b"mg %s v f" % key.encode()).split()
            value = self.stream.read(int(size) + 2)[:-2]
            found[key] = {"value": value.decode("latin-1"), "flags": int(flags[0][1:])}
        return found

    def load(self, content):
        for key, item in content.items():
            value = item["value"].encode("latin-1")
            line = b"set %s %d %d %d" % (key.encode(), item["flags"], LIFE_S, len(value))
            assert self.ask(line, value + b"\r\n") == b"STORED"


class Redis:
    def __init__(self, connection):
        self.stream = connection.makefile("rwb")

    def ask(self, *words):
        parts = [word if isinstance(word, bytes) else str(word).encode() for word in words]
        self.stream.write(b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(p), p) for p in parts))
        self.stream.flush()
        return self.read()

    def read(self):
        line = self.stream.readline().rstrip(b"\r\n")
        if line[:1] == b"*":
            return [self.read() for _ in range(int(line[1:]))]
        if line[:1] == b"$":
            return self.stream.read(int(line[1:]) + 2)[:-2]
        assert line[:1] in b"+:", line
        return line[1:]

    def dump(self, begin, expected=()):
        del expected  # KEYS names all there are
        found = {}
        for key in sorted(self.ask("KEYS", begin + "*")):
            kind = self.ask("TYPE", key).decode()
            assert kind in ("string", "zset"), kind
            read = ("GET", key) if kind == "string" else ("ZRANGE", key, 0, -1, "WITHSCORES")
            value = self.ask(*read)
            parts = [value] if kind == "string" else value
            found[key.decode()] = {"type": kind, "value": [part.decode("latin-1") for part in parts]}
        return found

    def load(self, content):
        for key, item in content.items():
            values = [value.encode("latin-1") for value in item["value"]]
            if item["type"] == "string":
                self.ask("SET", key, values[0], "EX", LIFE_S)
            else:
                for member, score in zip(values[::2], values[1::2]):
                    self.ask("ZADD", key, score, member)
                self.ask("EXPIRE", key, LIFE_S)


CLIENTS = {"memcached": Memcached, "redis": Redis}


def connect(path):
    end = time.monotonic() + START_S
    while True:
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.connect(path)
            return connection
        except OSError:
            connection.close()
            if time.monotonic() > end:
                raise
            time.sleep(0.02)


@contextlib.contextmanager
def servers():
    """The path of each store's socket, by its name."""
    with tempfile.TemporaryDirectory() as folder:
        started = []
        try:
            paths = {store: f"{folder}/{store}" for store in STORES}
            for store, command in STORES.items():
                started.append(subprocess.Popen([*command, paths[store]], cwd=folder,
                                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
            yield paths
        finally:
            for server in started:
                server.terminate()
                server.wait()


def replay(store, path, namespace, rule, part):
    """What is decided; patient, as a busy machine must not end it."""
    url = f"{store}+unix://{path}?namespace={namespace}&timeout=30s"
    done = subprocess.run([os.environ["WEIR_PROGRAM"], "replay", "--store", url, "--rule", rule], input=part,
                          capture_output=True, check=False, timeout=250)
    assert done.returncode == 0, (rule, done.stderr)
    return done.stdout.decode("ascii").splitlines()


def runs(paths):
    for store, path in paths.items():
        client = CLIENTS[store](connect(path))
        for number, rule in enumerate(RULES):
            yield store, path, client, number, rule


def record(version):
    before, after = trace()
    recorded = {"version": version, "runs": []}
    with servers() as paths:
        for store, path, client, number, rule in runs(paths):
            name = f"old{number}"
            replay(store, path, name, rule, before)
            content = client.dump(f"weir:{name}:")
            recorded["runs"].append({"store": store, "rule": rule, "content": content,
                                     "after": replay(store, path, name, rule, after)})
    runs_text = ",\n".join(json.dumps(run, sort_keys=True) for run in recorded["runs"])
    RECORD.write_text(f'{{"version": {json.dumps(version)}, "runs": [\n{runs_text}\n]}}\n')


def differ(what, store, rule, expected, found):
    if expected == found:
        return 0
    print(f"{what}, {rule} on {store}:\n  recorded {expected}\n  found    {found}")
    return 1


def check():
    before, after = trace()
    recorded = {(run["store"], run["rule"]): run for run in json.loads(RECORD.read_text())["runs"]}
    failures = 0
    with servers() as paths:
        for store, path, client, number, rule in runs(paths):
            old = recorded[store, rule]
            assert old["content"] and any("denied" in line for line in old["after"]), rule
            client.load(old["content"])
            failures += differ("goes on after the old version", store, rule, old["after"],
                               replay(store, path, f"old{number}", rule, after))
            replay(store, path, f"new{number}", rule, before)
            expected = [key.replace(f":old{number}:", f":new{number}:") for key in old["content"]]
            written = {key.replace(f":new{number}:", f":old{number}:"): item
                       for key, item in client.dump(f"weir:new{number}:", expected).items()}
            failures += differ("writes what the old version wrote", store, rule, old["content"], written)
    print(f"{len(recorded)} runs, {failures} differ")
    return 1 if failures or len(recorded) != len(RULES) * len(STORES) else 0


if __name__ == "__main__":
    sys.exit(record(sys.argv[2]) if sys.argv[1:2] == ["record"] else check())
