"""Recipes need this: their own text, a proxy that runs by it, an application behind the proxy, and a
client whose address can be chosen."""

import concurrent.futures
import contextlib
import json
import os
import re
import select
import socket
import subprocess
import tempfile
import threading
import time
import unittest
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import hostile_forms
from server import PATIENCE_S, Client, Server, Store, await_that, hold_port, http

DOCS = os.path.join(os.path.dirname(__file__), "..", "..", "docs")
MORTAL_MASTER = ["setpriv", "--pdeathsig", "TERM"]  # before a program that must end workers of its own
ALL_PATHS = os.environ["PATH"] + ":/usr/sbin"
API = 'rule: "sliding-window:100/1m"'  # as the pages have it: too many for a test, and too soon over
THREE = 'rule: "quota:3/1d"'
KEYED = THREE + ", key"  # of the limiter by_key


def blocks(page, language):
    """The blocks of one language in a page of docs, in order."""
    with open(os.path.join(DOCS, page), encoding="utf-8") as file:
        return re.findall(r"^```%s\n(.*?)^```$" % language, file.read(), re.MULTILINE | re.DOTALL)


def replace(text, *pairs):
    """Each must be there: a page that has changed is not tried by halves."""
    for old, new in pairs:
        if old not in text:
            raise AssertionError(f"the page has no {old!r}")
        text = text.replace(old, new)
    return text


def on_free_ports(config):
    """A configuration of a page, for a server of the tests."""
    config = re.sub(r"(in-flight:\d+)/10s", r"\1/90s", config)  # stores here have ten seconds for each answer
    return re.sub(r"127\.0\.0\.1:(8080|9090|6380)", "127.0.0.1:0", config).replace(API, THREE)


class Application:
    """Answers 200 to all, 403 to /forbidden, and counts. /held/KILOBYTES answers 64 of them, as
    proxies collect a few, and the rest when `over` is set; `now` and `most` are under way there, now and
    at the most."""

    def __init__(self):
        application = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                application.asked += 1
                if self.path.startswith("/held/"):
                    return self.hold(int(self.path.split("/")[2]))
                body = b"hello\n"
                self.send_response(403 if self.path == "/forbidden" else 200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def do_POST(self):
                self.rfile.read(int(self.headers["Content-Length"]))
                self.do_GET()

            def hold(self, kilobytes):
                with application.lock:
                    application.now += 1
                    application.most = max(application.most, application.now)
                try:
                    self.send_response(200)
                    self.send_header("Content-Length", str(1000 * kilobytes))
                    self.end_headers()
                    self.wfile.write(b"x" * 64000)
                    while not application.over.wait(0.02) and not application.left(self.connection):
                        pass
                except OSError:
                    self.close_connection = True
                with application.lock:
                    application.now -= 1
                with contextlib.suppress(OSError):  # behind it others may come
                    self.wfile.write(b"x" * (1000 * kilobytes - 64000))

            def log_message(self, *_):
                pass

        self.asked = self.now = self.most = 0
        self.lock, self.over = threading.Lock(), threading.Event()
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.handle_error = lambda *_: None  # of clients that have gone
        self.port = self.server.server_address[1]
        self.thread = threading.Thread(target=self.server.serve_forever)
        self.thread.start()

    @staticmethod
    def left(connection):
        """Whether who asked has closed."""
        return bool(select.select([connection], [], [], 0)[0])

    def end(self):
        self.over.set()
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


class Proxy:
    """A program that runs in the foreground by its files, and shares a port that is held for it.

    files: name to text; there and in arguments FOLDER stands for where they are, and PORT for the port."""

    def __init__(self, files, *arguments):
        self.held = hold_port()
        self.port = self.held.getsockname()[1]
        self.folder = tempfile.TemporaryDirectory(prefix="weir-recipe-")
        os.chmod(self.folder.name, 0o755)  # root's proxy works as somebody else
        for name, text in files.items():
            with open(os.path.join(self.folder.name, name), "w", encoding="utf-8") as file:
                file.write(text.replace("FOLDER", self.folder.name).replace("PORT", str(self.port)))
        self.log = tempfile.TemporaryFile("w+")
        home = dict(os.environ, HOME=self.folder.name, XDG_DATA_HOME=self.folder.name,
                    XDG_CONFIG_HOME=self.folder.name, PATH=ALL_PATHS)
        self.process = subprocess.Popen(
            [*MORTAL_MASTER, *(a.replace("FOLDER", self.folder.name) for a in arguments)], env=home,
            stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        try:
            await_that(self.is_ready, arguments[0])
        except AssertionError:
            self.end()
            raise

    def said(self):
        self.log.seek(0)
        return self.log.read()

    def is_ready(self):
        if self.process.poll() is not None:
            raise AssertionError(self.said())
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def get(self, path="/", source="127.0.0.2", fields=None, body=None):
        """(status, fields, body) of one request of a client at an address of loopback."""
        client = HTTPConnection("127.0.0.1", self.port, PATIENCE_S, (source, 0))
        client.request("GET" if body is None else "POST", path, body, fields or {})
        answer = client.getresponse()
        text = answer.read()
        client.close()
        return answer.status, answer.headers, text

    def begin(self, path, source="127.0.0.2"):
        """A client that has its answer's first kilobyte, and its status; the rest may come."""
        client = Client(("127.0.0.1", self.port), source=source)
        client.send("GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n" % path)
        status = int(client.line().split()[1])
        while client.line():
            pass
        if status == 200:
            client.take(1000)
        return client, status

    def end(self):
        self.process.terminate()
        try:
            self.process.wait(PATIENCE_S)
        finally:
            self.process.kill()
            self.log.close()
            self.held.close()
            self.folder.cleanup()


class Behind(unittest.TestCase):
    """A recipe's server, on a memcached, and an application to guard. page: where the recipe stands; its
    first configuration is whole, as is that of number `whole`; others are further limiters."""

    whole = 0

    def setUp(self):
        self.store = Store("memcached")
        self.addCleanup(self.store.end)
        self.application = Application()
        self.addCleanup(self.application.end)
        configs = blocks(self.page, "yaml")
        config = configs[self.whole]
        config += "".join(each.removeprefix("limiters:\n") for each in configs if each.startswith("limiters:\n"))
        self.server = Server(replace(on_free_ports(config), (
            "memcached://127.0.0.1:11211", self.store.url + "?timeout=10s")))
        self.addCleanup(self.server.end)
        self.weir = "127.0.0.1:%d" % self.server.ports.get("http", [0])[0]
        self.behind = "127.0.0.1:%d" % self.application.port

    def change(self, *changes, more=""):
        """Of the server's configuration."""
        self.server.write(replace(self.server.config, *changes) + more)
        self.server.await_log("is in use now")

    def charged(self, limiter, key, limit=3):
        """How much of its limit a key has used."""
        client = self.server.connect("http")
        body = json.dumps({"limiter": limiter, "key": key})
        told = http(client, "POST /peek HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                    "Content-Length: %d\r\n\r\n%s" % (len(body), body))
        client.close()
        return limit - json.loads(told[1])["remaining"]

    def listen(self):
        """An application that notes keys, in place of the other; what it has seen."""
        listener = hostile_forms.Listener()
        self.addCleanup(listener.end)
        self.behind = "127.0.0.1:%d" % listener.port
        return listener.seen

    def assert_addresses_hold(self, start, passes=("as it was",)):
        """No form of a request gets a client out of its limit by address, nor under another's. start: a proxy.
        passes: forms that have nothing wrong, so that who is not limited gets in by them."""
        seen = self.listen()
        port = start().port
        hostile_forms.assert_none_enters(self, port, seen)
        entered = hostile_forms.assert_counted(self, port, seen, lambda key: self.charged("api", key))
        self.assertLessEqual(set(passes), entered)

    def assert_keys_hold(self, start, others):
        seen = self.listen()
        hostile_forms.assert_alice_stays_out(self, start().port, seen, others)

    def held(self, limiter):
        return int(self.server.metric('weir_places_held{limiter="%s"}' % limiter))

    def assert_places(self, proxy, limiter):
        """Three at once, also after clients have gone, and none is left held."""
        clients = [proxy.begin("/held/200") for _ in range(8)]
        self.assertEqual(sorted(status for _, status in clients), [200] * 3 + [429] * 5)
        self.assertEqual((self.held(limiter), self.application.now), (3, 3))
        self.assertEqual(proxy.get()[0], 429)
        self.assertEqual(proxy.get(source="127.0.0.3")[0], 200)
        for client, _ in clients:
            client.close()
        await_that(lambda: self.held(limiter) == self.application.now == 0, "the places of clients that have gone")
        self.application.over.set()
        for _ in range(20):  # one after the other: each place is free for the next
            self.assertEqual(len(proxy.get("/held/200")[2]), 200000)
            await_that(lambda: self.held(limiter) == 0, "the place of an answer that is over")
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            told = [status for status, _, _ in pool.map(lambda _: proxy.get("/held/200"), range(200))]
        self.assertEqual({200, 429} | set(told), {200, 429})
        self.assertEqual(self.application.most, 3)
        await_that(lambda: self.held(limiter) == 0, "all places")

    def assert_comes_again(self, proxy, **how):
        """Some pass, and then one is denied; who comes again when it is told to passes."""
        told = [proxy.get(**how)]
        while told[-1][0] != 429:
            told.append(proxy.get(**how))
        time.sleep(int(told[-1][1]["Retry-After"]))
        self.assertEqual(proxy.get(**how)[0], 200)
        return len(told) - 1

    def assert_group(self, proxy, **how):
        """Of api, which admits three, and another limiter that admits two: both are charged, or none."""
        self.assertEqual([proxy.get(**how)[0] for _ in range(4)], [200, 200, 429, 429])
        self.assertEqual(self.charged("api", "127.0.0.2"), 2)

    def assert_limits(self, proxy, tells_allowed=True):
        """Three pass, the fourth is told when to come, and nobody can pretend to be another."""
        for left in (2, 1, 0):
            status, fields, body = proxy.get()
            self.assertEqual((status, body), (200, b"hello\n"))
            if tells_allowed:
                self.assertEqual(fields["RateLimit-Policy"], '"api";q=3;w=86400')
                self.assertRegex(fields["RateLimit"], r'^"api";r=%d;t=\d+$' % left)
            self.assertNotIn("Retry-After", fields)
        status, fields, _ = proxy.get(body="x" * 100000)
        self.assertEqual(status, 429)
        self.assertRegex(fields["RateLimit"], r'^"api";r=0;t=\d+$')
        self.assertLess(86000, int(fields["Retry-After"]))
        status, _, _ = proxy.get(fields={"X-Forwarded-For": "192.0.2.1"})
        self.assertEqual(status, 429, "a client chose its key")
        self.assertEqual(self.application.asked, 3)
        self.assertEqual(proxy.get(source="127.0.0.3", body="x" * 100000)[0], 200)
        self.assertEqual(proxy.get("/forbidden", source="127.0.0.3")[0], 403)
