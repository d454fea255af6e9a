"""A page of another origin, and what it can make a browser send, by the fields that browsers add."""

import json
import re
import unittest

from server import BASE, Server, hold_port, http

ADMIN = 'admin: {address: "127.0.0.1:0"'
WEB = 'http: {address: "127.0.0.1:0"'
JSON = "Content-Type: application/json"


def request(method, path, *fields, host="Host: localhost", body=""):
    lines = [f"{method} {path} HTTP/1.1", host, *fields, "Content-Length: %d" % len(body)]
    return "\r\n".join(line for line in lines if line) + "\r\n\r\n" + body


class Origin(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server(BASE.replace(WEB, WEB + ", hosts: [Limits.example, 192.0.2.7]").replace(
            ADMIN, ADMIN + ", hosts: [limits.example]"))
        cls.addClassCleanup(cls.server.end)

    def ask(self, protocol, text):
        client = self.server.connect(protocol)
        status, body, fields = http(client, text)
        client.close()
        return status, body, fields

    def take(self, *fields, **more):
        body = '{"limiter":"big","key":"k"}'
        return self.ask("http", request("POST", "/take", *fields, body=body, **more))[0]

    def test_foreign_origins_are_refused(self):
        port = self.server.ports["http"][0]
        for origin in ("http://evil.example", "null", "", "http://localhost:1", "http://localhost.evil.example",
                       "localhost", "ftp://localhost", "http://", "http://127.0.0.1"):
            self.assertEqual(self.take(JSON, "Origin: " + origin), 403, origin)
        for site in ("cross-site", "same-site", "", "none, cross-site"):
            self.assertEqual(self.take(JSON, "Sec-Fetch-Site: " + site), 403, site)
            self.assertEqual(self.take(JSON, "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document",
                                       "Sec-Fetch-Site: " + site), 403, site)
        self.assertEqual(self.take(JSON, "Origin: http://localhost", "Origin: http://evil.example"), 403)
        for origin, host in (("http://localhost", "localhost"), ("HTTPS://LocalHost", "localhost"),
                             ("http://127.0.0.1:%d" % port, "127.0.0.1:%d" % port),
                             ("https://limits.example", "limits.example")):
            self.assertEqual(self.take(JSON, "Origin: " + origin, "Sec-Fetch-Site: same-origin", host="Host: " + host),
                             200, origin)

    def test_hosts_that_are_not_its_own_are_refused(self):
        for host in ("evil.example", "evil.example:80", "localhost.evil.example", "", ":80", "192.0.2.8", "10.0.0.1",
                     "[::2]", "[fe80::1]:80", "x" * 300, "127.0.0.1.evil.example", "0.0.0.0", "limits.example.evil"):
            self.assertEqual(self.take(JSON, host="Host: " + host), 403, host)
        for host in ("localhost", "LOCALHOST:1", "127.0.0.1", "127.9.9.9:80", "[::1]", "[::1]:8080", "limits.example",
                     "LIMITS.EXAMPLE:8080", "192.0.2.7"):
            self.assertEqual(self.take(JSON, host="Host: " + host), 200, host)
        body = '{"limiter":"big","key":"k"}'
        for named, host, status in (("evil.example", "localhost", 403), ("localhost", "evil.example", 200),
                                    ("127.0.0.1:1", "evil.example", 200), ("user@localhost", "localhost", 403)):
            asked = request("POST", f"http://{named}/take", JSON, host="Host: " + host, body=body)
            self.assertEqual(self.ask("http", asked)[0], status, named)  # what the target says is what counts
            asked = request("POST", f"http://{named}/take", JSON, f"Origin: http://{host}", host="Host: " + host, body=body)
            self.assertEqual(self.ask("http", asked)[0], 403 if named != host else 200, named)
        client = self.server.connect("http")  # without a Host, as no browser asks
        client.send("POST /take HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: 27\r\n\r\n"
                    '{"limiter":"big","key":"k"}')
        self.assertIn(b" 200 OK", client.rest())
        client.close()

    def test_a_body_says_that_it_is_json(self):
        for kind in ("application/x-www-form-urlencoded", "text/plain", "multipart/form-data; boundary=application/json",
                     "text/plain;application/json", "application/jsonp", "application/+json", ""):
            self.assertEqual(self.take("Content-Type: " + kind), 415, kind)
        self.assertEqual(self.take(), 415)
        self.assertEqual(self.take(JSON, "Content-Type: text/plain"), 415)
        for kind in ("application/json", "Application/JSON; charset=utf-8", "application/json ;a=b",
                     "application/problem+json"):
            self.assertEqual(self.take("Content-Type: " + kind), 200, kind)

    def test_every_post_is_looked_at_and_no_check(self):
        for path in ("/take", "/peek", "/reset", "/throttle", "/json", "/"):
            status, body, _ = self.ask("http", request("POST", path, JSON, "Origin: null", body="{}"))
            self.assertEqual((status, json.loads(body)["detail"]), (403, "a page of another origin has sent this"), path)
        before = self.server.metric("weir_serve_foreign_total")
        for method in ("GET", "POST", "PUT"):
            self.assertEqual(self.ask("http", request(method, "/check/big?key=k", "Origin: https://shop.example",
                                                      "Sec-Fetch-Site: cross-site", host="Host: shop.example"))[0], 200)
        self.assertEqual(self.server.metric("weir_serve_foreign_total"), before)
        self.take("Origin: null")
        self.assertEqual(self.server.metric("weir_serve_foreign_total"), before + 1)

    def test_the_admin_listener_looks_at_all(self):
        for path in ("/metrics", "/status.json", "/status", "/healthz", "/readyz", "/"):
            for fields, host in ((["Origin: http://evil.example"], "localhost"), (["Sec-Fetch-Site: cross-site"], "localhost"),
                                 ([], "evil.example"), ([], "192.0.2.7")):
                self.assertEqual(self.ask("admin", request("GET", path, *fields, host="Host: " + host))[0], 403, path)
        link = ["Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document"]
        self.assertEqual(self.ask("admin", request("GET", "/status", *link))[0], 200)
        self.assertEqual(self.ask("admin", request("GET", "/", *link))[0], 200)
        self.assertEqual(self.ask("admin", request("GET", "/status", *link, host="Host: evil.example"))[0], 403)
        self.assertEqual(self.ask("admin", request("GET", "/status.json", *link))[0], 403)
        self.assertEqual(self.ask("admin", request("GET", "/status", *link[:2], "Sec-Fetch-Dest: iframe"))[0], 403)
        self.assertEqual(self.ask("admin", request("GET", "/status.json", "Sec-Fetch-Site: same-origin",
                                                   host="Host: limits.example:9090"))[0], 200)

    def test_what_has_a_body_says_how_it_may_be_used(self):
        for protocol, text in (("admin", request("GET", "/status")), ("admin", request("GET", "/nothing")),
                               ("http", request("POST", "/take", JSON, body='{"limiter":"big","key":"k"}'))):
            fields = self.ask(protocol, text)[2]
            self.assertEqual((fields["x-content-type-options"], fields["x-frame-options"]), ("nosniff", "DENY"))


class Everywhere(unittest.TestCase):
    def test_a_listener_at_all_addresses_has_each_in_digits(self):
        config = re.sub(r'(http|admin): \{address: "127\.0\.0\.1:0"', r'\1: {insecure: true, address: "0.0.0.0:0"', BASE)
        ports = []
        for _ in range(2):
            held = hold_port()
            self.addCleanup(held.close)
            ports.append(held.getsockname()[1])
        for port in ports:
            config = config.replace("0.0.0.0:0", "0.0.0.0:%d" % port, 1)
        with Server(config) as server:
            for host, status in (("192.0.2.9:80", 200), ("[2001:db8::1]", 200), ("limits.example", 403)):
                client = server.connect("admin")
                self.assertEqual(http(client, request("GET", "/healthz", host="Host: " + host))[0], status, host)
                client.close()


if __name__ == "__main__":
    unittest.main()
