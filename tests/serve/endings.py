"""endings.py MIB: clients whose connection has been ended, and that send on: so much for each protocol and way to
end. The server keeps nothing of it and counts each of them once as broken. In one write comes what ends the
connection, and the beginning of a request behind it.

A hunt: endings.py 3072. It needs WEIR_PROGRAM and WEIR_SANITIZED, as the tests beside it."""

import os
import sys
import tempfile

from h2 import CONTINUATION, DATA, GOAWAY, HEADERS, PING, PREFACE, PUSH, RST_STREAM, SETTINGS, WINDOW_UPDATE, frame
from server import BASE, SANITIZED, Client, Server, await_that, command
from test_attacks import most_kib

MOST_KIB = 1024
CONFIG = BASE.replace("  admin:", "  grpc: {address: \"127.0.0.1:0\"}\n  admin:") + """
envoy: {files: "%s/*.limits"}
"""
LIMITS = "domain: edge\ndescriptors: [{key: k, rate_limit: {unit: day, requests_per_unit: 9}}]\n"
CLOSES = " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
JSON = "Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
BEGUN = PREFACE + frame(SETTINGS)
PART = {"resp": command("PING")[:5], "http": b"GET /", "admin": b"GET /", "grpc": frame(PING)[:5]}
WAYS = {
    "resp": {
        "leaves": command("QUIT"),
        "no request": b"*x\r\n",
        "too long": b"*1\r\n$99999999\r\n",
        "too many words": b"*99999\r\n",
    },
    "http": {
        "leaves": "GET /check/big?key=k" + CLOSES + "\r\n",
        "is of old": "GET /check/big?key=k HTTP/1.0\r\n\r\n",
        "no request": "GET\r\n\r\n",
        "a body too long": "POST /take HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999\r\n\r\n",
        "could be read twice": "GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        "of Envoy, leaves": "POST /json" + CLOSES + JSON,
    },
    "admin": {
        "leaves": "GET /metrics" + CLOSES + "\r\n",
        "no request": "GET\r\n\r\n",
    },
    "grpc": {
        "no preface": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "leaves": BEGUN + frame(GOAWAY, payload=bytes(8)),
        "data of no stream": BEGUN + frame(DATA, payload=b"x"),
        "data of a stream that is none": BEGUN + frame(DATA, 0, 1, b"x"),
        "a window by nothing": BEGUN + frame(WINDOW_UPDATE, payload=bytes(4)),
        "settings of six and a half": BEGUN + frame(SETTINGS, payload=bytes(7)),
        "a stream of the server's": BEGUN + frame(HEADERS, 4, 2, b"\x82"),
        "fields that are none": BEGUN + frame(HEADERS, 4, 1, b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"),
        "a promise": BEGUN + frame(PUSH, 4, 1, bytes(5)),
        "the end of what has not begun": BEGUN + frame(RST_STREAM, 0, 1, bytes(4)),
        "more of no head": BEGUN + frame(CONTINUATION, 4, 1, b"\x82"),
        "a frame too long": BEGUN + frame(PING, payload=bytes(16385)),
        "a window too wide": BEGUN + frame(WINDOW_UPDATE, payload=b"\x7f\xff\xff\xff"),
    },
}


def send_on(server, protocol, ends, wanted):
    """Over as many connections as it takes; how many they were."""
    text = b"x" * (1 << 20)
    connections = sent = 0
    while sent < wanted:
        client = Client(("127.0.0.1", server.ports[protocol][0]))
        connections += 1
        try:
            client.send((ends.encode("latin-1") if isinstance(ends, str) else ends) + PART[protocol])
            while sent < wanted:
                sent += client.socket.send(text[:wanted - sent])
        except OSError:
            pass
        client.close()
    return connections


def try_way(server, protocol, ends, mib):
    """The memory that it took, in KiB, and how many were counted of how many."""
    broken = server.metric("weir_serve_broken_total")
    with open(f"/proc/{server.process.pid}/clear_refs", "w", encoding="ascii") as file:
        file.write("5")  # the most that there was is what there is now
    before = most_kib(server)
    connections = send_on(server, protocol, ends, mib << 20)
    await_that(lambda: server.metric("weir_serve_connections") <= 1, "all of them to be gone")
    return most_kib(server) - before, server.metric("weir_serve_broken_total") - broken, connections


def try_all(config, mib):
    faults = []
    with Server(config) as server:
        for protocol, ways in WAYS.items():
            for ends in ways.values():
                send_on(server, protocol, ends, 1 << 16)  # what a first one takes once
        await_that(lambda: server.metric("weir_serve_connections") <= 1, "all of them to be gone")
        for protocol, ways in WAYS.items():
            for name, ends in ways.items():
                grown, broken, connections = try_way(server, protocol, ends, mib)
                print(f"{protocol}: {name}: +{grown} KiB, {broken:.0f} broken of {connections}")
                if not SANITIZED and grown > MOST_KIB:
                    faults.append(f"{protocol}: {name}: {grown} KiB")
                if broken > connections or (broken < connections and "leaves" not in name and "old" not in name):
                    faults.append(f"{protocol}: {name}: {broken:.0f} counted of {connections}")
    return faults


def main():
    with tempfile.TemporaryDirectory(prefix="weir-endings-") as folder:
        with open(os.path.join(folder, "edge.limits"), "w", encoding="ascii") as file:
            file.write(LIMITS)
        faults = try_all(CONFIG % folder, int(sys.argv[1]))
    print("wrong:", faults)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
