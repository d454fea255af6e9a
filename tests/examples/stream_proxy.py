"""Drives a proxy that settles what streamed: clients that leave or are killed, a model that dies in
mid-stream, a store that is restarted, a proxy that is killed.

    stream_proxy.py PROGRAM COMMAND...        the proxy, with PORT and MODEL in its words

A command that holds WEIR asks a server, PROGRAM `serve`, which is restarted in mid-stream; any other
asks the store itself, by $WEIR_STORE. The store is private, by $WEIR_SERVE.
"""
import concurrent.futures
import contextlib
import http.client
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import time

from service import free_port

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "serve"))
from server import Store  # noqa: E402

PROGRAM, COMMAND = sys.argv[1], sys.argv[2:]
RULE = "fixed-window:100000/400d,name=tokens,debt=1000"
MODEL = [sys.executable, "-B", str(pathlib.Path(__file__).with_name("model_server.py"))]
PATIENCE_S = 60


def started(command, port, **environment):
    process = subprocess.Popen(command, env={**os.environ, **environment})
    end = time.monotonic() + PATIENCE_S
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return process
        except OSError:
            assert process.poll() is None and time.monotonic() < end, command
            time.sleep(0.05)


def end(process, how=signal.SIGTERM):
    process.send_signal(how)
    process.wait(PATIENCE_S)


class Stage:
    """Model, proxy and, where the proxy asks one, a server of weir, on counts of their own."""

    def __init__(self, store, folder):
        self.store, self.url = store, store.url + "?timeout=10s"
        self.model_port, self.proxy_port, self.weir_port = free_port(), free_port(), free_port()
        self.config = os.path.join(folder, "weir.yaml")
        pathlib.Path(self.config).write_text(
            f'listen:\n  http: {{address: "127.0.0.1:{self.weir_port}"}}\n'
            f'stores:\n  main: {{url: "{self.url}"}}\nlimiters:\n  tokens: {{store: main, rule: "{RULE}"}}\n', encoding="utf-8")
        self.serves = "WEIR" in COMMAND
        self.prefix = "tokens:" if self.serves else ""  # a server leads keys by its limiter
        self.model = self.weir = self.proxy = None

    def start(self):
        self.start_model()
        if self.serves:
            self.start_weir()
        self.start_proxy()

    def start_model(self):
        self.model = started([*MODEL, str(self.model_port)], self.model_port)

    def start_weir(self):
        self.weir = started([PROGRAM, "serve", self.config], self.weir_port)

    def start_proxy(self):
        words = {"PORT": str(self.proxy_port), "MODEL": f"http://127.0.0.1:{self.model_port}",
                 "WEIR": f"http://127.0.0.1:{self.weir_port}"}
        self.proxy = started([words.get(word, word) for word in COMMAND], self.proxy_port,
                             WEIR_STORE=self.url, WEIR_RULE=RULE)

    def end(self):
        for process in (self.proxy, self.weir, self.model):
            if process is not None and process.poll() is None:
                end(process, signal.SIGKILL)

    def stream(self, account, estimate, tokens, leave_after=None, every_s=0.0):
        """Status, and how many tokens came; None where the stream broke."""
        connection = http.client.HTTPConnection("127.0.0.1", self.proxy_port, timeout=PATIENCE_S)
        with contextlib.closing(connection):
            body = json.dumps({"max_tokens": estimate, "tokens": tokens, "every_s": every_s})
            try:
                connection.request("POST", "/stream", body, {"X-Account": account, "Content-Type": "application/json"})
                answer = connection.getresponse()
                came = 0
                for line in answer:
                    came += line.startswith(b"data: ") and b"DONE" not in line
                    if leave_after is not None and came >= leave_after:
                        break
                return answer.status, came
            except (OSError, http.client.HTTPException):
                return None, None

    def charged(self, account):
        done = subprocess.run([PROGRAM, "peek", "--store", self.url, "--rule", RULE, "--json", self.prefix + account],
                              capture_output=True, text=True, check=True)
        return 100000 - json.loads(done.stdout)["remaining"]

    def await_charged(self, account, accepted):
        """A client's end is seen a moment later."""
        until = time.monotonic() + PATIENCE_S
        while self.charged(account) not in accepted:
            assert time.monotonic() < until, (account, self.charged(account), accepted)
            time.sleep(0.1)


def check(stage):
    # At once: half the estimate, all of it, more than it.
    wanted = [(100, 50), (100, 100), (100, 130)] * 8
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        came = list(pool.map(lambda each: stage.stream("alice", *each), wanted))
    assert came == [(200, tokens) for _, tokens in wanted], came
    stage.await_charged("alice", [sum(tokens for _, tokens in wanted)])
    assert stage.stream("bob", 100001, 1)[0] == 429
    assert stage.stream("bob", "many", 1)[0] == 400
    stage.await_charged("bob", [0])

    # A client that leaves is charged what streamed until then, not what it asked for.
    assert stage.stream("carol", 5000, 5000, leave_after=20, every_s=0.005)[0] == 200
    stage.await_charged("carol", range(20, 1000))

    # So is one that is killed.
    words = ["-sN", "-H", "X-Account: kate", "-H", "Content-Type: application/json", "-d",
             json.dumps({"max_tokens": 5000, "tokens": 5000, "every_s": 0.005}), f"http://127.0.0.1:{stage.proxy_port}/stream"]
    client = subprocess.Popen(["curl", *words], stdout=subprocess.PIPE)
    client.stdout.read(200)
    end(client, signal.SIGKILL)
    client.stdout.close()
    stage.await_charged("kate", range(15, 1000))

    # A model that dies: what had come.
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        cut = pool.submit(stage.stream, "dave", 5000, 5000, None, 0.005)
        time.sleep(1)
        end(stage.model, signal.SIGKILL)
        cut.result(PATIENCE_S)
    stage.await_charged("dave", range(1, 1000))
    stage.start_model()

    # A server of weir that ends in mid-stream: the next one settles.
    if stage.serves:
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            slow = pool.submit(stage.stream, "erin", 1000, 200, None, 0.01)
            time.sleep(0.5)
            end(stage.weir)
            stage.start_weir()
            assert slow.result(PATIENCE_S) == (200, 200)
        stage.await_charged("erin", [200])

    # A store that has forgotten what was taken gives nothing back, and counts from then on.
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        slow = pool.submit(stage.stream, "gina", 1000, 200, None, 0.01)
        time.sleep(0.5)
        stage.store.order("restart")
        assert slow.result(PATIENCE_S) == (200, 200)
    stage.await_charged("gina", [0])
    assert stage.stream("gina", 100, 50) == (200, 50)
    stage.await_charged("gina", [50])

    # A proxy that is killed leaves its estimate charged: more than was used, never less.
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        lost = pool.submit(stage.stream, "frank", 3000, 3000, None, 0.005)
        time.sleep(1)
        end(stage.proxy, signal.SIGKILL)
        lost.result(PATIENCE_S)
    stage.start_proxy()
    stage.await_charged("frank", [3000])


def main():
    store = Store("memcached")
    with tempfile.TemporaryDirectory(prefix="weir-stream-") as folder:
        stage = Stage(store, folder)
        try:
            stage.start()
            check(stage)
        finally:
            stage.end()
            store.end()
    print("what streamed is what is charged")


main()
