"""The settings of a domain of descriptor files; and that its counts are those of weir take."""

import datetime
import json
import random
import re
import subprocess
import threading
import unittest

from envoy import LISTEN, Served, STORES, YEAR_S, entries, per_year, question
from server import PATIENCE_S, PROGRAM, Server, Store, await_that, http
from test_http import get, post


SAYS = LISTEN.replace("http: {", "http: {says: [class, limit], ", 1)
SPLIT = ", domains: {edge: {classes: batch:60%%|free:80%%, most: 1000%s}}"


class Says(Served):
    """Entries that say a class or limit are no part of a key."""

    listen = SAYS
    FILE = {"a.yaml": "domain: edge\ndescriptors:\n  - {key: a, %s}\n  - {key: s, shadow_mode: true, %s}\n"
                      "  - {key: u, rate_limit: {unlimited: true}}\n  - {key: p, descriptors: [{key: q, %s}]}\n"
                      % (per_year(10), per_year(10), per_year(10))}

    def status(self, server, *descriptors, **more):
        told = self.ask(server, "edge", *descriptors, **more)["statuses"][0]
        return told["code"], told.get("currentLimit", {}).get("requestsPerUnit"), told.get("limitRemaining")

    def refusal(self, server, *descriptors, **more):
        client = server.connect("http")
        status, body, _ = http(client, post("/json", question("edge", *descriptors, **more)))
        client.close()
        self.assertEqual(status, 400, body)
        return json.loads(body)["detail"]

    def test_each_class_has_its_part(self):
        for algorithm in ("fixed-window", "sliding-window", "quota", "token-bucket"):
            server = self.start(self.FILE, SPLIT % (", algorithm: " + algorithm))
            self.assertEqual(self.status(server, "a=x/weir_class=batch", hitsAddend=6), ("OK", 6, 0))
            self.assertEqual(self.status(server, "weir_class=batch/a=x"), ("OVER_LIMIT", 6, 0))
            self.assertEqual(self.status(server, "a=x/weir_class=free"), ("OK", 8, 1))
            self.assertEqual(self.status(server, "a=x", hitsAddend=3), ("OK", 10, 0))
            self.assertEqual(self.status(server, "a=x"), ("OVER_LIMIT", 10, 0))
            if algorithm != "token-bucket":  # whose burst fills by its own limit
                self.assertEqual(self.status(server, "a=x/weir_limit=50", hitsAddend=40), ("OK", 50, 0))
                self.assertEqual(self.status(server, "weir_limit=100/a=x/weir_class=batch", hitsAddend=11), ("OVER_LIMIT", 60, 10))
            server.end()

    def test_what_a_client_may_have_written_is_over(self):
        server = self.start(self.FILE, SPLIT % "")
        for said in ("weir_class=gold", "weir_class=", "weir_class=a b", "weir_class=" + "x" * 999, "weir_limit=0",
                     "weir_limit=1001", "weir_limit=many", "weir_limit=-1", "weir_class=batch/weir_class=free"):
            self.assertEqual(self.codes(server, "edge", "a=x/" + said), "- -", said)
            self.assertEqual(self.codes(server, "edge", "s=x/" + said), "+ +", said)  # in shadow mode
            self.assertEqual(self.codes(server, "edge", "u=x/" + said), "+ +", said)
            self.assertEqual(self.codes(server, "edge", "z=x/" + said), "+ +", said)  # nothing limits it
        self.assertEqual(self.status(server, "a=x"), ("OK", 10, 9))
        self.assertEqual(self.status(server, "p=x/weir_class=batch/q=y"), ("OK", 6, 5))

    def test_who_may_say_it_is_configured(self):
        server = self.start(self.FILE, SPLIT % "")
        self.assertIn("says: [tenant] in listen.http", self.refusal(server, "a=x/weir_tenant=n"))
        server.end()
        server = self.start(self.FILE, ", domains: {edge: {entries: {class: level, limit: plan}}}")
        self.assertIn("class: the domain has none: classes:", self.refusal(server, "a=x/level=batch"))
        self.assertIn("limit: the domain takes none: most:", self.refusal(server, "a=x/plan=5"))
        self.assertEqual(self.codes(server, "edge", "a=x/weir_class=batch"), "+ +")  # an entry like others, that no file has
        server.end()
        self.listen = LISTEN
        server = self.start(self.FILE, SPLIT % "")
        self.assertIn("class: no request may say it here: says: [class] in listen.http", self.refusal(server, "a=x/weir_class=batch"))
        self.assertIn("limit: no request", self.refusal(server, "a=x/weir_limit=x"))
        self.assertEqual(self.status(server, "a=x"), ("OK", 10, 9))

    def test_together_and_what_goes_back(self):
        server = self.start(self.FILE, SPLIT % ", together: true")
        self.assertEqual(self.codes(server, "edge", "a=x/weir_class=batch", "p=x/q=y", hitsAddend=6), "+ ++")
        self.assertEqual(self.codes(server, "edge", "a=x/weir_class=batch", "p=x/q=y"), "- -+")
        self.assertEqual(self.status(server, "p=x/q=y"), ("OK", 10, 3))
        self.assertEqual(self.codes(server, "edge", "a=x/weir_class=free", "a=x"), "+ ++")  # in one place, and not of one class
        self.assertEqual(self.status(server, "a=x"), ("OK", 10, 1))
        back = {"entries": entries("a=x/weir_class=batch"), "hitsAddend": 4, "isNegativeHits": True}
        self.assertEqual(self.codes(server, "edge", back), "+ +")
        self.assertEqual(self.status(server, "a=x"), ("OK", 10, 4))
        asked = {"entries": entries("a=y/weir_class=batch"), "limit": {"requestsPerUnit": 20, "unit": "YEAR"}}
        self.assertEqual(self.status(server, asked), ("OK", 12, 11))

    def test_places_have_classes(self):
        server = self.start({"a.yaml": "domain: edge\ndescriptors: [{key: a, rate_limit: {unit: hour, requests_per_unit: 4}}]\n"},
                            ", domains: {edge: {algorithm: in-flight, classes: batch:2}}")
        told = [self.codes(server, "edge", "a=x/weir_class=batch") for _ in range(3)]
        self.assertEqual(told + [self.codes(server, "edge", "a=x")], ["+ +", "+ +", "- -", "+ +"])


class Domains(Served):
    FILE = {"a.yaml": "domain: edge\ndescriptors:\n  - {key: a, %s}\n  - {key: b, %s}\n" % (per_year(3), per_year(1))}

    def test_denied_ones_count_or_not(self):
        for count, last in (("all", "- -"), ("admitted", "+ +")):
            server = self.start(self.FILE, ", domains: {edge: {count: %s}}" % count)
            for hits, expected in ((2, "+ +"), (2, "- -"), (1, last)):
                self.assertEqual(self.codes(server, "edge", "a=x", hitsAddend=hits), expected)

    def test_together_gives_back(self):
        server = self.start(self.FILE, ", domains: {edge: {together: true}}")
        self.assertEqual(self.codes(server, "edge", "a=x", "b=x"), "+ ++")
        for _ in range(4):
            told = self.ask(server, "edge", "a=x", "b=x")
            self.assertEqual([s["limitRemaining"] for s in told["statuses"]], [2, 0])
        self.assertEqual(self.ask(server, "edge", "a=x")["statuses"][0]["limitRemaining"], 1)
        server = self.start(self.FILE)
        for expected in ("+ ++", "- +-", "- +-", "- --"):
            self.assertEqual(self.codes(server, "edge", "a=x", "b=x"), expected)

    def left(self, server, *descriptors):
        """The rest that a look finds."""
        peeks = [{"entries": entries(text), "hitsAddend": 0} for text in descriptors]
        client = server.connect("http")
        told = json.loads(http(client, post("/json", question("edge", *peeks)))[1])
        client.close()
        return [status["limitRemaining"] for status in told["statuses"]]

    def test_together_is_one_decision(self):
        """Descriptors that count in one place are one charge; shadow mode and quota mode have their say, or none."""
        file = {"a.yaml": "domain: edge\ndescriptors:\n" + "".join("  - {key: %s, %s%s}\n" % one for one in (
            ("a", per_year(3), ""), ("b", per_year(1), ""), ("s", per_year(1), ", shadow_mode: true"),
            ("p", per_year(1), ", quota_mode: true"), ("q", per_year(2), ", quota_mode: true"),
            ("no", "rate_limit: {unit: year, requests_per_unit: 0}", ""), ("d", per_year(10**6), "")))}
        for kind in ("memory", "memcached", "redis"):
            stores = STORES
            if kind != "memory":
                store = Store(kind)
                self.addCleanup(store.end)
                stores = 'stores: {main: {url: "%s?timeout=10s", processes: 2}}\n' % store.url
            server = self.start(file, ", domains: {edge: {together: true}}", stores=stores)
            self.assertEqual(self.codes(server, "edge", "a=x", "a=x"), "+ ++")
            self.assertEqual(self.codes(server, "edge", "a=x", "a=x", "b=x"), "- --+")  # two more are too many
            self.assertEqual(self.left(server, "a=x", "b=x"), [1, 1])
            # A descriptor in shadow mode is charged with the others, and not without them.
            self.assertEqual(self.codes(server, "edge", "b=y", "s=x"), "+ ++")
            self.assertEqual(self.codes(server, "edge", "b=y", "s=y"), "- -+")
            self.assertEqual(self.codes(server, "edge", "b=z", "s=x"), "+ ++")
            self.assertEqual(self.left(server, "s=y", "b=z"), [1, 0])
            # One quota is over like any other, two are only both.
            self.assertEqual(self.codes(server, "edge", "a=q", "p=1"), "+ ++")
            self.assertEqual(self.codes(server, "edge", "a=q", "p=1"), "- +-")
            self.assertEqual(self.codes(server, "edge", "a=q", "p=1", "q=1"), "+ +-+")
            self.assertEqual(self.codes(server, "edge", "b=y", "q=1"), "- -+")
            self.assertEqual(self.codes(server, "edge", "b=y", "p=2", "q=1"), "- -++")
            self.assertEqual(self.left(server, "a=q", "q=1", "p=2"), [1, 1, 1])
            self.assertEqual(self.codes(server, "edge", "q=1"), "+ +")
            self.assertEqual(self.codes(server, "edge", "a=q", "p=1", "q=1"), "- +--")
            self.assertEqual(self.left(server, "a=q"), [1])
            # Nothing is charged where a limit is 0, or where a look is over.
            self.assertEqual(self.codes(server, "edge", "a=n", "d=n", "no=1"), "- ++-")
            self.assertEqual(self.codes(server, "edge", "a=n", "d=n", "no=1", hitsAddend=4), "- -+-")  # by their hits
            # What counts in one place is looked at as it would be charged.
            self.assertEqual(self.codes(server, "edge", "a=n", "d=n", "a=n", "no=1"), "- +++-")
            self.assertEqual(self.codes(server, "edge", "a=n", "d=n", "a=n", "no=1", hitsAddend=2), "- -+--")
            look = {"entries": entries("b=y"), "hitsAddend": 0}
            self.assertEqual(self.codes(server, "edge", "a=n", "d=n", look), "- ++-")
            self.assertEqual(self.left(server, "a=n", "d=n"), [3, 10**6])
            self.assertEqual(self.codes(server, "edge", *["d=%d" % i for i in range(16)], *["d=0"] * 48), "+ " + 64 * "+")
            self.assertEqual(self.left(server, "d=0", "d=1"), [10**6 - 49, 10**6 - 1])
            client = server.connect("http")
            status, body, _ = http(client, post("/json", question("edge", *["d=%d" % i for i in range(17)])))
            client.close()
            self.assertEqual((status, json.loads(body)["detail"]),
                             (400, "together: at most 16 descriptors are charged as one"))
            self.assertEqual(self.left(server, "d=1"), [10**6 - 1])

    def test_a_flood_waits_for_its_turn(self):
        """Each descriptor counts as a request of what a connection may bring, which is half of `waiting`: one
        question of 64 uses it up."""
        server = self.start({"a.yaml": "domain: edge\ndescriptors: [{key: a, %s}]\n" % per_year(10**6)},
                            rest="limits: {waiting: 100}\nloops: 1\n")
        client = server.connect("http")
        client.send(30 * post("/json", question("edge", *(64 * ["a=x"]))))
        for _ in range(30):
            self.assertEqual(len(json.loads(http(client, "")[1])["statuses"]), 64)
        client.close()
        self.assertEqual(server.metric("weir_serve_shed_total"), 0)

    def test_months_of_the_calendar(self):
        """The date stands in the key; the count ends with it, also where a request brings the limit."""
        file = {"a.yaml": "domain: edge\ndescriptors:\n" + "".join(
            "  - {key: %s, rate_limit: {unit: %s, requests_per_unit: 2}}\n" % (unit, unit)
            for unit in ("day", "month", "year"))}
        store = Store("memcached")
        self.addCleanup(store.end)
        stores = 'stores: {main: {url: "%s?timeout=10s"}}\n' % store.url
        server = self.start(file, ", domains: {edge: {calendar: true}}", stores=stores)
        before = datetime.datetime.now(datetime.timezone.utc)
        brought = {"entries": entries("month=x"), "limit": {"requestsPerUnit": 2, "unit": "MONTH"}}
        asked = ["day=x", "month=x", "year=x", brought]
        told = [self.ask(server, "edge", *asked) for _ in range(2)]
        now = datetime.datetime.now(datetime.timezone.utc)
        if now.month != before.month:
            self.skipTest("it was the end of a month")
        self.assertEqual([s["code"] for s in told[1]["statuses"]], ["OK", "OVER_LIMIT", "OK", "OVER_LIMIT"])
        month = (now.replace(day=28) + datetime.timedelta(days=4)).replace(day=1)
        ends = [datetime.datetime(*day, tzinfo=datetime.timezone.utc) for day in
                ((month.year, month.month, 1), (now.year + 1, 1, 1), (month.year, month.month, 1))]
        for status, end in zip(told[1]["statuses"][1:], ends):
            left = (end - now).total_seconds()
            self.assertLess(abs(int(status["durationUntilReset"][:-1]) - left), 30, status)
        for rule, key in (("fixed-window:2/86400s", "/edge/day=x"), ("quota:2/32d", now.strftime("/edge/month=x/%Y-%m")),
                          ("quota:2/367d", now.strftime("/edge/year=x/%Y"))):
            peeked = subprocess.run([PROGRAM, "peek", "--store", store.url + "?timeout=10s", "--rule", rule, "--json",
                                     key], capture_output=True, text=True, check=False)
            self.assertEqual(json.loads(peeked.stdout)["remaining"], 0, peeked)

    def returns(self, server, *descriptors):
        """(status, what is left or why not) of a request of descriptors that give back as many hits."""
        given = [{"entries": entries(text), "hitsAddend": hits, "isNegativeHits": True} for text, hits in descriptors]
        client = server.connect("http")
        status, body, _ = http(client, post("/json", question("edge", *given)))
        client.close()
        told = json.loads(body)
        return status, [one.get("limitRemaining") for one in told["statuses"]] if status == 200 else told.get("detail")

    def test_negative_hits_go_back(self):
        for kind in ("memcached", "redis"):
            store = Store(kind)
            self.addCleanup(store.end)
            stores = 'stores: {main: {url: "%s?timeout=10s", processes: 2}}\n' % store.url
            server, other = (self.start(self.FILE, stores=stores) for _ in range(2))
            self.assertEqual(self.codes(server, "edge", "a=x", "b=x"), "+ ++")
            self.assertEqual(self.codes(other, "edge", "a=x", hitsAddend=2), "+ +")
            self.assertEqual(self.codes(server, "edge", "a=x"), "- -")
            self.assertEqual(self.returns(server, ("a=x", 2), ("b=x", 1), ("other=x", 1)), (200, [2, 1, None]), kind)
            self.assertEqual(self.codes(server, "edge", "a=x", hitsAddend=2), "+ +")
            self.assertEqual(self.codes(server, "edge", "a=x"), "- -")
            self.assertEqual(self.codes(server, "edge", "b=x"), "+ +")
            self.assertEqual(self.returns(server, ("b=x", 0))[0], 429)  # a peek, as ever
            within = 'weir_serve_descriptor_decisions_total{domain="edge",descriptor="a",decision="within"}'
            self.assertEqual(server.metric(within), 2)  # what goes back is no decision

    def test_negative_hits_of_quotas_go_back(self):
        """Also where they stand for a month."""
        for options in ("algorithm: quota", "calendar: true"):
            for kind in ("memcached", "redis"):
                store = Store(kind)
                self.addCleanup(store.end)
                stores = 'stores: {main: {url: "%s?timeout=10s", processes: 2}}\n' % store.url
                server, other = (self.start(self.FILE, ", domains: {edge: {%s}}" % options, stores=stores)
                                 for _ in range(2))
                self.assertEqual(self.codes(server, "edge", "a=x", hitsAddend=3), "+ +")
                self.assertEqual(self.codes(server, "edge", "a=x"), "- -")
                self.assertEqual(self.returns(other, ("a=x", 1)), (200, [1]), options)
                self.assertEqual(self.returns(server, ("a=x", 3)), (200, [3]), options)  # one of them is back already
                self.assertEqual(self.codes(other, "edge", "a=x", hitsAddend=3), "+ +", options)
                self.assertEqual(self.codes(server, "edge", "a=x"), "- -")

    def test_no_more_goes_back_than_counts(self):
        for options in ("algorithm: fixed-window", "algorithm: quota", "calendar: true"):
            server = self.start(self.FILE, ", domains: {edge: {%s}}" % options)
            self.assertEqual(self.returns(server, ("b=new", 1)), (200, [1]), options)
            for hits in (3, 4, 2**31):
                self.codes(server, "edge", "a=x", hitsAddend=2)
                self.assertEqual(self.returns(server, ("a=x", hits)), (200, [3]), options)
            for _ in range(2):  # both see three that count: the second finds one
                self.assertEqual(self.codes(server, "edge", "a=x", hitsAddend=3), "+ +")
                self.assertEqual(self.codes(server, "edge", "a=x"), "- -")
                self.assertEqual(self.returns(server, ("a=x", 2), ("a=x", 2)), (200, [2, 3]), options)

    def test_negative_hits_where_nothing_is_charged(self):
        """Under a limit of 0, and of a key that is too long. A class that is none is no hindrance."""
        text = ("domain: edge\ndescriptors: [{key: no, rate_limit: {unit: hour, requests_per_unit: 0}}, "
                "{key: a, rate_limit: {unit: hour, requests_per_unit: 3}}]\n")
        self.listen = SAYS
        for algorithm in ("fixed-window", "quota", "sliding-window", "token-bucket", "in-flight"):
            server = self.start({"a.yaml": text}, ", domains: {edge: {algorithm: %s, classes: batch:2}}" % algorithm)
            returns = algorithm in ("fixed-window", "quota", "in-flight")
            self.assertEqual(self.codes(server, "edge", "a=x"), "+ +")
            self.assertEqual(self.returns(server, ("no=x", 1), ("a=" + 5000 * "x", 2)), (200, [0, 0]), algorithm)
            if returns:
                self.assertEqual(self.returns(server, ("no=x", 1), ("a=x/weir_class=none", 1)), (200, [0, 3]), algorithm)
            self.assertEqual(self.codes(server, "edge", "no=x", "a=x"), "- -+", algorithm)

    def test_negative_hits_that_cannot_go_back(self):
        server = self.start(self.FILE)
        self.codes(server, "edge", "a=x", hitsAddend=2)
        self.assertIn("at most 8", self.returns(server, *[("a=x", 1)] * 9)[1])
        self.assertEqual(self.returns(server, ("a=x", 1), ("a=x", 1))[0], 200)
        self.assertEqual(self.returns(server, ("a=x", 0)), (200, [3]))
        for options, says in (("count: all", "keeps what is charged"), ("algorithm: sliding-window", "a quota accept"),
                              ("algorithm: token-bucket", "a quota accept")):
            keeps = self.start(self.FILE, ", domains: {edge: {%s}}" % options)
            self.assertEqual(self.codes(keeps, "edge", "a=x"), "+ +")
            status, why = self.returns(keeps, ("a=x", 1))
            self.assertEqual(status, 400)
            self.assertIn(says, why)
        store = Store("memcached")
        self.addCleanup(store.end)
        for fallback in ("local", "allow"):
            server = self.start(self.FILE, stores='stores: {main: {url: "%s", fallback: %s}}\n' % (store.url, fallback))
            self.codes(server, "edge", "a=x")
            store.order("kill")
            status, why = self.returns(server, ("a=x", 1))
            self.assertEqual(status, 503, why)
            store.order("restart")

    def test_headers(self):
        """Those of the part that is over, or else has the least left."""
        for style, names in (("draft-10", {"RateLimit-Policy", "RateLimit"}),
                             ("draft-03", {"X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset"})):
            server = self.start(self.FILE, ", domains: {edge: {headers: %s}}" % style)
            for more in (set(), {"Retry-After"}):
                told = self.ask(server, "edge", "a=x", "b=x", "other=x")
                fields = {field["key"]: field["value"] for field in told["responseHeadersToAdd"]}
                self.assertEqual(set(fields), names | more)
                limit = fields.get("X-RateLimit-Limit", fields.get("RateLimit-Policy"))
                self.assertIn(limit, ("1", '"edge";q=1;w=%d' % YEAR_S))
            self.assertNotIn("responseHeadersToAdd", self.ask(server, "edge", "other=x"))
        self.assertNotIn("responseHeadersToAdd", self.ask(self.start(self.FILE), "edge", "a=x"))

    def test_headers_have_the_names_that_are_given(self):
        server = self.start(self.FILE, ", domains: {edge: {headers: draft-03, header_names: "
                                       "{limit: RateLimit-Limit, reset: x_reset.2}}}")
        for more in ([], ["Retry-After"]):
            told = self.ask(server, "edge", "b=x")
            self.assertEqual([field["key"] for field in told["responseHeadersToAdd"]],
                             ["RateLimit-Limit", "X-RateLimit-Remaining", "x_reset.2"] + more)

    def test_a_domain_of_several_files(self):
        """Where that is accepted: all its limits hold, also those of a file that comes later."""
        one = "domain: %s\ndescriptors: [{key: %s, %s}]\n"
        server = self.start({"a.yaml": one % ("edge", "a", per_year(1)), "b.yaml": one % ("other", "a", per_year(1)),
                             "c.yaml": one % ("edge", "c", per_year(2))}, ", merge: true, domains: {edge: {count: all}}")
        self.assertEqual([self.codes(server, "edge", "a=x", "c=x") for _ in "123"], ["+ ++", "- -+", "- --"])
        self.write(server.files, "d.yaml", one % ("edge", "d", per_year(1)))
        server.await_log("is in use now")
        self.assertEqual([self.codes(server, "edge", "a=x", "d=x") for _ in "12"], ["- -+", "- --"])
        self.write(server.files, "e.yaml", one % ("edge", "c", per_year(1)))
        server.await_log("e.yaml:2:15: domain edge: descriptors[3]: the same key and value as in line 2 of ")

    def test_near_the_limit(self):
        server = self.start({"a.yaml": "domain: edge\ndescriptors: [{key: a, %s}]\n" % per_year(10)})
        near = 'weir_serve_descriptor_near_limit_total{domain="edge",descriptor="a"}'
        for count, expected in ((8, 0), (1, 1), (1, 2), (1, 2)):
            for _ in range(count):
                self.ask(server, "edge", "a=x")
            self.assertEqual(server.metric(near), expected)
        for percent, expected in ((0, 10), (35, 7), (100, 0)):
            server = self.start({"a.yaml": "domain: edge\ndescriptors: [{key: a, %s}]\n" % per_year(10)},
                                ", domains: {edge: {near_limit: %d}}" % percent)
            for _ in range(11):
                self.ask(server, "edge", "a=x")
            self.assertEqual(server.metric(near), expected)

    def test_a_period_of_several_units(self):
        text = "domain: edge\ndescriptors: [{key: a, rate_limit: {unit: day, unit_multiplier: 300, requests_per_unit: 2}}]\n"
        server = self.start({"a.yaml": text}, ", domains: {edge: {headers: draft-10}}")
        told = self.ask(server, "edge", "a=x")
        self.assertEqual(told["statuses"][0]["currentLimit"], {"requestsPerUnit": 2, "unit": "DAY"})
        self.assertIn({"key": "RateLimit-Policy", "value": '"edge";q=2;w=%d' % (300 * 86400)}, told["responseHeadersToAdd"])
        self.assertEqual([self.codes(server, "edge", "a=x") for _ in "12"], ["+ +", "- -"])

    def test_hits_are_counted(self):
        """Those within and those over, by limit and by value; a peek has none."""
        server = self.start({"a.yaml": "domain: edge\ndescriptors: [{key: a, detailed_metric: true, %s}]\n" % per_year(10)},
                            rest="loops: 2\n")
        for hits in (7, 4, 4, 3):
            self.ask(server, "edge", "a=x", hitsAddend=hits)
        self.ask(server, "edge", {"entries": entries("a=x"), "hitsAddend": 0})
        for name, descriptor in (("hits", "a"), ("detailed_hits", "a=x")):
            rows = 'weir_serve_descriptor_%s_total{domain="edge",descriptor="%s",decision="%%s"}' % (name, descriptor)
            self.assertEqual([server.metric(rows % each) for each in ("within", "over", "shadow", "none")], [10, 8, 0, 0])

    def test_in_shadow(self):
        server = self.start(self.FILE, rest="shadow: true\n")
        for _ in range(3):
            self.assertEqual(self.codes(server, "edge", "b=x"), "+ +")
        self.assertEqual(server.metric('weir_serve_limiter_shadow_denied_total{limiter="/edge"}'), 2)

    def test_no_decision_is_503(self):
        away = 'stores: {main: {url: "redis://127.0.0.1:1?timeout=1s", fallback: none}}\n'
        server = self.start(self.FILE, stores=away)
        client = server.connect("http")
        status, body, _ = http(client, post("/json", question("edge", "a=x", "nobody=x")))
        self.assertEqual(status, 503)
        self.assertIn("UNAVAILABLE: ", json.loads(body)["detail"])
        self.assertEqual(http(client, post("/json", question("edge", "nobody=x")))[0], 200)
        client.close()

    def test_without_files_it_is_not_there(self):
        with Server(LISTEN + STORES + 'limiters: {a: {rule: "quota:1/1d"}}\n') as server:
            client = server.connect("http")
            self.assertEqual(http(client, post("/json", question("edge", "a=x")))[0], 404)
            client.close()

    def details(self, server, domain, decision="within"):
        """Counts by path, of those that have any."""
        client = server.connect("admin")
        page = http(client, get("/metrics"))[1]
        client.close()
        row = r'^weir_serve_descriptor_detailed_%s"} ([1-9]\d*)$'
        name = r'decisions_total{domain="%s",descriptor="([^"\\]*)",decision="%s' % (domain, decision)
        if decision == "near":
            name = r'near_limit_total{domain="%s",descriptor="([^"\\]*)' % domain
        return {path: int(count) for path, count in re.findall(row % name, page, re.MULTILINE)}

    def test_values_are_told_in_metrics_where_the_file_asks_so(self):
        text = """
domain: edge
descriptors:
  - {key: d, %(two)s, detailed_metric: true}
  - {key: e, %(two)s, detailed_metric: true, shadow_mode: true}
  - key: route
    value: draw
    descriptors: [{key: method, value_to_metric: true, descriptors: [{key: sub, %(two)s}, {key: free, %(free)s}]}]
  - {key: all, descriptors: [{key: x, value: y, descriptors: [{key: z, detailed_metric: true, %(two)s}]}]}
  - {key: w, value: "a*", share_threshold: true, detailed_metric: true, %(two)s}
  - {key: w, value: "b*", value_to_metric: true, %(two)s}
  - {key: w, value: "c*", %(two)s}
  - {key: free, detailed_metric: true, rate_limit: {unlimited: true}}
""" % {"two": per_year(2), "free": "rate_limit: {unlimited: true}"}
        server = self.start({"a.yaml": text}, rest="loops: 2\n")
        self.assertEqual(self.details(server, "edge"), {})
        odd = {"entries": [{"key": "d", "value": 'a"b\\c/d=e%\n\x00\u00e9 f'}]}
        long = {"entries": [{"key": "d", "value": "x" * 510}]}  # two bytes more with its key
        longer = {"entries": [{"key": "d", "value": "x" * 511}]}
        own = {"entries": [{"key": "d", "value": "5"}], "limit": {"requestsPerUnit": 9, "unit": "YEAR"}}
        for _ in range(3):
            self.ask(server, "edge", "d=1", "d=2", "e=1", odd, long, longer, "d=", own, "free=1", "other=1",
                     "route=draw/method=GET/sub=1", "route=draw/method=GET/free=1", "all=p/x=y/z=1", "w=a1", "w=a2",
                     "w=b1", "w=c1")
        paths = ["d=1", "d=2", "d=a%22b%5Cc%2Fd%3De%25%0A%00%C3%A9 f", "d=" + "x" * 510, "other", "d=",
                 "route=draw/method=GET/sub", "all=p/x=y/z=1", "w=a*", "w=b1"]
        expected = dict.fromkeys(paths, 2)
        self.assertEqual(self.details(server, "edge"), {**expected, "e=1": 2})
        self.assertEqual(self.details(server, "edge", "over"), {**dict.fromkeys(paths, 1), "w=a*": 4})
        self.assertEqual(self.details(server, "edge", "shadow"), {"e=1": 1})
        self.assertEqual(self.details(server, "edge", "near"), {**dict.fromkeys(paths, 1), "e=1": 1})
        self.assertEqual(server.metric('weir_serve_descriptor_decisions_total{domain="edge",descriptor="d",decision="within"}'),
                         12)
        self.write(server.files, "a.yaml", text + "  - {key: new, %s}\n" % per_year(1))
        await_that(lambda: server.metric('weir_serve_reloads_total{result="used"}') == 1, "the reload")
        await_that(lambda: self.ask(server, "edge", "new=1") and self.details(server, "edge") == {}, "counts begin anew")

    def test_values_in_metrics_are_bounded(self):
        text = "domain: %s\ndescriptors: [{key: k, %s, detailed_metric: true}]\n"
        files = {name + ".yaml": text % (name, per_year(10)) for name in ("many", "few")}
        server = self.start(files, rest="loops: 2\n")
        clients = [server.connect("http") for _ in range(4)]

        def ask(first):
            for i in range(first, 1100, 100):
                for value in range(i, i + 25):
                    http(clients[first // 25], post("/json", question("many", "k=%d" % value, "k=0")))
        threads = [threading.Thread(target=ask, args=(first,)) for first in (0, 25, 50, 75)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for client in clients:
            client.close()
        told = self.details(server, "many")
        self.assertEqual((len(told), told.pop("other")), (1001, 100))
        self.assertEqual(told.pop("k=0"), 10)
        self.assertEqual(set(told.values()), {1})
        self.assertEqual(self.details(server, "many", "over"), {"k=0": 1091})
        self.ask(server, "many", "k=new", "k=%s" % next(path[2:] for path in told))
        again = self.details(server, "many")
        self.assertEqual((again["other"], max(again.values()), list(again.values()).count(2)), (101, 101, 1))
        self.assertEqual(self.ask(server, "few", "k=new")["overallCode"], "OK")
        self.assertEqual(self.details(server, "few"), {"k=new": 1})

    def test_limits_are_told_in_metrics(self):
        """Whatever their names hold, and as often as they are read."""
        text = """
domain: "od d/=%%"
descriptors:
  - {key: 'q"\\', value: "a/b=c%%\\nd", %s, shadow_mode: true}
  - {key: k, descriptors: [{key: "é", %s}]}
"""
        server = self.start({"a.yaml": text % (per_year(1), per_year(1))}, rest="loops: 2\n")
        rows = 'weir_serve_descriptor_decisions_total{domain="od d/=%%",descriptor="%s",decision="%s"}'
        odd = {"entries": [{"key": 'q"\\', "value": "a/b=c%\nd"}]}
        for _ in range(3):
            self.codes(server, "od d/=%", odd, "k=1/é=2")
        client = server.connect("admin")
        page = http(client, get("/metrics"))[1]
        for name, decision, count in (("q%22%5C=a%2Fb%3Dc%25%0Ad", "within", 1), ("q%22%5C=a%2Fb%3Dc%25%0Ad", "shadow", 2),
                                      ("k/é", "within", 1), ("k/é", "over", 2)):
            self.assertIn(rows % (name, decision) + " %d\n" % count, page)
        self.write(server.files, "b.yaml", "domain: other\n")
        server.await_log("is in use now")
        self.codes(server, "od d/=%", odd)
        self.assertIn("od d", http(client, get("/metrics"))[1])
        client.close()

    def test_files_are_watched(self):
        server = self.start(self.FILE)
        self.assertEqual(self.codes(server, "edge", "b=x"), "+ +")
        self.write(server.files, "a.yaml", "domain: edge\ndescriptors:\n  - {key: b, %s} # more\n" % per_year(2))
        server.await_log("is in use now")
        self.assertEqual(self.codes(server, "edge", "b=x"), "+ +")  # the count goes on
        self.assertEqual(self.codes(server, "edge", "b=x"), "- -")
        self.write(server.files, "b.yaml", "domain: edge\n")
        server.await_log("b.yaml:1:9: domain: domain \"edge\" stands in line 1 of")
        server.await_log("stays as it was")
        self.assertEqual(self.codes(server, "edge", "b=x"), "- -")
        self.write(server.files, "b.yaml", "domain: other\ndescriptors: [{key: c, %s}]\n" % per_year(1))
        server.await_log("is in use now", 2)
        self.assertEqual(self.codes(server, "other", "c=x"), "+ +")
        self.assertEqual(self.codes(server, "other", "c=x"), "- -")
        rows = 'weir_serve_decisions_total{limiter="/edge",protocol="http",decision="allowed",source="store"}'
        self.assertEqual(server.metric(rows), 2)


class Agreement(Served):
    """The server and weir take count alike, on the same keys."""

    def take(self, url, key, cost):
        result = subprocess.run([PROGRAM, "take", "--json", "--store", url, "--rule", f"fixed-window:40/{YEAR_S}s",
                                 "--processes", "2", "--deadline", "10s", "--cost", str(cost), key],
                                capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        self.assertIn(result.returncode, (0, 1), result.stderr)
        told = json.loads(result.stdout)
        return told["decision"] == "allowed", told["remaining"]

    def trace(self, url):
        """Half of it each way."""
        chance = random.Random(4)
        stores = 'stores: {main: {url: "%s?timeout=10s", processes: 2, fallback: none}}\n' % url
        server = self.start({"a.yaml": "domain: edge\ndescriptors: [{key: ip, %s}]\n" % per_year(40)}, stores=stores)
        left = {}
        told = []
        for i in range(40):
            value, cost = chance.choice("a/=%"), chance.choice((1, 2, 3, 19))
            if i % 4 == 0:
                escaped = value if value == "a" else "%%%02X" % ord(value)
                allowed, remaining = self.take(url, "/edge/ip=" + escaped, cost)
            else:
                asked = {"entries": [{"key": "ip", "value": value}]}
                status, = self.ask(server, "edge", asked, hitsAddend=cost)["statuses"]
                allowed, remaining = status["code"] == "OK", status["limitRemaining"]
            expected = left.get(value, 40) >= cost
            left[value] = left.get(value, 40) - cost * expected
            told.append((allowed, remaining) == (expected, left[value]))
        self.assertEqual(told, 40 * [True])

    def test_on_memcached_and_redis(self):
        for kind in ("memcached", "redis"):
            store = Store(kind)
            self.addCleanup(store.end)
            self.trace(store.url)

    def test_an_override_and_the_file_share_a_count(self):
        store = Store("memcached")
        self.addCleanup(store.end)
        stores = 'stores: {main: {url: "%s?timeout=10s", fallback: none}}\n' % store.url
        server = self.start({"a.yaml": "domain: edge\ndescriptors: [{key: ip, %s}]\n" % per_year(3)}, stores=stores)
        for limit, expected in ((None, "+ +"), (2, "+ +"), (2, "- -"), (None, "+ +"), (None, "- -")):
            own = {"entries": entries("ip=x"), "limit": limit and {"requestsPerUnit": limit, "unit": "YEAR"}}
            self.assertEqual(self.codes(server, "edge", own), expected)


if __name__ == "__main__":
    unittest.main()
