"""POST /json and descriptor files, as who comes from envoyproxy/ratelimit knows them."""

import json
import os
import re
import subprocess
import tempfile
import unittest

from envoy import Served, STORES, UNLIMITED, YEAR_S, entries, page_text, per_year, question
from recipe import blocks, replace
from server import PATIENCE_S, PROGRAM, Server, Store, http
from test_http import get, post

# A file; then the questions in turn, and the codes. "5*": five times alike.
EXAMPLES = {
    "values of one key have a limit each": ("""
  - {key: database, value: users, %s}
  - {key: database, value: default, %s}
""" % (per_year(2), per_year(1)), [
        ("2*", ["database=users"], "+ +"), ("1*", ["database=users"], "- -"),
        ("1*", ["database=default"], "+ +"), ("1*", ["database=default"], "- -"),
        ("3*", ["database=other"], "+ +")]),
    "nested lists, each value its own count, several descriptors": ("""
  - key: message_type
    value: marketing
    descriptors: [{key: to_number, %s}]
  - {key: to_number, %s}
""" % (per_year(2), per_year(4)), [
        ("2*", ["message_type=marketing/to_number=1", "to_number=1"], "+ ++"),
        ("1*", ["message_type=marketing/to_number=1", "to_number=1"], "- -+"),
        ("1*", ["message_type=marketing/to_number=2", "to_number=2"], "+ ++"),
        ("1*", ["to_number=1"], "+ +"), ("1*", ["to_number=1"], "- -"),
        ("9*", ["message_type=marketing"], "+ +"), ("9*", ["message_type=other/to_number=1"], "+ +")]),
    "key and value before the key alone; 0 denies": ("""
  - {key: remote_address, %s}
  - {key: remote_address, value: 50.0.0.5, rate_limit: {unit: second, requests_per_unit: 0}}
""" % per_year(1), [
        ("2*", ["remote_address=50.0.0.5"], "- -"),
        ("1*", ["remote_address=50.0.0.1"], "+ +"), ("1*", ["remote_address=50.0.0.1"], "- -"),
        ("1*", ["remote_address=50.0.0.2"], "+ +"), ("1*", ["remote_address="], "+ +"),
        ("1*", ["remote_address="], "- -")]),
    "a limit counts at the full depth alone": ("""
  - key: key
    value: value
    %s
    descriptors: [{key: subkey, %s}]
""" % (per_year(1), per_year(2)), [
        ("1*", ["key=value"], "+ +"), ("1*", ["key=value"], "- -"),
        ("2*", ["key=value/subkey=x"], "+ +"), ("1*", ["key=value/subkey=x"], "- -"),
        ("3*", ["key=value/subkey=x/more=y"], "+ +"), ("3*", ["subkey=x"], "+ +")]),
    "unlimited": ("""
  - {key: ldap, rate_limit: {unlimited: true}}
  - {key: azure, %s}
""" % per_year(1), [
        ("5*", ["ldap=x"], "+ +"), ("1*", ["ldap=x", "azure=x"], "+ ++"), ("1*", ["ldap=x", "azure=x"], "- +-")]),
    "shadow_mode": ("""
  - key: service
    descriptors:
      - {key: user, value: a, %s, shadow_mode: true}
      - {key: user, value: b, %s}
""" % (per_year(1), per_year(1)), [
        ("3*", ["service=auth/user=a"], "+ +"),
        ("1*", ["service=auth/user=b"], "+ +"), ("1*", ["service=auth/user=b"], "- -"),
        ("1*", ["service=auth/user=b", "service=auth/user=a"], "- -+")]),
    "replaces": ("""
  - key: key_1
    value: value_1
    descriptors: [{key: user, value: k, %s}]
  - key: key_2
    value: value_2
    descriptors: [{key: user, value: k, %s}]
""" % (per_year(1, ", name: specific"), per_year(2, ", replaces: [{name: specific}]")), [
        ("2*", ["key_1=value_1/user=k", "key_2=value_2/user=k"], "+ ++"),
        ("1*", ["key_1=value_1/user=k", "key_2=value_2/user=k"], "- +-"),
        ("1*", ["key_1=value_1/user=k"], "+ +"), ("1*", ["key_1=value_1/user=k"], "- -")]),
    "what is said of metrics changes no limit": ("""
  - {key: a, %s, detailed_metric: true, metadata: {of: [any, kind]}}
  - {key: b, value_to_metric: true, descriptors: [{key: c, %s}]}
""" % (per_year(1), per_year(1)), [
        ("1*", ["a=1"], "+ +"), ("1*", ["a=1"], "- -"), ("1*", ["a=2"], "+ +"),
        ("1*", ["b=1/c=1"], "+ +"), ("1*", ["b=1/c=1"], "- -"), ("1*", ["b=2/c=1"], "+ +")]),
    "wildcards in the order of the file, after what is exact": ("""
  - {key: path, value: api*, %s}
  - {key: path, value: "*.png", %s}
  - {key: path, value: "api-*-v*", %s}
  - {key: path, value: api-1, %s}
  - {key: path, %s}
""" % (per_year(1), per_year(2), per_year(0), per_year(3), per_year(4)), [
        ("1*", ["path=api.png"], "+ +"), ("1*", ["path=api.png"], "- -"), ("1*", ["path=api-x-v2"], "+ +"),
        ("3*", ["path=api-1"], "+ +"), ("1*", ["path=api-1"], "- -"),
        ("2*", ["path=a.png"], "+ +"), ("1*", ["path=a.png"], "- -"), ("1*", ["path=b.png"], "+ +"),
        ("4*", ["path=other"], "+ +"), ("1*", ["path=other"], "- -")]),
    "wildcards within lists": ("""
  - key: a
    value: x*
    descriptors: [{key: b, value: y*z*, %s}]
  - key: a
    descriptors: [{key: b, %s}]
""" % (per_year(1), per_year(2)), [
        ("1*", ["a=x1/b=y1z2"], "+ +"), ("1*", ["a=x1/b=y1z2"], "- -"), ("1*", ["a=x2/b=y1z2"], "+ +"),
        ("5*", ["a=x1/b=other"], "+ +"), ("2*", ["a=w/b=y1z"], "+ +"), ("1*", ["a=w/b=y1z"], "- -")]),
    "share_threshold": ("""
  - {key: files, value: f*, %s, share_threshold: true}
  - {key: files, value: g*, %s}
  - key: tenant
    value: t*
    share_threshold: true
    descriptors: [{key: user, %s}]
""" % (per_year(2), per_year(1), per_year(1)), [
        ("1*", ["files=f1"], "+ +"), ("1*", ["files=f2"], "+ +"), ("1*", ["files=f3"], "- -"),
        ("1*", ["files=f*"], "- -"), ("1*", ["files=g1"], "+ +"), ("1*", ["files=g2"], "+ +"),
        ("1*", ["tenant=t1/user=u"], "+ +"), ("1*", ["tenant=t2/user=u"], "- -"),
        ("1*", ["tenant=t2/user=v"], "+ +")]),
    "quota_mode: over where all of them are, or any other is": ("""
  - {key: small, %s, quota_mode: true}
  - {key: large, %s, quota_mode: true}
  - {key: plain, %s}
""" % (per_year(1), per_year(3), per_year(4)), [
        ("1*", ["small=x", "large=x", "plain=x"], "+ +++"), ("2*", ["small=x", "large=x", "plain=x"], "+ -++"),
        ("1*", ["small=x", "large=x", "plain=x"], "- --+"), ("1*", ["small=y", "plain=x"], "- +-"),
        ("1*", ["small=y"], "- -")]),
    "composed names, as they are held against each other": ("""
  - {key: a_b, value: c, %s}
  - {key: A, %s}
""" % (per_year(1), per_year(1)), [
        ("1*", ["a=b_c"], "+ +"), ("1*", ["a=b_c"], "- -"), ("1*", ["a_b=c"], "+ +"), ("1*", ["a_b=c"], "- -"),
        ("5*", ["a=x"], "+ +"), ("1*", ["A=x"], "+ +"), ("1*", ["A=x"], "- -")]),
}


class Examples(Served):
    def test_each(self):
        names = {name: "d%d" % i for i, name in enumerate(EXAMPLES)}
        server = self.start({names[name] + ".yaml": "domain: %s\ndescriptors:%s" % (names[name], text)
                             for name, (text, _) in EXAMPLES.items()})
        for name, (_, asked) in EXAMPLES.items():
            for times, descriptors, expected in asked:
                for _ in range(int(times[:-1])):
                    self.assertEqual(self.codes(server, names[name], *descriptors), expected, (name, descriptors))


class Json(Served):
    FILE = {"a.yaml": """
domain: edge
descriptors:
  - {key: ip, %s}
  - {key: free, rate_limit: {unlimited: true}}
  - {key: none, rate_limit: {unit: HOUR, requests_per_unit: 0}}
  - {key: week, rate_limit: {unit: Week, requests_per_unit: 1000}}
""" % per_year(5, ', name: "per \\"ip\\""')}

    def setUp(self):
        self.server = self.start(self.FILE)

    def test_figures(self):
        status, = self.ask(self.server, "edge", "ip=1")["statuses"]
        limit = {"requestsPerUnit": 5, "unit": "YEAR", "name": 'per "ip"'}
        duration = status.pop("durationUntilReset")
        self.assertEqual(status, {"code": "OK", "currentLimit": limit, "limitRemaining": 4})
        self.assertRegex(duration, r"^\d+s$")
        self.assertIn(int(duration[:-1]), range(1, YEAR_S + 2))
        statuses = self.ask(self.server, "edge", "free=1", "none=1", "nobody=1", "week=1")["statuses"]
        self.assertEqual(statuses[:3], [{"code": "OK", "limitRemaining": UNLIMITED}, {
            "code": "OVER_LIMIT", "currentLimit": {"requestsPerUnit": 0, "unit": "HOUR"}, "limitRemaining": 0},
            {"code": "OK"}])
        self.assertEqual(statuses[3]["currentLimit"], {"requestsPerUnit": 1000, "unit": "WEEK"})
        self.assertEqual(self.ask(self.server, "nowhere", "ip=1"), {"overallCode": "OK", "statuses": [{"code": "OK"}]})

    def test_hits(self):
        self.assertEqual(self.codes(self.server, "edge", "ip=2", hitsAddend=3), "+ +")
        self.assertEqual(self.codes(self.server, "edge", "ip=2", hits_addend="3"), "- -")
        self.assertEqual(self.codes(self.server, "edge", "ip=2", hitsAddend=0), "+ +")  # 1
        own = {"entries": entries("ip=2"), "hitsAddend": "0"}
        for _ in range(3):  # a peek
            self.assertEqual(self.ask(self.server, "edge", own, hitsAddend=9)["statuses"][0]["limitRemaining"], 1)
        self.assertEqual(self.codes(self.server, "edge", {**own, "hitsAddend": str(2**64 - 1)}), "- -")
        self.assertEqual(self.codes(self.server, "edge", {**own, "hitsAddend": 1}, own), "- +-")
        for hits in (2**31 + 1, 2**32 - 1):
            self.assertEqual(self.codes(self.server, "edge", "ip=3", hitsAddend=hits), "- -")

    def test_limits_of_their_own(self):
        own = {"entries": entries("any=x"), "limit": {"requestsPerUnit": 1, "unit": "YEAR"}}
        self.assertEqual(self.codes(self.server, "edge", own), "+ +")
        told = self.ask(self.server, "edge", {**own, "limit": {"requests_per_unit": "1", "unit": 6}})
        self.assertEqual(told["statuses"][0]["code"], "OVER_LIMIT")
        self.assertEqual(told["statuses"][0]["currentLimit"], {"requestsPerUnit": 1, "unit": "YEAR"})
        # The same count under another limit, as that of the file.
        self.assertEqual(self.codes(self.server, "edge", {**own, "limit": {"requestsPerUnit": 2, "unit": "YEAR"}}), "+ +")
        self.assertEqual(self.codes(self.server, "edge", {**own, "limit": {"unit": "DAY"}}), "- -")  # 0
        self.assertEqual(self.codes(self.server, "edge", "any=x"), "+ +")
        self.assertEqual(self.codes(self.server, "nowhere", own), "+ +")
        client = self.server.connect("http")
        for requests in range(2, 280):  # more of them than are kept
            limit = {"requestsPerUnit": requests, "unit": "MONTH"}
            self.assertEqual(http(client, post("/json", question("edge", {**own, "limit": limit})))[0], 200)
        client.close()

    def test_what_cannot_be_read(self):
        entry = {"key": "k", "value": "v"}
        good = {"domain": "edge", "descriptors": [{"entries": [entry]}]}
        one = lambda **more: {**good, "descriptors": [{"entries": [entry], **more}]}
        cases = [
            ("{", "no JSON"), ("[]", "no JSON object"), ("", "no JSON"), ('{"domain":"a","domain":"b"}', "no JSON"),
            ({}, '"domain" is missing'), ({"domain": "edge"}, '"descriptors" is missing'),
            ({**good, "domain": None}, '"domain" is missing'), ({**good, "descriptors": []}, "descriptors: 1 to 64"),
            ({**good, "domain": ""}, "domain: a string that is not empty"), ({**good, "domain": 1}, "domain: a string"),
            ({**good, "descriptors": {}}, "descriptors: a list of objects is accepted"),
            ({**good, "descriptors": [1]}, "descriptors: a list of objects is accepted"),
            ({**good, "descriptors": [{"entries": entry}]}, "descriptors[0].entries: a list of objects is accepted"),
            ({**good, "descriptors": [{"entries": [{"key": "k", "val": "v"}]}]},
             '"descriptors[0].entries[0].val" is no member that is known: accepted are key and value'),
            ({**good, "descriptors": [{"entries": [{"value": "v"}]}]}, '"descriptors[0].entries[0].key" is missing'),
            ({**good, "descriptors": [{"entries": [{"key": "k", "value": 7}]}]}, "entries[0].value: a string"),
            ({**good, "hitsAddend": -1}, "hitsAddend: a whole number from 0 on"), ({**good, "hitsAddend": 1.5}, "hitsAddend"),
            ({**good, "hitsAddend": "1x"}, "hitsAddend"), ({**good, "hitsAddend": 1, "hits_addend": 1}, "it stands there as hits_addend too"),
            ({**good, "d\u00e9scriptors": 1}, "d??scriptors"),
            (one(limit={"requestsPerUnit": 1}), '"descriptors[0].limit.unit" is missing'),
            (one(limit={"requestsPerUnit": 1, "unit": "WEEK"}), "limit.unit: SECOND, MINUTE"),
            (one(limit={"requestsPerUnit": 1, "unit": 9}), "limit.unit"),
            (one(isNegativeHits=1), "isNegativeHits"),
            ({**good, "descriptors": [{"entries": [entry]}] * 65}, "descriptors: 1 to 64"),
            ({**good, "descriptors": [{"entries": [entry] * 513}]}, "entries: there are more than 512"),
        ]
        client = self.server.connect("http")
        self.addCleanup(client.close)
        for body, says in cases:
            status, told, _ = http(client, post("/json", body))
            self.assertEqual(status, 400, (body, told))
            self.assertIn(says, json.loads(told)["detail"])
        self.assertEqual(http(client, get("/json"))[0], 405)
        told = json.loads(http(client, post("/json", one(limit={"requestsPerUnit": 2**32 - 1, "unit": "DAY"})))[1])
        self.assertEqual(told["statuses"][0]["currentLimit"], {"requestsPerUnit": 10**9, "unit": "DAY"})
        nulls = {**good, "hitsAddend": None, "descriptors": [{"entries": [entry], "limit": None, "isNegativeHits": False}]}
        self.assertEqual(http(client, post("/json", nulls))[0], 200)
        client.close()

    def test_a_key_that_is_too_long(self):
        """It is over its limit, beside others that are not: an error would let it pass at its caller."""
        client = self.server.connect("http")
        self.addCleanup(client.close)
        for number, value in enumerate(("v" * 4096, "%" * 2000, "v" * 40000)):
            status, told, _ = http(client, post("/json", question("edge", "ip=" + value, "ip=beside%d" % number)))
            self.assertEqual(status, 429, told)
            first, second = json.loads(told)["statuses"]
            self.assertEqual((first["code"], first["limitRemaining"], second["code"]), ("OVER_LIMIT", 0, "OK"))
        self.assertEqual(http(client, post("/json", question("unknown", "ip=" + "v" * 4096)))[0], 200)

    def test_in_the_order_of_one_connection(self):
        client = self.server.connect("http")
        client.send("".join(post("/json", question("edge", "ip=o")) + get("/check/nobody?key=k") for _ in range(7)))
        told = []
        for _ in range(7):
            told.append(http(client, "")[0])
            self.assertEqual(http(client, "")[0], 404)
        self.assertEqual(told, 5 * [200] + 2 * [429])
        client.close()

    def test_counts(self):
        for _ in range(6):
            self.ask(self.server, "edge", "ip=c", "nobody=c")
        rows = 'weir_serve_decisions_total{limiter="/edge",protocol="http",decision="%s",source="store"}'
        self.assertEqual(self.server.metric(rows % "allowed"), 5)
        self.assertEqual(self.server.metric(rows % "denied"), 1)
        self.assertEqual(self.server.metric("weir_serve_unmatched_total"), 6)
        self.assertEqual(self.server.metric('weir_decisions_total{limiter="/descriptors-0",result="denied"}'), 1)
        rows = 'weir_serve_descriptor_decisions_total{domain="edge",descriptor="ip",decision="%s"}'
        self.assertEqual([self.server.metric(rows % which) for which in ("within", "over", "shadow")], [5, 1, 0])
        self.server.await_log("denied limiter=/edge protocol=http cost=1")
        client = self.server.connect("admin")
        told = json.loads(http(client, get("/status.json"))[1])["limiters"]
        client.close()
        self.assertEqual([(one["name"], one["allowed"], one["denied"]) for one in told], [("/edge", 5, 1)])


class Page(Served):
    """docs/serve/envoy.md, as it is printed; only its days are years, as one may end meanwhile."""

    def test_as_printed(self):
        store = Store("memcached")
        self.addCleanup(store.end)
        config, file = blocks("serve/envoy.md", "yaml")
        asked, asked_grpc, _ = blocks("serve/envoy.md", "sh")
        answer, = blocks("serve/envoy.md", "json")
        folder = tempfile.TemporaryDirectory(prefix="weir-envoy-")
        self.addCleanup(folder.cleanup)
        self.write(folder.name, "messaging.yaml", file.replace("unit: day", "unit: year"))
        config = replace(re.sub(r"127.0.0.1:(8080|8081|9090)", "127.0.0.1:0", config),
                         ("memcached://127.0.0.1:11211", store.url + "?timeout=10s"),
                         ("ratelimit/*.yaml", folder.name + "/*.yaml"))
        with Server(config) as server:
            asked = replace(asked, ("127.0.0.1:8080", "127.0.0.1:%d" % server.ports["http"][0]))
            for _ in range(6):
                told = subprocess.run(["sh", "-c", asked], capture_output=True, timeout=PATIENCE_S, check=True).stdout
            times = re.compile(r'"\d+s"')
            expected = times.sub('"s"', answer.replace('"DAY"', '"YEAR"'))
            self.assertEqual(json.loads(times.sub('"s"', told.decode())), json.loads(expected))
            asked = replace(asked_grpc, ("127.0.0.1:8081", "127.0.0.1:%d" % server.ports["grpc"][0]))
            told = subprocess.run(["sh", "-c", asked], capture_output=True, timeout=PATIENCE_S, check=True).stdout
            self.assertTrue(told.startswith(b" 08 01 "), told)
            key, = re.findall(r"^ +(/messaging/\S+)$", page_text("serve/envoy.md"), re.MULTILINE)
            peek = subprocess.run([PROGRAM, "peek", "--json", "--store", store.url, "--deadline", "10s", "--rule",
                                   f"fixed-window:5/{YEAR_S}s", key],
                                  capture_output=True, text=True, timeout=PATIENCE_S, check=False)
            self.assertEqual(json.loads(peek.stdout)["remaining"], 0)

    def test_every_key_of_a_file_is_told(self):
        table = page_text("serve/envoy.md").split("## Descriptor files")[1].split("## ")[0]
        told = set(re.findall(r"`(\w+)`", " ".join(line.split("|")[1] for line in table.splitlines() if "|" in line)))
        known = set()
        for text in ("domain: d\nzzzzzzzzzz: 1\n", "domain: d\ndescriptors: [{key: k, zzzzzzzzzz: 1}]\n",
                     "domain: d\ndescriptors: [{key: k, rate_limit: {unlimited: true, zzzzzzzzzz: 1}}]\n"):
            with tempfile.TemporaryDirectory() as folder:
                self.write(folder, "a.yaml", text)
                self.write(folder, "weir", "listen: {http: {}}\n" + STORES + "envoy: {files: a.yaml}\n")
                result = subprocess.run([PROGRAM, "check", os.path.join(folder, "weir")], capture_output=True,
                                        text=True, timeout=PATIENCE_S, check=False)
            self.assertEqual(result.returncode, 2)
            known |= set(re.split(r", | and ", re.search(r"accepted are (.*)$", result.stderr.strip()).group(1)))
        self.assertEqual(told - {"rate_limit"}, known - {"rate_limit"})


if __name__ == "__main__":
    unittest.main()
