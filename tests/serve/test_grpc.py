"""gRPC with Debian's own client: Envoy's rate limit service, and the health of the server."""

import json
import os
import select
import socket
import subprocess
import tempfile
import threading
import unittest

import grpc

from envoy import Served, UNLIMITED, YEAR_S, per_year, question
from rls import CLASSES, NOT_SERVING, OK, OVER, RLS, Request, Response, Rls, SERVICE_UNKNOWN, SERVING, answer_of, \
    request_of
from server import PATIENCE_S, Server, Store, await_that, http
from test_agreement import over_resp, replay, trace
from test_envoy import EXAMPLES
from test_http import post

GRPC = """
listen:
  http: {address: "127.0.0.1:0"}
  grpc: {address: "127.0.0.1:0"%s}
  admin: {address: "127.0.0.1:0"}
"""
EDGE = {"edge.yaml": """
domain: edge
descriptors:
  - {key: ip, %s}
  - {key: free, rate_limit: {unlimited: true}}
  - {key: none, rate_limit: {unit: HOUR, requests_per_unit: 0}}
  - {key: named, %s}
""" % (per_year(3), per_year(1000, ", name: a name"))}


HOSTILE_VALUES = [
    b" ", b"alice", b" alice", b"alice ", b"ALICE", b"alice\0", b"\0alice", b"\0", b"alice\r\n", b"alice\x7f", b"\x01alice",
    b"\xff\xfe", b"\xd0\xb0lice", b"alice\xd0", b"%61lice", b"alice%00", b"alice/ip=bob", b"/edge/ip=alice", b"alice:", b"*", b"ali*",
    b"alice,bob", b'"alice"', b"{alice}", b"$alice", b"alice\\", b"k" * 250, b"k" * 251, b"k" * 1000, b"k" * 4000, b"k" * 4097, b"/" * 1300,
    b"/" * 5000, b"k" * 20000, b"k" * 60000]


class Grpc(Served):
    listen = GRPC % ""

    def client(self, server, **options):
        made = Rls("127.0.0.1:%d" % server.ports["grpc"][0], **options)
        self.addCleanup(made.close)
        return made

    def fails(self, code, call, *args, **options):
        with self.assertRaises(grpc.RpcError) as caught:
            call(*args, **options)
        self.assertEqual(caught.exception.code(), code, caught.exception.details())
        return caught.exception.details()


def edge(*descriptors, **more):
    return request_of(question("edge", *descriptors, **more))


class Says(Grpc):
    listen = GRPC % ", says: [class]"

    def test_an_entry_says_the_class(self):
        server = self.start(EDGE, ", domains: {edge: {classes: batch:2}}")
        client = self.client(server)
        told = [client.ask(edge("ip=1/weir_class=batch")) for _ in range(3)]
        self.assertEqual([t.overall_code for t in told], [OK, OK, OVER])
        self.assertEqual([t.statuses[0].current_limit.requests_per_unit for t in told], [2, 2, 2])
        self.assertEqual(client.ask(edge("ip=1")).overall_code, OK)
        self.assertEqual(client.ask(edge("ip=2/weir_class=gold")).overall_code, OVER)
        self.assertIn("says: [limit] in listen.grpc", self.fails(
            grpc.StatusCode.INVALID_ARGUMENT, client.ask, edge("ip=1/weir_limit=5")))
        client, asked = server.connect("http"), post("/json", question("edge", "ip=3/weir_class=batch"))
        self.assertEqual(http(client, asked)[0], 400)  # a listener of its own, which allows none
        client.close()


class Answers(Grpc):
    def test_examples_of_the_other_service(self):
        names = {name: "d%d" % i for i, name in enumerate(EXAMPLES)}
        server = self.start({names[name] + ".yaml": "domain: %s\ndescriptors:%s" % (names[name], text)
                             for name, (text, _) in EXAMPLES.items()})
        client = self.client(server)
        marks = {OK: "+", OVER: "-"}
        for name, (_, asked) in EXAMPLES.items():
            for times, descriptors, expected in asked:
                for _ in range(int(times[:-1])):
                    told = client.ask(request_of(question(names[name], *descriptors)))
                    codes = marks[told.overall_code] + " " + "".join(marks[s.code] for s in told.statuses)
                    self.assertEqual(codes, expected, (name, descriptors))

    def test_are_those_of_json(self):
        """Each question over both ways, under keys of their own: equal but for the second they were asked in."""
        server = self.start(EDGE)
        client = self.client(server)
        web = server.connect("http")
        for asked in (["ip=KEY"], ["ip=KEY"], ["ip=KEY", "free=KEY"], ["ip=KEY"], ["none=KEY"], ["other=KEY"],
                      ["named=KEY"] * 3, [{"entries": [{"key": "ip", "value": "KEY"}], "hitsAddend": 0}],
                      [{"entries": [{"key": "named", "value": "KEY2"}], "hitsAddend": 7}],
                      [{"entries": [{"key": "new", "value": "KEY"}], "limit": {"requestsPerUnit": 2, "unit": "YEAR"}}],
                      [{"entries": [{"key": "new", "value": "KEY"}], "limit": {"requestsPerUnit": 0, "unit": "DAY"}}]):
            whole = question("edge", *asked)
            told = client.ask(request_of(json.loads(json.dumps(whole).replace("KEY", "g"))))
            body = http(web, post("/json", json.loads(json.dumps(whole).replace("KEY", "h"))))[1]
            expected = json.loads(body)
            for status in expected["statuses"]:
                if status.get("limitRemaining") == 0:
                    del status["limitRemaining"]
            reset = [[s.pop("durationUntilReset", None) for s in a["statuses"]] for a in (expected, answer_of(told))]
            self.assertEqual([r is None for r in reset[0]], [r is None for r in reset[1]], asked)
            mine = answer_of(told)
            for status in mine["statuses"]:
                status.pop("durationUntilReset", None)
            self.assertEqual(mine, expected, asked)
        web.close()

    def test_figures(self):
        client = self.client(self.start(EDGE))
        told = client.ask(edge("ip=1", "free=1", "named=1"))
        self.assertEqual([s.limit_remaining for s in told.statuses], [2, UNLIMITED, 999])
        self.assertEqual(told.statuses[2].current_limit.name, "a name")
        self.assertFalse(told.statuses[1].HasField("current_limit"))
        self.assertGreater(told.statuses[0].duration_until_reset.seconds, 0)
        self.assertEqual((told.raw_body, len(told.request_headers_to_add)), (b"", 0))
        self.assertEqual(client.ask(edge("named=2", hitsAddend=2**32 - 1)).overall_code, OVER)
        self.assertEqual(client.ask(edge("named=2", hitsAddend=1000)).statuses[0].limit_remaining, 0)

    def test_negative_hits_go_back(self):
        client = self.client(self.start(EDGE))
        gives_back = edge("ip=1", "named=1", hitsAddend=2)
        gives_back.descriptors[0].is_negative_hits = True
        for _ in range(2):
            self.assertEqual(client.ask(edge("ip=1", hitsAddend=3)).overall_code, OK)
            told = client.ask(gives_back)
            self.assertEqual([s.limit_remaining for s in told.statuses][0], 2)
            self.assertEqual(client.ask(edge("ip=1", hitsAddend=3)).overall_code, OVER)
            gives_back.descriptors[0].hits_addend.value = 1
            client.ask(gives_back)
            gives_back.descriptors[0].hits_addend.value = 2
        self.assertEqual(told.statuses[1].limit_remaining, 994)

    def test_headers(self):
        server = self.start(EDGE, ", domains: {edge: {headers: draft-03}}")
        client = self.client(server)
        for left in ("2", "1", "0", "0"):
            told = client.ask(edge("ip=h", "named=h"))
            fields = {field.key: field.value for field in told.response_headers_to_add}
            self.assertEqual((fields["X-RateLimit-Limit"], fields["X-RateLimit-Remaining"]), ("3", left))
        self.assertIn("Retry-After", fields)

    def test_a_limit_above_the_most_is_lowered(self):
        client = self.client(self.start(EDGE))
        asked = edge("ip=1")
        asked.descriptors[0].limit.requests_per_unit = 2**32 - 1
        asked.descriptors[0].limit.unit = 6
        told = client.ask(asked).statuses[0]
        self.assertEqual((told.current_limit.requests_per_unit, told.limit_remaining), (10**9, 10**9 - 1))

    def test_what_is_no_request(self):
        client = self.client(self.start(EDGE))
        invalid = grpc.StatusCode.INVALID_ARGUMENT
        self.assertIn("domain", self.fails(invalid, client.ask, Request()))
        self.assertIn("descriptors", self.fails(invalid, client.ask, Request(domain="edge")))
        self.fails(invalid, client.ask, edge(*["ip=1"] * 65))
        self.fails(invalid, client.ask, edge("/".join(["ip=1"] * 513)))
        gives_back = edge(*["ip=1"] * 9)
        for descriptor in gives_back.descriptors:
            descriptor.is_negative_hits = True
        self.assertIn("at most 8", self.fails(invalid, client.ask, gives_back))
        for requests, unit in ((1, 0), (1, 7)):
            wrong = edge("ip=1")
            wrong.descriptors[0].limit.requests_per_unit = requests
            wrong.descriptors[0].limit.unit = unit
            self.assertIn("descriptors[0].limit", self.fails(invalid, client.ask, wrong))
        raw = client.channel.unary_unary("/" + RLS + "/ShouldRateLimit", lambda x: x, lambda x: x)
        self.assertIn("protobuf", self.fails(invalid, raw, b"\x0a\xff", timeout=PATIENCE_S))
        self.assertEqual(client.ask(edge("ip=1")).statuses[0].limit_remaining, 2)

    def test_hostile_values(self):
        """Clients' own text in the fields of which Envoy makes descriptors: never an error, which Envoy lets pass,
        and never another's count. Envoy does not look whether it is UTF-8, as this client does."""
        client = self.client(self.start(EDGE))
        raw = client.channel.unary_unary("/" + RLS + "/ShouldRateLimit", lambda x: x, Response.FromString)
        for value in (*HOSTILE_VALUES, b"x" * 100000):
            written = edge("ip=" + "x" * len(value)).SerializeToString()
            told = [raw(written.replace(b"x" * len(value), value), timeout=PATIENCE_S) for _ in range(4)]
            codes = [each.overall_code for each in told]
            self.assertEqual(codes, [OVER] * 4 if len(value) > 4000 else [OK] * 3 + [OVER], value[:40])

    def test_what_is_not_served(self):
        client = self.client(self.start(EDGE))
        unimplemented = grpc.StatusCode.UNIMPLEMENTED
        for path in ("/envoy.service.ratelimit.v2.RateLimitService/ShouldRateLimit", "/x", "/" + RLS + "/Other"):
            other = client.channel.unary_unary(path, lambda x: x, lambda x: x)
            self.fails(unimplemented, other, b"", timeout=PATIENCE_S)
        raw = client.channel.unary_unary("/" + RLS + "/ShouldRateLimit", lambda x: x, lambda x: x)
        self.fails(unimplemented, raw, edge("ip=1" + "1" * 3000).SerializeToString(), timeout=PATIENCE_S,
                   compression=grpc.Compression.Gzip)
        self.assertEqual(Response.FromString(raw(b"\0" * (64 * 1024 + 1), timeout=PATIENCE_S)).overall_code, OVER)
        self.fails(grpc.StatusCode.INVALID_ARGUMENT, raw, b"\0" * (64 * 1024), timeout=PATIENCE_S)

    def test_without_files_and_without_a_store(self):
        plain = Server(self.listen + 'stores: {main: {url: "memory:"}}\nlimiters: {a: {store: main, rule: "quota:1/1d"}}\n')
        self.addCleanup(plain.end)
        self.fails(grpc.StatusCode.NOT_FOUND, self.client(plain).ask, edge("ip=1"))
        store = Store("memcached")
        self.addCleanup(store.end)
        server = self.start(EDGE, stores='stores: {main: {url: "%s", fallback: none}}\n' % store.url)
        client = self.client(server)
        store.order("kill")
        details = self.fails(grpc.StatusCode.UNAVAILABLE, client.ask, edge("ip=1"))
        self.assertRegex(details, "^(UNAVAILABLE|TIMEOUT|LOST|UNKNOWN_OUTCOME): ")
        self.assertEqual(client.ask(edge("free=1")).overall_code, OK)

    def test_health(self):
        server = self.start(EDGE)
        client = self.client(server)
        self.assertEqual([client.health(), client.health(RLS)], [SERVING, SERVING])
        self.fails(grpc.StatusCode.NOT_FOUND, client.health, "other")
        asks = CLASSES["HealthCheckRequest"]
        watched = {service: client.watch(asks(service=service)) for service in ("", RLS, "other")}
        first = {service: next(told).status for service, told in watched.items()}
        self.assertEqual(first, {"": SERVING, RLS: SERVING, "other": SERVICE_UNKNOWN})
        server.end()
        self.assertEqual(next(watched[RLS]).status, NOT_SERVING)
        self.fails(grpc.StatusCode.UNAVAILABLE, next, watched[RLS])

    def test_many_at_once_over_one_connection(self):
        server = self.start(EDGE)
        client = self.client(server)
        calls = [client.should.future(edge("named=x"), timeout=PATIENCE_S) for _ in range(3000)]
        left = [call.result().statuses[0].limit_remaining for call in calls]
        self.assertEqual(sorted(left, reverse=True)[:1000], list(range(999, -1, -1)))
        self.assertEqual(sum(call.result().overall_code == OK for call in calls), 1000)
        self.assertEqual(server.metric('weir_serve_requests_total{protocol="grpc"}'), 3000)


class Agreement(Grpc):
    """One trace through gRPC, /json, RESP and weir replay, on every store: the same decisions."""

    ALGORITHMS = ("fixed-window", "sliding-window", "quota", "token-bucket")

    def test_every_way_and_store_decides_alike(self):
        urls = {"memory": "memory:"}
        for kind in ("memcached", "redis"):
            store = Store(kind)
            self.addCleanup(store.end)
            urls[kind] = store.url
        rules = {algorithm: "%s:40/%ds" % (algorithm, YEAR_S) for algorithm in self.ALGORITHMS}
        domains = {f"{store}-{algorithm}-{way}": (store, algorithm) for store in urls for algorithm in rules
                   for way in ("grpc", "json")}
        limiters = "".join('  %s-%s: {store: %s, rule: "%s"}\n' % (store, algorithm, store, rule)
                           for store in urls for algorithm, rule in rules.items())
        self.listen = GRPC % "" + '  resp: {address: "127.0.0.1:0"}\n'
        server = self.start(
            {name + ".yaml": "domain: %s\ndescriptors: [{key: k, %s}]\n" % (name, per_year(40)) for name in domains},
            ", domains: {%s}" % ", ".join("%s: {store: %s, algorithm: %s}" % (name, *of) for name, of in domains.items()),
            "limiters:\n" + limiters, "stores:\n" + "".join(
                '  %s: {url: "%s?timeout=10s", processes: 1, fallback: none}\n' % pair for pair in urls.items()))
        client, web = self.client(server), server.connect("http")

        def told(answer):
            status = answer["statuses"][0]
            return status["code"] == "OK", 40, status.get("limitRemaining", 0)
        for algorithm, rule in rules.items():
            asked = [(algorithm + key, cost) for key, cost in trace(120, 5)]
            expected = replay(rule, asked, "memory:")
            self.assertEqual({allowed for allowed, _, _ in expected}, {True, False})
            for store, url in urls.items():
                def questions(way):
                    return [question(f"{store}-{algorithm}-{way}", "k=" + key, hitsAddend=cost) for key, cost in asked]
                ways = {
                    "replay": replay(rule, asked, url),
                    "resp": over_resp(server, f"{store}-{algorithm}", asked),
                    "json": [told(json.loads(http(web, post("/json", one))[1])) for one in questions("json")],
                    "grpc": [told(answer_of(client.ask(request_of(one)))) for one in questions("grpc")],
                }
                for way, got in ways.items():
                    # The rest is not known (-1) under a cost that no limit allows; on the wire that is 0.
                    differs = [row for row in zip(asked, expected, got)
                               if row[1][:2] != row[2][:2] or max(row[1][2], 0) != max(row[2][2], 0)]
                    self.assertEqual((len(got), differs[:3]), (len(expected), []), (algorithm, store, way))
        web.close()


class Relay(threading.Thread):
    """Stands before a store, and counts what goes there and comes back."""

    def __init__(self, url):
        super().__init__()
        host, port = url.removeprefix("memcached://").split(":")
        self.store = (host, int(port))
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = "memcached://127.0.0.1:%d" % self.listener.getsockname()[1]
        self.trips = self.commands = 0
        self.must_end = threading.Event()
        self.start()

    def run(self):
        peers, from_server = {}, set()  # a socket's other side; those that the server of weir has connected
        answered = {}
        while not self.must_end.is_set():
            for ready in select.select([self.listener, *peers], [], [], 0.05)[0]:
                if ready is self.listener:
                    ours, theirs = ready.accept()[0], socket.create_connection(self.store)
                    peers[ours], peers[theirs] = theirs, ours
                    from_server.add(ours)
                    answered[ours] = True
                    continue
                data = ready.recv(1 << 16)
                if ready in from_server and data:
                    self.trips += answered[ready]  # more of the same question is no other trip
                    answered[ready] = False
                    self.commands += data.count(b"\r\nma ") + data.startswith(b"ma ")
                elif data:
                    answered[peers[ready]] = True
                if not data:
                    for one in (ready, peers[ready]):
                        del peers[one]
                        one.close()
                    break  # what else is ready may be the other of the two
                peers[ready].sendall(data)
        for one in (self.listener, *peers):
            one.close()

    def end(self):
        self.must_end.set()
        self.join()


class Stores(Grpc):
    def test_four_descriptors_are_one_round_trip(self):
        """Four limits, so four limiters, over a real memcached."""
        names = ["a", "b", "c", "d"]
        files = {"edge.yaml": "domain: edge\ndescriptors:\n" + "".join(
            "  - {key: %s, %s}\n" % (name, per_year(10 + 100 * i)) for i, name in enumerate(names))}
        store = Store("memcached")
        self.addCleanup(store.end)
        relay = Relay(store.url)
        self.addCleanup(relay.end)
        stores = 'stores: {main: {url: "%s?timeout=10s", processes: 1, fallback: none}}\n' % relay.url
        server = self.start(files, stores=stores)
        client = self.client(server)
        client.ask(edge(*(name + "=0" for name in names)))  # before its first date it asks for the server's clock
        for left in range(9, -1, -1):
            before = relay.trips, relay.commands
            told = client.ask(edge(*(name + "=1" for name in names)))
            self.assertEqual([s.limit_remaining for s in told.statuses], [left + 100 * i for i in range(4)])
            self.assertEqual((relay.trips - before[0], relay.commands - before[1]), (1, 4))
        self.assertEqual(client.ask(edge(*(name + "=1" for name in names))).overall_code, OVER)
        before = relay.trips, relay.commands  # one is used up, as the server knows now
        self.assertEqual(client.ask(edge(*(name + "=1" for name in names))).overall_code, OVER)
        self.assertEqual((relay.trips - before[0], relay.commands - before[1]), (1, 3))

    def test_together_is_one_round_trip_or_two(self):
        """Admitted; denied; and what is known to be over lets the others only be looked at."""
        names = ["a", "b", "c", "d"]
        files = {"edge.yaml": "domain: edge\ndescriptors:\n" + "".join(
            "  - {key: %s, %s}\n" % (name, per_year(2 if name == "b" else 99)) for name in names)}
        store = Store("memcached")
        self.addCleanup(store.end)
        relay = Relay(store.url)
        self.addCleanup(relay.end)
        stores = 'stores: {main: {url: "%s?timeout=10s", processes: 1, fallback: none}}\n' % relay.url
        server = self.start(files, ", domains: {edge: {together: true}}", stores=stores)
        client = self.client(server)
        client.ask(edge(*(name + "=0" for name in names)))  # as above
        for left, trips, commands in (((98, 1, 98, 98), 1, 4), ((97, 0, 97, 97), 1, 4), ((97, 0, 97, 97), 2, 8),
                                      ((97, 0, 97, 97), 1, 0)):  # of reads it counts none
            before = relay.trips, relay.commands
            told = client.ask(edge(*(name + "=1" for name in names)))
            self.assertEqual([s.limit_remaining for s in told.statuses], list(left))
            self.assertEqual((relay.trips - before[0], relay.commands - before[1]), (trips, commands), left)

    def without_a_store(self, fallback):
        """Two limits, of 3 and of 1000, are charged; the store dies; what ten more are answered, and by whom."""
        store = Store("memcached")
        self.addCleanup(store.end)
        stores = 'stores: {main: {url: "%s", processes: 1, fallback: %s}}\n' % (store.url, fallback)
        server = self.start(EDGE, stores=stores)
        client = self.client(server)
        await_that(lambda: client.ask(edge("ip=1", "named=1")).overall_code == OK, "an answer")

        def decided(decision, *sources):
            row = 'weir_serve_decisions_total{limiter="/edge",protocol="grpc",decision="%s",source="%s"}'
            return sum(server.metric(row % (decision, source)) for source in sources)
        by_store, by_policy = ([decided(decision, *sources) for decision in ("allowed", "denied")]
                               for sources in (("store", "local"), ("fallback", "late")))  # a slow first answer
        store.order("kill")
        told = [client.ask(edge("ip=1", "named=1")) for _ in range(10)]
        self.assertEqual([decided(decision, "store", "local") for decision in ("allowed", "denied")], by_store)
        codes = [[status.code for status in one.statuses] for one in told]
        allowed = sum(code == OK for row in codes for code in row)
        self.assertEqual([decided(decision, "fallback", "late") for decision in ("allowed", "denied")],
                         [by_policy[0] + allowed, by_policy[1] + 20 - allowed])
        for one, row in zip(told, codes):
            self.assertEqual(one.overall_code, OVER if OVER in row else OK)
        return codes

    def test_a_store_that_died_with_deny(self):
        self.assertEqual(self.without_a_store("deny"), [[OVER, OVER]] * 10)

    def test_a_store_that_died_with_local(self):
        codes = self.without_a_store("local")
        small = [row[0] for row in codes]
        self.assertLessEqual(small.count(OK), 2)  # what was left of it
        self.assertEqual(small[-1], OVER)
        self.assertEqual([row[1] for row in codes][-1], OK)  # which has room

    def test_a_store_that_died_with_allow(self):
        self.assertEqual(self.without_a_store("allow"), [[OK, OK]] * 10)


class Sharing(Grpc):
    """32 clients of four servers, over one limit of a month on memcached: never over it."""

    LIMIT, CLIENTS = 400, 32

    def share(self, domains):
        store = Store("memcached")
        self.addCleanup(store.end)
        files = {"edge.yaml": "domain: edge\ndescriptors: [{key: k, rate_limit: {unit: month, requests_per_unit: %d}}]\n"
                 % self.LIMIT}
        stores = 'stores: {main: {url: "%s?timeout=10s", processes: 4, fallback: none}}\n' % store.url
        servers = [self.start(files, domains, "loops: 1\n", stores) for _ in range(4)]
        admitted = [0] * self.CLIENTS

        def ask(i):
            client = self.client(servers[i % len(servers)])
            for _ in range(2 * self.LIMIT // self.CLIENTS):
                admitted[i] += client.ask(edge("k=x")).overall_code == OK
        threads = [threading.Thread(target=ask, args=(i,)) for i in range(self.CLIENTS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(sum(admitted), self.LIMIT)

    def test_months_of_30_days(self):
        self.share("")

    def test_months_of_the_calendar(self):
        self.share(", domains: {edge: {calendar: true}}")


class Guarded(Grpc):
    def start_with(self, more):
        self.listen = GRPC % more
        return self.start(EDGE)

    def test_tokens(self):
        server = self.start_with(", auth: [one, another]")
        self.fails(grpc.StatusCode.UNAUTHENTICATED, self.client(server).ask, edge("ip=1"))
        good = self.client(server, metadata=[("authorization", "Bearer another")])
        self.assertEqual(good.ask(edge("ip=1")).overall_code, OK)
        bad = self.client(server, metadata=[("authorization", "Bearer wrong")])
        for _ in range(3):
            self.fails(grpc.StatusCode.UNAUTHENTICATED, bad.ask, edge("ip=1"))
        another = self.client(server, metadata=[("authorization", "Bearer one")])
        self.assertEqual(another.ask(edge("ip=1")).overall_code, OK)
        self.assertEqual(server.metric("weir_serve_unauthorized_total"), 4)

    def test_tls(self):
        with tempfile.TemporaryDirectory(prefix="weir-grpc-tls-") as folder:
            def path(name):
                return os.path.join(folder, name)

            def openssl(*words):
                subprocess.run(["openssl", *words], check=True, capture_output=True, cwd=folder)
            openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "1",
                    "-keyout", "key.pem", "-out", "cert.pem", "-subj", "/CN=localhost", "-addext",
                    "subjectAltName=DNS:localhost,IP:127.0.0.1")
            server = self.start_with(", tls: {certificate: %s, key: %s, client_ca: %s}" %
                                     (path("cert.pem"), path("key.pem"), path("cert.pem")))
            with open(path("cert.pem"), "rb") as cert, open(path("key.pem"), "rb") as key:
                cert, key = cert.read(), key.read()
            own = grpc.ssl_channel_credentials(cert, key, cert)
            self.assertEqual(self.client(server, credentials=own).ask(edge("ip=1")).overall_code, OK)
            stranger = grpc.ssl_channel_credentials(cert)
            self.fails(grpc.StatusCode.UNAVAILABLE, self.client(server, credentials=stranger).ask, edge("ip=1"))
            port = str(server.ports["grpc"][0])
            for names, expected in (("h2", "ALPN protocol: h2"), ("http/1.1", "alert")):
                told = subprocess.run(["openssl", "s_client", "-connect", "127.0.0.1:" + port, "-alpn", names, "-cert",
                                       path("cert.pem"), "-key", path("key.pem")], input=b"", capture_output=True)
                self.assertIn(expected, (told.stdout + told.stderr).decode("latin-1"))

    def test_a_unix_socket(self):
        with tempfile.TemporaryDirectory(prefix="weir-grpc-") as folder:
            path = os.path.join(folder, "rls.sock")
            self.listen = (GRPC % "").replace('grpc: {address: "127.0.0.1:0"}', "grpc: {address: 'unix:%s'}" % path)
            self.start(EDGE)
            with Rls("unix:" + path) as client:
                self.assertEqual(client.ask(edge("ip=1")).overall_code, OK)


class Ends(Grpc):
    def test_sigterm_loses_no_request(self):
        """Clients that ask all the time meet the end of one server and the beginning of the next."""
        server = self.start(EDGE)
        failed, asked, stop = [], [0] * 4, threading.Event()

        def run(i):
            client = self.client(server)
            while not stop.is_set():
                try:
                    client.ask(edge("named=%d" % i))
                    asked[i] += 1
                except grpc.RpcError as error:
                    failed.append((error.code(), error.details()))
                    return
        threads = [threading.Thread(target=run, args=(i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        await_that(lambda: min(asked) > 50, "requests")
        server.end()
        for thread in threads:
            thread.join()
        stop.set()
        # Where there is no server any more, a client cannot connect; none is lost on a connection.
        for code, details in failed:
            self.assertEqual(code, grpc.StatusCode.UNAVAILABLE)
            self.assertIn("onnect", details)

    def test_a_client_grows_old_and_loses_no_request(self):
        """It makes another connection, and another, while it asks all the time."""
        server = self.start(EDGE, rest="limits: {grpc_age: 1s}\n")
        client, states, asked = self.client(server), [], 0
        client.channel.subscribe(states.append)
        while states.count(grpc.ChannelConnectivity.READY) < 3:
            client.ask(edge("named=%d" % (asked // 900)))
            asked += 1


if __name__ == "__main__":
    unittest.main()
