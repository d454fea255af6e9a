"""restarts.py ROUNDS: servers take each other's places while clients come, one connection for each request, over
RESP, HTTP and gRPC, and over connections of HTTP that are kept until they are told to go. None may be lost: each
that gets a connection gets an answer. So it is with sockets that systemd hands over, where the old server has
ended before the new one starts; with servers that share an address by reuse_port; and with a unix socket, whose
next server begins as soon as it can.

A hunt: restarts.py 50. It needs WEIR_PROGRAM, as the tests beside it."""

import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time

from h2 import END_STREAM, HEADERS, PREFACE, SETTINGS, call, frame
from server import MORTAL, PATIENCE_S, PROGRAM, await_that, command, hold_port

PROTOCOLS = ("resp", "http", "grpc")
EACH = 3  # clients at once
STORE = "stores: {main: {url: \"memory:?timeout=10s\"}}\nlimiters: {big: {store: main, rule: \"quota:1000000000/1d\"}}\n"
GET = b"GET /check/big?key=k HTTP/1.1\r\nHost: localhost\r\n\r\n"
ASKS = {"resp": command("WEIR.TAKE", "big", "k"), "http": GET, "kept": GET,
        "grpc": PREFACE + frame(SETTINGS) + call(1, b"", **{":path": "/grpc.health.v1.Health/Check"})}
HAND_OVER = ("import os,sys; n=%d\nfor i in range(n): os.dup2(100 + i, 3 + i, inheritable=True)\n"
             "os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS=str(n), LISTEN_FDNAMES='%s')\n"
             "os.execv(sys.argv[1], sys.argv[1:])")


def connect(address):
    client = socket.socket(socket.AF_UNIX if isinstance(address, str) else socket.AF_INET)
    client.settimeout(20)
    client.connect(address)
    return client


def is_answered(protocol, data):
    """Whether it is there in whole."""
    if protocol == "resp":
        return data.startswith(b"*") and data.endswith(b"\r\n") and b"rule" in data
    if protocol != "grpc":
        return data.startswith(b"HTTP/1.1 200 ") and data.endswith(b"\r\n\r\n")
    while len(data) >= 9:  # an answer of its stream that ends it
        length = 9 + int.from_bytes(data[:3], "big")
        if data[3] == HEADERS and data[4] & END_STREAM and data[8] == 1:
            return True
        data = data[length:]
    return False


def ask(protocol, client):
    """The answer; where it is lost, how."""
    data = b""
    try:
        client.sendall(ASKS[protocol])
        while not is_answered(protocol, data):
            more = client.recv(1 << 16)
            if not more:
                return data, "closed"
            data += more
    except OSError as error:
        return data, type(error).__name__
    return data, None


def load(protocol, address, is_over, told):
    """Until it is over: how many were answered, and what became of the others."""
    answered, lost = 0, {}
    client = None
    while not is_over.is_set():
        if client is None:
            try:
                client = connect(address)
            except (ConnectionRefusedError, FileNotFoundError):
                if not isinstance(address, str):  # a unix socket is nobody's between two servers
                    lost["refused"] = lost.get("refused", 0) + 1
                continue
            except OSError as error:
                why = type(error).__name__ + " while it connects"
                lost[why] = lost.get(why, 0) + 1
                continue
        data, why = ask(protocol, client)
        if why is None:
            answered += 1
        else:
            why = why + (" after some of it" if data else "")
            lost[why] = lost.get(why, 0) + 1
        if protocol != "kept" or why is not None or b"Connection: close" in data:
            client.close()
            client = None
    told.put((protocol, answered, lost))


class Place:
    """Where servers follow each other."""

    def __init__(self, folder, way):
        self.way, self.folder = way, folder
        self.held, self.addresses = [], {}
        listen = "listen:\n"
        for i, protocol in enumerate(PROTOCOLS):
            if way == "unix":
                self.addresses[protocol] = f"{folder}/{protocol}"
                listen += f"  {protocol}: {{address: \"unix:{folder}/{protocol}\"}}\n"
            elif way == "systemd":
                one = socket.create_server(("127.0.0.1", 0), backlog=1024)
                os.dup2(one.fileno(), 100 + i, inheritable=True)
                listen += f"  {protocol}: {{address: \"systemd:{protocol}\"}}\n"
            else:
                one = hold_port()
                listen += "  %s: {address: \"127.0.0.1:%d\", reuse_port: true}\n" % (protocol, one.getsockname()[1])
            if way != "unix":
                self.held.append(one)
                self.addresses[protocol] = one.getsockname()
        self.addresses["kept"] = self.addresses["http"]
        self.file = folder + "/weir.yaml"
        with open(self.file, "w", encoding="ascii") as file:
            file.write(listen + STORE + "loops: 2\n")
        self.process = self.start()

    def start(self):
        command_line = [PROGRAM, "serve", self.file]
        if self.way == "systemd":
            command_line = ["python3", "-c", HAND_OVER % (len(PROTOCOLS), ":".join(PROTOCOLS))] + command_line
        path = self.folder + "/log"
        with open(path, "wb") as log:
            process = subprocess.Popen([*MORTAL, *command_line], stderr=log, pass_fds=(
                [100 + i for i in range(len(PROTOCOLS))] if self.way == "systemd" else []))

        def is_there():
            with open(path, encoding="ascii") as text:
                return text.read().count("listening at") == len(PROTOCOLS)
        await_that(lambda: is_there() or process.poll() is not None, "a server")
        if process.poll() is not None:
            with open(path, encoding="ascii") as text:
                raise AssertionError("did not start: " + text.read())
        return process

    def end(self, process):
        began = time.monotonic()
        process.send_signal(signal.SIGTERM)
        if process.wait(PATIENCE_S) != 0:
            raise AssertionError("it did not end well")
        return time.monotonic() - began

    def follow(self):
        """How long the old one took to end."""
        old = self.process
        if self.way == "reuse_port":
            self.process = self.start()
        took = self.end(old)
        if self.way != "reuse_port":
            self.process = self.start()
        return took


def try_way(way, rounds):
    """The losses, by protocol."""
    with tempfile.TemporaryDirectory(prefix="weir-restarts-") as folder:
        place = Place(folder, way)
        is_over, told = multiprocessing.Event(), multiprocessing.Queue()
        loads = [multiprocessing.Process(target=load, args=(protocol, address, is_over, told), daemon=True)
                 for protocol, address in place.addresses.items() for _ in range(EACH)]
        for one in loads:
            one.start()
        slowest = 0
        for _ in range(rounds):
            time.sleep(0.2)
            slowest = max(slowest, place.follow())
        time.sleep(0.2)
        is_over.set()
        results = [told.get(timeout=PATIENCE_S) for _ in loads]
        place.end(place.process)
        for held in place.held:
            held.close()
    print(f"{way}: {rounds} restarts, the slowest end took {slowest:.1f} s:", sorted(results))
    return [(way, protocol, lost) for protocol, answered, lost in results if lost or answered == 0]


def main():
    lost = []
    for way in ("systemd", "reuse_port", "unix"):
        lost += try_way(way, int(sys.argv[1]))
    print("lost:", lost)
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
