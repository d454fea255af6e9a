"""The tests of doctor share this: private servers, proxies that change what is said, findings."""

import json
import os
import select
import socket
import subprocess
import threading
import time

from program import ProgramTest, run

PATIENT = "timeout=30s"
MORTAL = ["setpriv", "--pdeathsig", "KILL"]  # before a command that must not outlive the test


def user(commands, keys="~weir:*"):
    return ["--user", "app", "on", ">s3cret", keys, "-@all", *commands.split()]


class Server:
    """A private server, through tests/cli/serve.c."""

    def __init__(self, kind, *arguments):
        self.process = subprocess.Popen([os.environ["WEIR_SERVE"], kind, *arguments],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.url = self.process.stdout.readline().strip()
        if not self.url:
            raise RuntimeError("no server of kind %s %s" % (kind, arguments))
        self.port = int(self.url.split("?")[0].rsplit(":", 1)[1])

    def order(self, what):
        self.process.stdin.write(what + "\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "done\n"

    def url_with(self, query=PATIENT, credentials=""):
        scheme, rest = self.url.split("://")
        sign = "&" if "?" in rest else "?"
        return "%s://%s%s%s%s" % (scheme, credentials, rest, sign, query)

    def connect(self):
        made = socket.create_connection(("127.0.0.1", self.port))
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # a proxy that waits is another test
        return made

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


class Proxy:
    """Stands before a server. `asked` and `answered` are given what passes, return what shall pass
    instead, and may raise Cut to hang up; after `limit` answers the server is out of reach. With
    `trickle_s` each byte of an answer takes that long."""

    class Cut(Exception):
        pass

    def __init__(self, server, asked=None, answered=None, limit=None, trickle_s=0):
        self.server = server
        self.trickle_s = trickle_s
        self.hooks = (asked or (lambda said: said), answered or (lambda said: said))
        self.left = limit
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.ended = threading.Event()
        self.threads = []
        self.start(self.accept)

    def url(self, query=PATIENT):
        return "%s://127.0.0.1:%d?%s" % (self.server.url.split(":")[0], self.port, query)

    def start(self, target, *arguments):
        self.threads.append(threading.Thread(target=target, args=arguments))
        self.threads[-1].start()

    def accept(self):
        self.listener.settimeout(0.05)
        while not self.ended.is_set() and self.left != 0:
            try:
                client = self.listener.accept()[0]
            except TimeoutError:
                continue
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.start(self.serve, client)
        self.listener.close()

    def serve(self, client):
        with client, self.server.connect() as server:
            ways = {client: (server, self.hooks[0]), server: (client, self.hooks[1])}
            try:
                while not self.ended.is_set():
                    for source in select.select([client, server], [], [], 0.05)[0]:
                        target, hook = ways[source]
                        drops = source is server and self.trickle_s > 0
                        said = source.recv(1 if drops else 1 << 20)
                        time.sleep(self.trickle_s if drops else 0)
                        if not said:
                            return
                        if source is server and self.left is not None:
                            if self.left == 0:
                                return
                            self.left -= 1
                        target.sendall(hook(said))
            except (self.Cut, OSError):
                return

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.ended.set()
        for thread in list(self.threads):
            thread.join()


def change(old, new):
    return lambda said: said.replace(old, new)


class DoctorTest(ProgramTest):
    def inspect(self, store, *options, status=None):
        """The findings of doctor --json, which must end as its findings say."""
        result = run("doctor", "--json", "--store", store, *options)
        self.assertEqual(result.stderr, b"")
        found = [json.loads(line) for line in result.stdout.splitlines()]
        self.assertNotEqual(found, [])
        for finding in found:
            self.assertEqual(list(finding), ["server", "level", "topic", "text"])
            self.assertNotIn("s3cret", finding["text"])
        faults = [finding for finding in found if finding["level"] == "fault"]
        self.assertEqual(result.returncode, 3 if faults else 0)
        return found

    def assert_found(self, found, level, topic, *parts):
        texts = [f["text"] for f in found if f["level"] == level and f["topic"] == topic]
        for text in texts:
            if all(part in text for part in parts):
                return
        self.fail("no %s of %s with %s in %s" % (level, topic, parts, found))

    def assert_faults(self, found, *topics):
        """These topics have faults, and no others."""
        faulty = {f["topic"] for f in found if f["level"] == "fault"}
        self.assertEqual(faulty, set(topics), found)

    def assert_warnings(self, found, *topics):
        """The same of warnings; round trips depend on what else runs on this machine, and the deadline
        is that of a test."""
        warned = {f["topic"] for f in found
                  if f["level"] == "warning" and not f["text"].startswith("the deadline is ")}
        warned.discard("round trip")
        self.assertEqual(warned, set(topics), found)


def eventually(attempt, tries=8):
    """A check that depends on when a busy machine gets round to it may be tried again."""
    for left in range(tries - 1, -1, -1):
        try:
            return attempt()
        except AssertionError:
            if left == 0:
                raise
            time.sleep(0.1)
    return None
