"""How requests of gRPC spread once a second server has come: spread.py AGE, a grpc_age in seconds. Both share an
address by reuse_port, as replicas behind one address of a service do. Clients are those of Debian's gRPC, each with a
connection of its own; they begin while there is one server, and ask all the time. First by the default age, then by
AGE. docs/serve.md has the figures."""

import contextlib
import sys
import time

from envoy import per_year, question
from rls import OK, Rls, request_of
from server import PATIENCE_S, Server, hold_port

CLIENTS, REQUESTS = 24, 80  # 1,920 requests, once the age is over
ASKED = 'weir_serve_requests_total{protocol="grpc"}'
CONFIG = """
listen:
  grpc: {address: "127.0.0.1:%d", reuse_port: true}
  admin: {address: "127.0.0.1:0"}
stores: {main: {url: "memory:?timeout=10s"}}
envoy: {files: FOLDER/*.edge}
limits: {%s}
loops: 1
"""
EDGE = "domain: edge\ndescriptors: [{key: ip, %s}]\n" % per_year(1000000)
ASKS = request_of(question("edge", "ip=one"))


class Replica(Server):
    def write(self, config):
        with open(self.folder.name + "/1.edge", "w", encoding="ascii") as file:
            file.write(EDGE)
        super().write(config)


def ask(clients, rounds):
    for _ in range(rounds):
        for client in clients:
            if client.ask(ASKS).overall_code != OK:
                raise AssertionError("a request was not admitted")


def spread(limits, age_s):
    """How many of 1,920 requests each of two servers is asked, an age after the second has come."""
    with contextlib.ExitStack() as stack:
        port = stack.enter_context(hold_port()).getsockname()[1]
        first = stack.enter_context(Replica(CONFIG % (port, limits)))
        clients = [stack.enter_context(Rls("127.0.0.1:%d" % port)) for _ in range(CLIENTS)]
        ask(clients, 2)
        second = stack.enter_context(Replica(CONFIG % (port, limits)))
        until = time.monotonic() + age_s
        while time.monotonic() < until:
            ask(clients, 1)
        before = [server.metric(ASKED) for server in (first, second)]
        ask(clients, REQUESTS)
        return [int(server.metric(ASKED) - was) for server, was in zip((first, second), before)]


def main():
    age_s = float(sys.argv[1])
    stay = spread("", age_s)
    print("by the default age %d to %d" % tuple(stay))
    if stay != [CLIENTS * REQUESTS, 0]:
        return 1
    until = time.monotonic() + PATIENCE_S
    while True:  # which client comes to which is the kernel's choice
        told = spread("grpc_age: %gs" % age_s, age_s * 1.2)
        print("by an age of %g s %d to %d" % (age_s, *told))
        if sum(told) == CLIENTS * REQUESTS and min(told) >= CLIENTS * REQUESTS / 8:
            return 0
        if time.monotonic() > until:
            return 1


if __name__ == "__main__":
    sys.exit(main())
