"""A client of gRPC and HTTP/2: what it can make of it, and what it cannot."""

import concurrent.futures
import re
import signal
import statistics
import time
import unittest

import grpc
from envoy import question
from h2 import ACK, CALM, CONTINUATION, DATA, END_HEADERS, END_STREAM, FRAME_SIZE, GOAWAY, HEADERS, NO_ERROR, PING, \
    PRIORITY, PROTOCOL_ERROR, Raw, RST_STREAM, SETTINGS, WINDOW_UPDATE, body, call, fields, frame, text
from rls import OK, OVER
from server import Client, SANITIZED, await_that, http
from test_attacks import most_kib
from test_grpc import EDGE, GRPC, Grpc, edge
from test_http import post

ASKS = edge("named=x").SerializeToString()


class Bounded(Grpc):
    limits = ""
    domains = ""

    def setUp(self):
        self.server = self.start(EDGE, self.domains, rest="limits: {%s}\n" % self.limits if self.limits else "")

    def raw(self, **options):
        client = Raw(self.server.ports["grpc"][0], **options)
        self.addCleanup(client.close)
        client.settle()
        return client

    def left(self):
        """The rest of the limit that ASKS charges."""
        with_peek = edge({"entries": [{"key": "named", "value": "x"}], "hitsAddend": 0})
        return self.client(self.server).ask(with_peek).statuses[0].limit_remaining


class Together(Bounded):
    """Descriptors that are one decision: none is charged where the call is over, or taken back."""

    domains = ", domains: {edge: {together: true}}"

    def test_what_came_too_late_or_went_away(self):
        asks = edge("ip=1", "named=x").SerializeToString()
        client = self.raw()
        client.send(call(1, asks, grpc_timeout="0m"))
        client.until(HEADERS, 1, END_STREAM)
        self.assertEqual(self.server.metric("weir_serve_expired_total"), 1)
        client.send(call(3, asks) + frame(RST_STREAM, 0, 3, b"\0\0\0\x08") + call(5, asks, grpc_timeout="60S"))
        client.until(HEADERS, 5, END_STREAM)
        self.assertEqual(self.left(), 999 - (1 - self.server.metric("weir_serve_cancelled_total")))


class Requests(Bounded):
    limits = "logged_denials: 1000"

    def test_cut_anywhere(self):
        client = Raw(self.server.ports["grpc"][0])
        self.addCleanup(client.close)
        for byte in call(1, ASKS):
            client.send(bytes([byte]))
        client.until(HEADERS, 1, END_STREAM)
        client.send(frame(HEADERS, 0, 3, fields()[:20]) + frame(CONTINUATION, END_HEADERS, 3, fields()[20:]) +
                    b"".join(frame(DATA, 0, 3, bytes([byte])) for byte in body(ASKS)) + frame(DATA, END_STREAM, 3))
        client.until(HEADERS, 3, END_STREAM)
        self.assertEqual(self.left(), 998)

    def test_a_time_that_is_over_charges_nothing(self):
        client = self.raw()
        for stream, timeout in ((1, "0m"), (3, "0S"), (5, "1n")):
            client.send(call(stream, ASKS, grpc_timeout=timeout))
            client.until(HEADERS, stream, END_STREAM)
        self.assertEqual(self.server.metric("weir_serve_expired_total"), 3)
        for stream, timeout in ((7, "60S"), (9, "99999999H"), (11, "soon"), (13, "1"), (15, "-1m")):
            client.send(call(stream, ASKS, grpc_timeout=timeout))
            client.until(DATA, stream)
        self.assertEqual(self.server.metric("weir_serve_expired_total"), 3)
        self.assertEqual(self.left(), 995)

    def test_what_is_taken_back_charges_nothing(self):
        client = self.raw()
        client.send(b"".join(call(i, ASKS) + frame(RST_STREAM, 0, i, b"\0\0\0\x08") for i in range(1, 200, 2)))
        client.send(call(201, ASKS))
        client.until(HEADERS, 201, END_STREAM)
        taken_back = self.server.metric("weir_serve_cancelled_total")
        self.assertGreater(taken_back, 50)  # a segment may end between a call and its reset
        self.assertEqual(self.left(), 999 - (100 - taken_back))

    def test_a_request_is_named_by_its_id(self):
        client = self.raw()
        full = edge("ip=f", "free=f", hitsAddend=4).SerializeToString()
        values = ["a", "A b-{1}", "x" * 64, "x" * 65, "", 'a" source="b', "a\\", "a\tb", "\u00e9"]
        for i, value in enumerate(values):
            client.send(call(2 * i + 1, full, x_request_id=value))
            client.until(HEADERS, 2 * i + 1, END_STREAM)
        twice = fields(x_request_id="a") + b"\0" + text("x-request-id") + text("b")
        client.send(frame(HEADERS, END_HEADERS, 101, twice) + frame(DATA, END_STREAM, 101, body(full)))
        client.until(HEADERS, 101, END_STREAM)
        client.send(call(103, full))  # a stream's memory is used again
        client.until(HEADERS, 103, END_STREAM)
        web = self.server.connect("http")
        over = post("/json", question("edge", "ip=f", hitsAddend=4))
        self.assertEqual(http(web, over.replace("\r\n", "\r\nX-Request-Id: web\r\n", 1))[0], 429)
        web.close()
        self.server.await_log(" denied ", len(values) + 3)
        lines = [line for line in self.server.log().splitlines() if " denied " in line]
        told = [re.search('source=[a-z]+(?: request_id="([^"]*)")?$', line).group(1) for line in lines]
        self.assertEqual(told, values[:3] + [None] * (len(values) - 1) + ["web"])

    def test_no_http2_and_no_grpc(self):
        other = Client(("127.0.0.1", self.server.ports["grpc"][0]))
        other.send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        self.assertNotIn(b"HTTP/1", other.rest())
        other.close()
        client = self.raw()
        client.send(call(1, ASKS, content_type="application/json"))
        client.until(HEADERS, 1, END_STREAM)
        client.send(call(3, ASKS, **{":method": "GET"}))
        client.until(HEADERS, 3, END_STREAM)
        self.assertEqual(self.left(), 1000)

    def test_an_end_with_windows_shut(self):
        """Answers wait for room, and come when there is some."""
        client = self.raw(settings=b"\0\x04\0\0\0\0")
        client.send(b"".join(call(i, ASKS) for i in range(1, 200, 2)))
        client.until(HEADERS, 199)
        client.send(frame(PING, payload=b"12345678"))
        client.until(PING, flags=ACK)
        self.assertFalse([f for f in client.frames if f[0] == DATA])
        client.send(frame(WINDOW_UPDATE, 0, 199, b"\0\0\x10\0"))
        client.until(HEADERS, 199, END_STREAM)


class Floods(Bounded):
    def bounded(self, data, error=CALM):
        """It ends such a client, and nobody else notices."""
        before = self.server.memory_kib()
        client = self.raw()
        client.flood(data)
        self.assertIn(client.goodbye(), (error, None))  # None: a reset has overtaken it
        self.assertGreaterEqual(self.server.metric("weir_serve_broken_total"), 1)
        if not SANITIZED:
            self.assertLess(self.server.memory_kib() - before, 4096)
        self.assertEqual(self.client(self.server).ask(edge("ip=f")).overall_code, OK)

    def test_ping(self):
        self.bounded(frame(PING, payload=b"12345678") * 20000)

    def test_settings(self):
        self.bounded(frame(SETTINGS) * 20000)

    def test_settings_acknowledged(self):
        self.bounded(frame(SETTINGS, ACK) * 20000, PROTOCOL_ERROR)

    def test_windows(self):
        self.bounded(frame(WINDOW_UPDATE, 0, 0, b"\0\0\0\1") * 20000)

    def test_priorities(self):
        self.bounded(b"".join(frame(PRIORITY, 0, i, b"\0\0\0\0\x10") for i in range(1, 40000, 2)))

    def test_unknown_frames(self):
        self.bounded(frame(200, 0, 0, b"x" * 100) * 20000)

    def test_empty_data(self):
        self.bounded(frame(HEADERS, END_HEADERS, 1, fields()) + frame(DATA, 0, 1) * 20000)

    def test_continuations(self):
        more = b"".join(b"\0" + text("x-%d" % i) + text("y" * 50) for i in range(20))
        self.bounded(frame(HEADERS, 0, 1, fields()) + frame(CONTINUATION, 0, 1, more) * 1000)

    def test_empty_continuations(self):
        self.bounded(frame(HEADERS, 0, 1, fields()) + frame(CONTINUATION, 0, 1) * 20000)

    def test_a_frame_too_long(self):
        self.bounded(frame(DATA, 0, 1, b"x" * 16385), FRAME_SIZE)

    def reset_streams(self, count, each):
        """Opens and resets so many in a second, over as many connections as are ended for it."""
        opened = [frame(HEADERS, END_HEADERS, i, fields()) + frame(RST_STREAM, 0, i, b"\0\0\0\x08")
                  for i in range(1, 2 * each, 2)]
        began = time.monotonic()
        sent = 0
        while sent < count:
            client = Raw(self.server.ports["grpc"][0])
            client.flood(b"".join(opened))
            self.goodbyes.append(client.goodbye())
            client.close()
            sent += each
            time.sleep(max(0, began + sent / count - time.monotonic()))
        return time.monotonic() - began

    def test_resets(self):
        """10,000 streams opened and reset in a second; meanwhile others are answered as before."""
        other = self.client(self.server)

        def measure(is_over):
            took = []
            while not is_over(took):
                began = time.monotonic()
                other.ask(edge("free=o"))
                took.append(time.monotonic() - began)
            return took
        quiet = measure(lambda took: len(took) == 500)
        before = self.server.memory_kib()
        self.goodbyes = []
        with concurrent.futures.ThreadPoolExecutor() as pool:
            attack = pool.submit(self.reset_streams, 10000, 1250)
            under = measure(lambda took: attack.done())
        most = most_kib(self.server) - before
        p99 = [1000 * statistics.quantiles(took, n=100)[98] for took in (quiet, under)]
        print("10,000 streams reset in %.1f s: %d calls beside them, p99 %.1f ms (quiet: %.1f ms), at most %d KiB more"
              % (attack.result(), len(under), p99[1], p99[0], most))
        self.assertLessEqual(set(self.goodbyes), {CALM, None})
        self.assertIn(CALM, self.goodbyes)
        asked = len(quiet) + len(under)
        self.assertEqual(self.server.metric("weir_serve_requests_total{protocol=\"grpc\"}"), asked)
        self.assertLess(p99[1], 250)
        if not SANITIZED:
            self.assertLess(most, 4096)

    def test_pings_of_a_client_that_asks(self):
        """A few for each request are fine, however many there are."""
        client = self.raw()
        for i in range(1, 1000, 2):
            client.send(call(i, ASKS) + frame(PING, payload=b"12345678") * 5)
            client.until(HEADERS, i, END_STREAM)
        self.assertEqual(self.left(), 500)


class Sizes(Bounded):
    limits = "grpc_streams: 20, grpc_message: 1KiB, http_headers: 1KiB, first_bytes: 1s"

    def test_fields(self):
        client = self.raw()
        client.send(frame(HEADERS, END_HEADERS, 1, fields(x="y" * 1000)) + frame(DATA, END_STREAM, 1, body(ASKS)))
        self.assert_over(client, 1)
        client.send(call(3, ASKS))
        client.until(DATA, 3)

    def assert_over(self, client, stream):
        """What a client of Envoy can write does not let it pass: OVER_LIMIT is an answer, not an error."""
        self.assertEqual(client.until(DATA, stream)[3], b"\0\0\0\0\x02\x08\x02")

    def test_streams(self):
        client = self.raw()
        client.send(b"".join(frame(HEADERS, END_HEADERS, i, fields()) for i in range(1, 43, 2)))
        self.assertEqual(client.goodbye(), PROTOCOL_ERROR)
        client = Raw(self.server.ports["grpc"][0])  # which does not know the bound yet
        self.addCleanup(client.close)
        client.send(b"".join(frame(HEADERS, END_HEADERS, i, fields()) for i in range(1, 43, 2)))
        self.assertEqual(client.until(RST_STREAM, 41)[3], b"\0\0\0\x07")
        client.send(frame(DATA, END_STREAM, 1, body(ASKS)))
        client.until(DATA, 1)

    def test_messages(self):
        client = self.raw()
        long = body(b"x" * 1025)
        client.send(frame(HEADERS, END_HEADERS, 1, fields()) + frame(DATA, END_STREAM, 1, long))
        self.assert_over(client, 1)
        # Eighteen of nearly a KiB are above sixteen of one, though none of them is.
        client.send(b"".join(frame(HEADERS, END_HEADERS, i, fields()) + frame(DATA, 0, i, body(b"x" * 1000)[:950])
                             for i in range(3, 39, 2)))
        client.send(frame(DATA, END_STREAM, 37))
        self.assert_over(client, 37)
        self.assertEqual(self.server.metric("weir_serve_too_long_total"), 2)

    def test_a_message_without_an_end(self):
        """Nothing of it is kept once it is too long; its time ends it, and others go on beside it."""
        client = self.raw()
        client.send(frame(HEADERS, END_HEADERS, 1, fields()))
        before, sent = self.server.memory_kib(), 0
        while not any(each[0] == RST_STREAM for each in client.frames):
            client.send(frame(DATA, 0, 1, b"x" * 1000) * 16)
            client.send(call(3 + 2 * sent, ASKS))
            client.until(HEADERS, 3 + 2 * sent, END_STREAM)
            sent += 1
            time.sleep(0.05)
        self.assertGreater(sent, 5)
        if not SANITIZED:
            self.assertLess(self.server.memory_kib() - before, 4096)

    def test_what_clients_of_grpc_are_told(self):
        client = self.client(self.server)
        self.assertEqual(client.ask(edge("named=" + "x" * 2000)).overall_code, OVER)
        with self.assertRaises(grpc.RpcError) as raised:
            client.health("x" * 2000)
        self.assertEqual(raised.exception.code(), grpc.StatusCode.RESOURCE_EXHAUSTED)
        self.server.write(self.server.config + "shadow: true\n")
        self.server.process.send_signal(signal.SIGHUP)
        self.server.await_log("is in use now")
        self.assertEqual(client.ask(edge("named=" + "x" * 2000)).overall_code, OK)

    def test_a_request_that_does_not_get_whole(self):
        """It is refused, and the others of its connection go on."""
        client = self.raw()
        client.send(frame(HEADERS, END_HEADERS, 1, fields()) + frame(DATA, 0, 1, b"\0"))
        asked = 1
        while not any(f[0] == RST_STREAM for f in client.frames):
            asked += 2
            client.send(call(asked, ASKS))
            client.until(HEADERS, asked, END_STREAM)
            time.sleep(0.1)
        self.assertEqual([f[2] for f in client.frames if f[0] == RST_STREAM], [1])
        self.assertEqual(self.server.metric("weir_serve_timeouts_total"), 1)

    def test_half_a_frame(self):
        client = self.raw()
        client.send(call(1, ASKS)[:-1])
        self.assertIsNone(client.goodbye())


class Ends(Bounded):
    limits = "idle: 1s, connections_per_address: 3"

    def test_idle(self):
        """It is told to leave, what it still sends is answered, and it loses nothing."""
        client = self.raw()
        client.send(call(1, ASKS))
        notice = client.until(GOAWAY)[3]
        self.assertEqual(notice[:8], b"\x7f\xff\xff\xff\0\0\0\0")
        ping = client.until(PING)[3]
        client.send(call(3, ASKS))
        client.until(DATA, 3)
        client.send(frame(PING, ACK, payload=ping))
        self.assertEqual(client.until(GOAWAY)[3][:8], b"\0\0\0\3\0\0\0\0")
        self.assertEqual(client.goodbye(), NO_ERROR)

    def test_too_many(self):
        kept = [self.raw() for _ in range(3)]
        full = Client(("127.0.0.1", self.server.ports["grpc"][0]))
        self.assertEqual(full.rest(), frame(SETTINGS) + frame(GOAWAY, payload=b"\0\0\0\0\0\0\0\x0b"))
        full.close()
        for client in kept:
            client.close()

    def test_sigterm_waits_for_no_silent_client(self):
        silent = Client(("127.0.0.1", self.server.ports["grpc"][0]))
        await_that(lambda: self.server.metric("weir_serve_connections") == 1, "the connection")
        began = time.monotonic()
        self.server.process.terminate()
        self.assertEqual(silent.rest(), b"")
        self.assertLess(time.monotonic() - began, 5)  # limits.drain is 10 s
        silent.close()

    def test_sigterm(self):
        """Calls under way are answered, and those that the client began before it knew."""
        client = self.raw()
        client.send(frame(HEADERS, END_HEADERS, 1, fields()))
        client.send(frame(PING, payload=b"12345678"))
        client.until(PING, flags=ACK)
        self.server.process.terminate()
        client.until(GOAWAY)
        ping = client.until(PING)[3]
        client.send(call(3, ASKS) + frame(PING, ACK, payload=ping))
        client.until(DATA, 3)
        client.send(frame(DATA, END_STREAM, 1, body(ASKS)))
        client.until(DATA, 1)
        self.assertEqual(client.goodbye(), NO_ERROR)
        await_that(lambda: self.server.process.poll() is not None, "the end")


class Ages(Bounded):
    limits = "grpc_age: 1s, drain: 1s"

    def test_age(self):
        """It is told to leave in the midst of its work, which is answered."""
        client = self.raw()
        client.send(frame(HEADERS, END_HEADERS, 1, fields()))
        self.assertEqual(client.until(GOAWAY)[3][:8], b"\x7f\xff\xff\xff\0\0\0\0")
        ping = client.until(PING)[3]
        client.send(frame(DATA, END_STREAM, 1, body(ASKS)) + call(3, ASKS) + frame(PING, ACK, payload=ping))
        client.until(DATA, 3)
        self.assertEqual(client.goodbye(), NO_ERROR)
        self.assertEqual([stream for kind, flags, stream, _ in client.frames
                          if kind == HEADERS and flags & END_STREAM], [1, 3])

    def test_one_that_does_not_leave(self):
        client = self.raw()
        began = time.monotonic()
        with self.assertRaises((EOFError, OSError)):
            for stream in range(1, 100000, 2):
                client.send(call(stream, ASKS))
                client.until(HEADERS, stream, END_STREAM)
                time.sleep(0.05)
        self.assertIn(GOAWAY, [kind for kind, *_ in client.frames])
        self.assertGreater(time.monotonic() - began, 1.8)  # age and drain, less the tenth that it may be younger
        self.assertLess(time.monotonic() - began, 30)


if __name__ == "__main__":
    unittest.main()
