"""HTTP as proxies, curl and others speak it."""

import email.utils
import json
import subprocess
import tempfile
import time
import unittest

from server import BASE, Server, http

TRUSTING = BASE.replace('http: {address: "127.0.0.1:0"}',
                        'http: {address: "127.0.0.1:0", denied_status: 403, key: client, '
                        'trusted: ["127.0.0.0/8"]}')


def get(target, *fields):
    return "GET %s HTTP/1.1\r\nHost: localhost\r\n%s\r\n" % (target, "".join(f + "\r\n" for f in fields))


def post(target, body):
    text = body if isinstance(body, str) else json.dumps(body)
    return "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (target, len(text), text)


class Http(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server(BASE.replace("limiters:\n", """limiters:
  headed: {store: main, rule: "quota:3/1d", key: "header:X-Key"}
"""))

    @classmethod
    def tearDownClass(cls):
        cls.server.end()

    def setUp(self):
        self.client = self.server.connect("http")
        self.addCleanup(self.client.close)

    def ask(self, request):
        return http(self.client, request)

    def test_a_check_is_its_status(self):
        for left in (2, 1, 0):
            status, body, fields = self.ask(get("/check/api?key=a%20b"))
            self.assertEqual((status, body), (200, ""))
            self.assertEqual(fields["ratelimit-policy"], '"api";q=3;w=86400')
            self.assertRegex(fields["ratelimit"], r'^"api";r=%d;t=\d+$' % left)
        status, body, fields = self.ask(get("/check/api?key=a+b"))
        self.assertEqual(status, 429)
        self.assertIn("quota-exceeded", json.loads(body)["type"])
        self.assertEqual(json.loads(body)["violated-policies"], ["api"])
        self.assertLess(0, int(fields["retry-after"]))
        self.assertEqual(self.ask(get("/check/api?key=c&cost=4"))[0], 429)
        head = get("/check/api?key=a+b").replace("GET", "HEAD", 1)
        self.client.send(head + get("/check/api?key=d"))
        told = self.client.line()
        while self.client.line():
            pass
        self.assertEqual((told[9:12], self.client.line()[9:12]), ("429", "200"))

    def test_a_policy_is_violated_by_its_name(self):
        two = "limiters:\n  two: {store: main, rule: \"quota:9/1h;quota:1/1d\", headers: off}\n"
        config = BASE.replace("limiters:\n", two) + "groups: {both: [two, api]}\n"
        with Server(config) as server:
            client = server.connect("http")
            for path in ("/check/two?key=k", "/check/both?key=l"):
                http(client, get(path))
                status, body, _ = http(client, get(path))
                self.assertEqual((status, json.loads(body)["violated-policies"]), (429, ["two-2"]))
            client.close()

    def test_answers_have_a_date(self):
        for request in (get("/check/api?key=date"), get("/nowhere"), post("/take", "{}")):
            date = email.utils.parsedate_to_datetime(self.ask(request)[2]["date"])
            self.assertLess(abs(date.timestamp() - time.time()), 30)

    def test_decisions_as_json(self):
        told = json.loads(self.ask(post("/take", {"limiter": "api", "key": "j\u00e9\0\"", "cost": 2}))[1])
        self.assertEqual((told["allowed"], told["remaining"], told["cost"], told["key"]),
                         (True, 1, 2, "j\u00e9\0\""))
        status, body, _ = self.ask(post("/take", {"limiter": "api", "key": "j\u00e9\0\"", "cost": 2}))
        self.assertEqual((status, json.loads(body)["allowed"]), (200, False))
        self.assertEqual(json.loads(self.ask(post("/peek", {"limiter": "api", "key": "p"}))[1])["remaining"], 3)
        self.assertEqual(json.loads(self.ask(post("/reset", {"limiter": "api", "key": "p"}))[1])["reset"], True)
        told = json.loads(self.ask(post("/throttle", {"key": "t", "max_burst": 2, "count_per_period": 1,
                                                      "period": 86400}))[1])
        self.assertEqual((told["allowed"], told["limit"], told["remaining"], told["retry_after"]),
                         (True, 2, 1, 0))
        _, _, fields = self.ask(post("/throttle", {"key": "t", "max_burst": 2, "count_per_period": 1,
                                                   "period": 86400, "quantity": 2}))
        self.assertEqual(fields["ratelimit"][:14], '"throttle";r=1')
        self.assertLess(0, int(fields["retry-after"]))

    def test_what_cannot_be_asked(self):
        cases = [
            (get("/check/nobody?key=k"), 404, "configuration: nobody"), (get("/check/api"), 400, "key=KEY"),
            (get("/check/nobody"), 404, "no limiter"), (get("/check/%s?key=k" % ("x" * 99)), 404, "x" * 64 + "..."),
            (post("/take", {"limiter": "\u00e9\"", "key": "k"}), 404, "configuration: ???"),
            (get("/check/headed"), 400, "send the header X-Key"), (get("/check/headed", "X-Key:"), 400, "X-Key"),
            (get("/check/headed", "X-Key: a", "x-key: b"), 400, "twice"),
            (get("/check/api?key="), 400, "key"), (get("/check/api?key=a&key=b"), 400, "one"),
            (get("/check/api?key=%4"), 400, "percent"), (get("/check/api?key=k&cost=0"), 400, "cost"),
            (get("/check/api?key=k&cost=2147483649"), 400, "cost"),
            (get("/check/api?key=" + "k" * 4097), 400, "too long"),
            (get("/"), 404, "/check/LIMITER"), (get("/take"), 405, "POST"),
            (post("/take", "{"), 400, "no JSON"), (post("/take", "[]"), 400, "object"),
            (post("/take", {"limiter": "api"}), 400, "key"),
            (post("/take", {"limiter": "api", "key": 7}), 400, "key: a string"),
            (post("/take", {"limiter": "api", "key": "k", "cost": 0}), 400, "cost"),
            (post("/take", {"limiter": "api", "key": "k", "cost": 2**31 + 1}), 400, "cost"),
            (post("/take", {"limiter": "api", "key": "k", "cost": 1.5}), 400, "cost"),
            (post("/take", {"limiter": "api", "key": "k", "kost": 1}), 400,
             '"kost" is no member that is known: accepted are limiter, key, keys, cost, up_to, class, limit and tenant'),
            (post("/take", {"limiter": "api", "key": "k", "\u00e9" * 40: 1}), 400, '"' + "?" * 64 + '"'),
            (post("/take", '{"limiter":"api","key":"a","key":"b"}'), 400, "no JSON"),
            (post("/throttle", {"key": "k", "max_burst": 0, "count_per_period": 1, "period": 1}), 400, "max_burst"),
            (post("/take", "[" * 30000), 400, "no JSON"),
        ]
        for request, status, named in cases:
            told = self.ask(request)
            self.assertEqual(told[0], status, request[:80])
            self.assertIn(named, json.loads(told[1])["detail"], request[:80])

    def test_what_could_be_read_twice_ends_the_connection(self):
        smuggled = "GET /check/api?key=smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n"
        line = "GET /check/api?key=s HTTP/1.1\r\n"
        cases = [
            (line + "Host: localhost\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 411),
            (line + "Host: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400),
            (line + "Host: localhost\r\nContent-Length: +1\r\n\r\n", 400),
            (line + "Host: localhost\r\nContent-Length : 1\r\n\r\n", 400),
            (line + "Host: localhost\r\nA: b\r\n c\r\n\r\n", 400), (line + "Host: localhost\nA: b\r\n\r\n", 400),
            (line + "Host: localhost\r\nA: b\rc\r\n\r\n", 400), (line + "Host: localhost\r\nA: b\0\r\n\r\n", 400),
            (line + "\r\n", 400), (line + "Host: localhost\r\nHost: y\r\n\r\n", 400),
            ("GET  / HTTP/1.1\r\nHost: localhost\r\n\r\n", 400), ("GET / HTTP/2.0\r\nHost: localhost\r\n\r\n", 505),
            ("GET /\r\n\r\n", 400), ("PING\r\n\r\n", 400), ("\x16\x03\x01\r\n\r\n", 400),
            (line + "Host: localhost\r\nA: " + "b" * 20000 + "\r\n\r\n", 431),
            (line + "Host: localhost\r\nContent-Length: 99999999999999999999\r\n\r\n", 413),
        ]
        for text, status in cases:
            client = self.server.connect("http")
            client.send(text + smuggled)
            told = client.rest().decode("latin-1")
            client.close()
            self.assertEqual(told[9:12], str(status), (text[:90], told))
            self.assertEqual(told.count("Content-Length:"), 1, text[:90])
            self.assertIn("\r\nConnection: close\r\n", told)

    def test_one_empty_line_before_a_request_is_passed_over(self):
        text = post("/peek", {"limiter": "api", "key": "line"})
        for cut in range(4):
            self.client.send(("\r\n" + text)[:cut])
            self.assertEqual(http(self.client, ("\r\n" + text)[cut:] + "\r\n" + text)[0], 200, cut)
            self.assertEqual(http(self.client, "")[0], 200, cut)
        for text in ("\r\n\r\nGET /check/api?key=s HTTP/1.1\r\nHost: localhost\r\n\r\n", "\nGET / HTTP/1.1\r\n\r\n"):
            client = self.server.connect("http")
            client.send(text)
            self.assertEqual(client.rest()[9:12], b"400")
            client.close()

    def test_throttlecrab_s_clients_feel_at_home(self):
        self.assertEqual(self.ask(get("/health"))[:2], (200, "OK"))
        status, body, _ = self.ask(post("/throttle", {"key": "home", "max_burst": 2, "count_per_period": 1, "period": 60,
                                                      "timestamp": {"a": [1]}, "": None}))
        self.assertEqual((status, json.loads(body)["allowed"]), (200, True))

    def test_fragments_at_every_byte(self):
        text = post("/peek", {"limiter": "api", "key": "f"})
        for cut in range(1, len(text)):
            self.client.send(text[:cut])
            self.assertEqual(http(self.client, text[cut:])[0], 200, cut)

    def test_a_hundred_in_one_packet_keep_their_order(self):
        keys = ["order%d" % i for i in range(100)]
        self.client.send("".join(post("/peek", {"limiter": "api", "key": key}) for key in keys))
        for key in keys:
            self.assertEqual(json.loads(http(self.client, "")[1])["key"], key)

    def test_connections_end_as_they_say(self):
        self.client.send(get("/check/api?key=close", "Connection: close"))
        self.assertIn(b"\r\nConnection: close\r\n", self.client.rest())
        old = self.server.connect("http")
        old.send("GET /check/api?key=close HTTP/1.0\r\n\r\n")
        self.assertIn(b"200 OK", old.rest())
        old.close()

    def test_curl(self):
        url = "http://127.0.0.1:%d" % self.server.ports["http"][0]
        told = subprocess.run(["curl", "-s", "-H", "Expect: 100-continue", "--json",
                               '{"limiter":"api","key":"curl"}', url + "/take"],
                              capture_output=True, timeout=60, check=True).stdout
        self.assertEqual(json.loads(told)["remaining"], 2)

    def test_admin(self):
        admin = self.server.connect("admin")
        self.assertEqual(http(admin, get("/healthz"))[:2], (200, "alive\n"))
        status, body, _ = http(admin, get("/readyz"))
        self.assertEqual(status, 200)
        self.assertIn("store main", body)
        self.assertEqual(http(admin, get("/check/api"))[0], 404)
        for path in ("/metrics", "/status"):
            status, _, fields = http(admin, post(path, ""))
            self.assertEqual((status, fields["allow"]), (405, "GET, HEAD"))
        self.assertEqual(http(admin, post("/nowhere", ""))[0], 404)
        status, body, fields = http(admin, get("/metrics"))
        self.assertIn("version=0.0.4", fields["content-type"])
        for line in body.splitlines():
            self.assertRegex(line, r'^(# (HELP|TYPE) \w+ .+|\w+(\{\w+="[^"]*"(,\w+="[^"]*")*\})? [\d.]+)$')
        self.assertEqual(self.ask(get("/metrics"))[0], 404)
        admin.close()


class Chunks(unittest.TestCase):
    """Bodies of /json, which has no limits here: what is read in whole is answered 200."""

    @classmethod
    def setUpClass(cls):
        descriptors = tempfile.NamedTemporaryFile("w", suffix=".yaml")
        cls.addClassCleanup(descriptors.close)
        descriptors.write("domain: d\n")
        descriptors.flush()
        cls.server = Server(BASE + "envoy: {files: %s}\n" % descriptors.name)
        cls.addClassCleanup(cls.server.end)

    def chunked(self, chunks, target="/json", more=""):
        return ("POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n%sTransfer-Encoding: chunked\r\n\r\n"
                % (target, more) + "".join("%x\r\n%s\r\n" % (len(one), one) for one in chunks) + "0\r\n\r\n")

    def test_chunks_of_json_at_their_bound(self):
        client = self.server.connect("http")
        self.addCleanup(client.close)
        asked = json.dumps({"domain": "d", "descriptors": [{"entries": [{"key": "k", "value": "v"}]}]})
        pieces = [asked[i:i + 7] for i in range(0, len(asked), 7)]
        for text in (self.chunked([asked]), self.chunked(pieces), self.chunked(pieces).replace("\r\n7\r\n", "\r\n0007\r\n")):
            client.send(text + text)
            for _ in range(2):
                self.assertEqual(json.loads(http(client, "")[1])["overallCode"], "OK")
        text = self.chunked(pieces)
        for cut in range(1, len(text), 3):
            client.send(text[:cut])
            self.assertEqual(http(client, text[cut:])[0], 200, cut)
        padded = asked[:-1] + " " * (65536 - len(asked)) + "}"
        self.assertEqual(http(client, self.chunked([padded[:40000], padded[40000:]]))[0], 200)
        for broken, status in ((self.chunked([padded, " "]), 413), (self.chunked(["x"] * 30000), 413),
                               (self.chunked([asked]).replace("chunked", "gzip, chunked"), 411),
                               (self.chunked([asked], more="Content-Length: 5\r\n"), 411),
                               (self.chunked([asked], more="Transfer-Encoding: chunked\r\n"), 411),
                               (self.chunked([asked], "/take"), 411), (self.chunked([asked], "/check/api?key=k"), 411),
                               (self.chunked([asked]).replace("HTTP/1.1", "HTTP/1.0"), 411),
                               (self.chunked([asked])[:-2] + "A: b\r\n\r\n", 400),
                               (self.chunked([asked]).replace("\r\n\r\n", "\r\n\r\n+", 1), 400),
                               (self.chunked([asked]).replace("\r\n\r\n", "\r\n\r\n000000001", 1), 400),
                               (self.chunked([asked]).replace("\r\n{", ";a=b\r\n{"), 400),
                               (self.chunked([asked]).replace("\r\n{", "\n{"), 400),
                               (self.chunked([asked]).replace("}\r\n0", "}}\r\n0"), 400)):
            client = self.server.connect("http")
            client.send(broken + get("/check/api?key=smuggled"))
            told = client.rest().decode("latin-1")
            client.close()
            self.assertEqual((told[9:12], told.count("Content-Length:")), (str(status), 1), broken[-150:])

    def test_curl_sends_chunks(self):
        url = "http://127.0.0.1:%d/json" % self.server.ports["http"][0]
        asked = json.dumps({"domain": "d", "descriptors": [{"entries": [{"key": "k", "value": "v" * 3000}]}]})
        told = subprocess.run(["curl", "-s", "-H", "Transfer-Encoding: chunked", "-H", "Expect: 100-continue", "--json",
                               "@-", url], input=asked.encode(), capture_output=True, timeout=60, check=True).stdout
        self.assertEqual(json.loads(told).get("overallCode"), "OK", told)


class Off(unittest.TestCase):
    def test_rules_of_requests_are_taken_where_they_are_wanted(self):
        asked = post("/throttle", {"key": "t", "max_burst": 2, "count_per_period": 1, "period": 60})
        for old, new, cell, crab in (("throttlecrab: true", "throttlecrab: false", [0, 3, 2, -1], "^-ERR unknown"),
                                     ("enabled: true", "enabled: false", "-ERR CL.THROTTLE is off: throttle.enabled",
                                      "^-ERR")):
            with Server(BASE.replace(old, new)) as server:
                web, client = server.connect("http"), server.connect()
                status, body, _ = http(web, asked)
                self.assertEqual((status, json.loads(body)["detail"]), (404, "/throttle is off: throttle.throttlecrab"))
                self.assertEqual(http(web, get("/health"))[0], 404)
                told = client.ask("CL.THROTTLE", "k", 2, 1, 60)
                self.assertEqual(told[:4] if isinstance(told, list) else told, cell)
                self.assertRegex(client.ask("THROTTLE", "k", 2, 1, 60), crab)
                web.close()
                client.close()


class Clients(unittest.TestCase):
    def test_only_a_trusted_proxy_names_the_client(self):
        with Server(TRUSTING) as server:
            client = server.connect("http")
            field = "X-Forwarded-For: 203.0.113.9, 198.51.100.%d"
            for _ in range(3):
                self.assertEqual(http(client, get("/check/api", field % 1))[0], 200)
            self.assertEqual(http(client, get("/check/api", field % 1))[0], 403)
            self.assertEqual(http(client, get("/check/api", field % 2))[0], 200)
            client.close()
        with Server(TRUSTING.replace(', trusted: ["127.0.0.0/8"]', "")) as server:
            client = server.connect("http")
            told = [http(client, get("/check/api", field % i))[0] for i in range(4)]
            self.assertEqual(told, [200, 200, 200, 403])
            client.close()


if __name__ == "__main__":
    unittest.main()
