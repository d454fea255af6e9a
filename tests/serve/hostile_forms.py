"""Requests as a client may write them that is over its limit, to be let in: a list of them, how a test sends
one, and what has to hold. For proxies by their recipes, and for the middleware of tests/bindings."""

import http.server
import select
import socket
import threading

PATIENCE_S = 60
LONG = "k" * 1000
COOKIES = ["Cookie: c%d=%s" % (i, "c" * 6700) for i in range(3)]


def fields(*lines, first="GET / HTTP/1.1", body=""):
    return "%s\r\nHost: localhost\r\n%s\r\n%s" % (first, "".join(line + "\r\n" for line in lines), body)


def of_alice(*lines, **how):
    return fields("X-Api-Key: alice", *lines, **how)


# A limit by address: whatever is written, it is the same client's. It has its key as well.
REQUESTS = {
    "as it was": of_alice(),
    "20 KB of cookies": of_alice(*COOKIES),
    "a cookie of 7 KB": of_alice("Cookie: c=" + LONG * 7),
    "a cookie of 20 KB": of_alice("Cookie: c=" + LONG * 20),
    "a field of 100 KB": of_alice("X-Other: " + LONG * 100),
    "100 fields": of_alice(*("X-%d: %d" % (i, i) for i in range(90))),
    "200 fields": of_alice(*("X-%d: %d" % (i, i) for i in range(200))),
    "0x7f in a field": of_alice("X-Other: a\x7fb"),
    "0x7f in the agent": of_alice("User-Agent: \x7f"),
    "0x01 in a field": of_alice("X-Other: a\x01b"),
    "0x00 in a field": of_alice("X-Other: a\0b"),
    "0xff in a field": of_alice("X-Other: \xff\xfe"),
    "UTF-8 in a field": of_alice("X-Other: \xc3\xa9"),
    "CR in a field": of_alice("X-Other: a\rb"),
    "a field that is folded": of_alice("X-Other: a", " X-Api-Key: bob"),
    "a field without a name": of_alice(": bob"),
    "a space before the colon": of_alice("X-Other : a"),
    "LF alone": of_alice().replace("\r\n", "\n"),
    "X-Forwarded-For": of_alice("X-Forwarded-For: 192.0.2.1"),
    "X-Forwarded-For of loopback": of_alice("X-Forwarded-For: 127.0.0.1"),
    "X-Forwarded-For, doubled": of_alice("X-Forwarded-For: 192.0.2.1", "X-Forwarded-For: 192.0.2.2"),
    "X-Forwarded-For, a list": of_alice("X-Forwarded-For: 192.0.2.1, 127.0.0.1, 192.0.2.3"),
    "X-Forwarded-For, empty": of_alice("X-Forwarded-For:"),
    "X-Forwarded-For, no address": of_alice('X-Forwarded-For: for="[::1]", %31, unix:'),
    "X-Forwarded-For, 100 of them": of_alice("X-Forwarded-For: " + ", ".join("192.0.2.%d" % i for i in range(100))),
    "X-Forwarded-For, 6 KB": of_alice("X-Forwarded-For: " + "192.0.2.1, " * 600),
    "X-Forwarded-For by underscores": of_alice("X_Forwarded_For: 192.0.2.1"),
    "X-Real-IP and Forwarded": of_alice("X-Real-IP: 192.0.2.1", "Forwarded: for=192.0.2.1"),
    "X-Forwarded-For ends here": of_alice("Connection: X-Forwarded-For, close"),
    "an absolute URI": of_alice(first="GET http://localhost/ HTTP/1.1"),
    "an absolute URI of the check": of_alice(first="GET http://localhost/_limit HTTP/1.1"),
    "the check itself": of_alice(first="GET /_limit?key=bob HTTP/1.1"),
    "a path of 7 KB": of_alice(first="GET /%s HTTP/1.1" % (LONG * 7)),
    "a path of 20 KB": of_alice(first="GET /%s HTTP/1.1" % (LONG * 20)),
    "a path with percent signs": of_alice(first="GET /%2e%2e/%00%ff%7f?key=%0d%0aX HTTP/1.1"),
    "a path of other bytes": of_alice(first="GET /\xff\x7f{}|\"? HTTP/1.1"),
    "POST without a length": of_alice(first="POST / HTTP/1.1"),
    "PURGE": of_alice(first="PURGE / HTTP/1.1"),
    "OPTIONS *": of_alice(first="OPTIONS * HTTP/1.1"),
    "CONNECT": of_alice(first="CONNECT localhost:80 HTTP/1.1"),
    "HEAD": of_alice(first="HEAD / HTTP/1.1"),
    "HTTP/1.0 without Host": "GET / HTTP/1.0\r\nX-Api-Key: alice\r\n\r\n",
    "no Host": "GET / HTTP/1.1\r\nX-Api-Key: alice\r\n\r\n",
    "two Hosts": of_alice("Host: other"),
    "chunks": of_alice("Transfer-Encoding: chunked", first="POST / HTTP/1.1", body="3\r\nabc\r\n0\r\n\r\n"),
    "chunks and a length": of_alice("Transfer-Encoding: chunked", "Content-Length: 3", first="POST / HTTP/1.1",
                                    body="3\r\nabc\r\n0\r\n\r\n"),
    "a body with GET": of_alice("Content-Length: 3", body="abc"),
    "two lengths": of_alice("Content-Length: 3", "Content-Length: 4", first="POST / HTTP/1.1", body="abcd"),
    "Expect": of_alice("Expect: 100-continue", "Content-Length: 3", first="POST / HTTP/1.1", body="abc"),
    "Upgrade": of_alice("Connection: Upgrade", "Upgrade: websocket"),
}

# A limit by X-Api-Key. Some are keys of their own, and may pass: none that an application takes for alice's.
KEYS = {
    "absent": fields(),
    "empty": fields("X-Api-Key:"),
    "spaces alone": fields("X-Api-Key:   \t "),
    "spaces around": fields("X-Api-Key: \t alice \t "),
    "the field in capitals": fields("X-API-KEY: alice"),
    "doubled": of_alice("X-Api-Key: alice"),
    "another behind it": of_alice("X-Api-Key: bob1"),
    "another before it": fields("X-Api-Key: bob2", "X-Api-Key: alice"),
    "another, in small letters": fields("x-api-key: bob3", "X-API-KEY: alice"),
    "an empty one behind it": of_alice("X-Api-Key:"),
    "an empty one before it": fields("X-Api-Key:", "X-Api-Key: alice"),
    "50 of them": fields(*("X-Api-Key: many%d" % i for i in range(50)), "X-Api-Key: alice"),
    "by underscores": of_alice("X_Api_Key: bob4"),
    "its own by underscores": fields("X-Api-Key: bob5", "X_Api_Key: alice"),
    "underscores alone": fields("X_Api_Key: alice"),
    "it ends here": of_alice("Connection: X-Api-Key"),
    "a list": fields("X-Api-Key: bob6, alice"),
    "a list, alice first": fields("X-Api-Key: alice,"),
    "200 bytes": fields("X-Api-Key: " + LONG[:200]),
    "1 KB": fields("X-Api-Key: " + LONG),
    "5 KB": fields("X-Api-Key: " + LONG * 5),
    "20 KB": fields("X-Api-Key: " + LONG * 20),
    "100 KB": fields("X-Api-Key: " + LONG * 100),
    "0x7f": fields("X-Api-Key: alice\x7f"),
    "0x00": fields("X-Api-Key: alice\0"),
    "0x01": fields("X-Api-Key: \x01alice"),
    "CR": fields("X-Api-Key: alice\r"),
    "a line that is folded": fields("X-Api-Key: alice", " "),
    "0xa0": fields("X-Api-Key: alice\xa0"),
    "UTF-8": fields("X-Api-Key: \xd0\xb0lice"),
    "percent signs": fields("X-Api-Key: %61lice"),
    "a percent sign and 0": fields("X-Api-Key: alice%00"),
    "capitals": fields("X-Api-Key: ALICE"),
    "quotes": fields('X-Api-Key: "alice"'),
    "a variable": fields("X-Api-Key: $remote_addr"),
    "a placeholder": fields("X-Api-Key: {http.request.uuid}"),
    "a semicolon": fields("X-Api-Key: alice;v=1"),
    "a backslash": fields("X-Api-Key: alice\\"),
    "a space within": fields("X-Api-Key: ali ce"),
    "in the query": fields("X-Api-Key:", first="GET /?X-Api-Key=alice&key=bob HTTP/1.1"),
}
# Which are keys of their own where letters, digits, _ . and - of at most 200 bytes are accepted; and where all is.
BOUNDED = {"capitals", "200 bytes"}
ANY = BOUNDED | {"1 KB", "0xa0", "UTF-8", "percent signs", "a percent sign and 0", "quotes", "a variable",
                 "a placeholder", "a semicolon", "a backslash", "a space within", "a list", "a list, alice first"}


class Listener:
    """An application that notes what it would take for keys, by whichever name, and answers 200 to all."""

    def __init__(self):
        self.seen = seen = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def answer(self):
                seen.append([value for name, value in self.headers.items() if name.lower().replace("_", "-") == "x-api-key"])
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.send_header("Connection", "close")
                self.end_headers()
                self.close_connection = True
                self.leave()

            def leave(self):
                """What is not read when it closes would reset the connection, and a proxy may lose the answer by that."""
                self.connection.shutdown(socket.SHUT_WR)
                self.connection.settimeout(1)
                try:
                    while self.connection.recv(65536):
                        pass
                except OSError:
                    pass  # it has gone, or stays: the answer is there

            def __getattr__(self, name):
                if name.startswith("do_"):
                    return self.answer
                raise AttributeError(name)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.handle_error = lambda *_: None
        self.port = self.server.server_address[1]
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02})
        self.thread.start()

    def end(self):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


def send(port, request, source="127.0.0.2"):
    """The status, or None where the connection ends without one."""
    with socket.create_connection(("127.0.0.1", port), PATIENCE_S, (source, 0)) as client:
        try:
            client.sendall(request.encode("latin-1"))
        except ConnectionError:
            pass  # it has its answer before all was sent
        if "\r\n" not in request and not select.select([client], [], [], 0.1)[0]:
            client.shutdown(socket.SHUT_WR)  # some wait for more
        try:
            with client.makefile("rb") as answer:
                line = answer.readline()
                while line.startswith(b"HTTP/1.1 100"):
                    while answer.readline().strip():
                        pass
                    line = answer.readline()
        except ConnectionError:
            return None
    return int(line.split()[1]) if line else None


def exhaust(test, port, count=3):
    test.assertEqual([send(port, of_alice()) for _ in range(count + 1)], [200] * count + [429])


def assert_refused(test, name, status):
    """Never a failure: what a client can write must not look like one, nor be one. Go's server knows what to answer to
    OPTIONS * without the application, which was not asked."""
    test.assertTrue(name == "OPTIONS *" or status is None or 400 <= status < 500 or status in (501, 505), status)


def assert_none_enters(test, port, seen):
    """A limit by address is reached: none of them gets to the application, which notes requests in `seen`."""
    exhaust(test, port)
    before = len(seen)
    for name, request in REQUESTS.items():
        with test.subTest(name):
            assert_refused(test, name, send(port, request))
            test.assertEqual(len(seen), before, "the application was asked")
            before = len(seen)


def assert_counted(test, port, seen, charged):
    """Each form by a client of its own: what gets to the application is counted under that client's address.
    charged(key): how much a key was charged. The names of those that got there."""
    entered = set()
    for number, (name, request) in enumerate(REQUESTS.items(), 1):
        source, before = "127.0.7.%d" % number, len(seen)
        with test.subTest(name):
            status = send(port, request, source)
            if len(seen) > before:
                entered.add(name)
                test.assertEqual((status, charged(source)), (200, 1))
            else:
                assert_refused(test, name, status)
                test.assertLessEqual(charged(source), 1)
    return entered


def assert_alice_stays_out(test, port, seen, others=None):
    """The limit of alice's key is reached: none of the forms gets to the application, but `others`, which it
    takes for another key, that has its own three; None: whatever it takes for another,
    to the byte. A client without a key may be counted by its address, so
    each has its own. seen: of each request that got there its keys."""
    exhaust(test, port)
    for number, (name, request) in enumerate({**REQUESTS, **KEYS}.items(), 1):
        source, before = "127.0.8.%d" % number, len(seen)
        with test.subTest(name):
            status = send(port, request, source)
            if name not in others if others is not None else len(seen) == before:
                assert_refused(test, name, status)
                test.assertEqual(len(seen), before, "the application was asked")
                continue
            told = [status, *(send(port, request, source) for _ in range(3))]
            test.assertEqual((told, len(seen) - before), ([200, 200, 200, 429], 3))
            for key, in seen[-3:]:
                test.assertNotEqual(key if others is None else key.strip(" \t"), "alice")
