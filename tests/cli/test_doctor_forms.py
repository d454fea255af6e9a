"""doctor on a server of every form that a store can have, all of which are sound."""

import os
import socket
import unittest

from doctor import PATIENT, DoctorTest
from program import run

FORMS = {name[len("WEIR_TEST_"):]: url for name, url in os.environ.items()
         if name.startswith("WEIR_TEST_")}
# Doctor sends a TIME, or behind a proxy a SUNION, which those servers may not have seen.
ELSEWHERE = {"REDIS_ACL_LIMITER", "REDIS_ACL_STRICTEST", "REDIS_TWEMPROXY"}
WARNINGS = {"MEMCACHED_CLASSIC": {"dialect"}, "TWEMPROXY": {"proxy"}}
SERVERS = {"MEMORY": 0, "MEMCACHED_THREE": 3}
SWAPPING = "at most B + t L/W in any time t"
RAISING = "at most B + t L/W + P in any time t"


def patient(url):
    return url + ("&" if "?" in url else "?") + PATIENT


class Forms(DoctorTest):
    def test_every_form_is_here(self):
        self.assertTrue({"MEMORY", "MEMCACHED_META", "MEMCACHED_CLASSIC", "MEMCACHED_THREE",
                         "MEMCACHED_UNIX", "MEMCACHED_TLS", "TWEMPROXY", "REDIS", "REDIS_UNIX",
                         "REDIS_RENAMED", "REDIS_TLS"} <= set(FORMS), FORMS)

    def test_a_sound_store_has_no_fault_and_no_warning_but_its_own(self):
        for form, url in sorted(FORMS.items()):
            if form in ELSEWHERE:
                continue
            with self.subTest(form):
                self.check(form, url)

    def check(self, form, url):
        found = self.inspect(patient(url))
        self.assert_faults(found)
        self.assert_warnings(found, *WARNINGS.get(form, set()))
        servers = {f["server"] for f in found} - {None}
        self.assertEqual(len(servers), SERVERS.get(form, 1), servers)
        raises = "REDIS" in form or "VALKEY" in form
        self.assert_found(found, "fact", "buckets", RAISING if raises else SWAPPING)
        for server in servers or {None}:
            of_server = [f for f in found if f["server"] == server]
            for topic in ("round trip", "operations", "order", "expiry"):
                self.assertIn(topic, [f["topic"] for f in of_server])
            self.assert_found(of_server, "fact", "operations",
                              "RAISE" if raises else "SWAP", "ADD SUB GET CREATE", "PUT DROP")

    def test_each_server_says_what_it_is(self):
        found = self.inspect(patient(FORMS["REDIS"]))
        self.assert_found(found, "fact", "server", "Redis 7.")
        self.assert_found(found, "fact", "security", "plain text, no TLS")
        self.assert_found(found, "fact", "access", "user default may run all that is needed")
        self.assert_found(found, "fact", "clock", "this machine's, give or take")
        self.assert_found(found, "fact", "eviction", "there is no maxmemory")
        self.assert_found(found, "fact", "sums", "SET and INCRBY",
                          "the server does not have this command", "from 8.8 on")
        found = self.inspect(patient(FORMS["REDIS_INCREX"]))
        self.assert_found(found, "fact", "sums", "one command each, INCREX")
        self.assert_found(found, "fact", "ACL", " +increx")
        found = self.inspect(patient(FORMS["MEMCACHED_META"]))
        self.assert_found(found, "fact", "server", "memcached 1.")
        self.assert_found(found, "fact", "dialect", "meta commands: an addition is one command")
        self.assert_found(found, "fact", "eviction", "none so far")
        self.assert_found(found, "fact", "memory", " of 16 MB")
        found = self.inspect(patient(FORMS["MEMCACHED_UNIX"]))
        self.assert_found(found, "fact", "security", "a socket of this machine")
        found = self.inspect(patient(FORMS["MEMCACHED_TLS"]))
        self.assert_found(found, "fact", "security", "are verified")
        self.assert_found(found, "fact", "access", "user and password of the URL are accepted")

    def test_the_acl_line_is_that_of_the_page(self):
        page = os.path.join(os.path.dirname(__file__), "../../docs/redis-commands.md")
        with open(page, encoding="ascii") as file:
            line = [each for each in file if each.startswith("ACL SETUSER")][0].strip()
        self.assert_found(self.inspect(patient(FORMS["REDIS"])), "fact", "ACL", line)
        found = self.inspect(patient(FORMS["REDIS"]) + "&namespace=shop")
        self.assert_found(found, "fact", "ACL", line.replace("weir:*", "weir:shop:*"))

    def test_text_has_an_entry_a_finding_under_its_server(self):
        for form in ("MEMCACHED_THREE", "MEMORY"):
            url = patient(FORMS[form])
            result = run("doctor", "--store", url)
            self.assert_ends(result, 0)
            lines = result.stdout.decode("ascii").splitlines()
            heads = [line for line in lines[:-1] if not line.startswith("  ")]
            self.assertEqual(heads, FORMS[form].split("//")[1].split(",") + ["store"]
                             if form == "MEMCACHED_THREE" else ["store"])
            for line in lines[:-1]:
                if line not in heads:
                    self.assertRegex(line, r"\A(  (ok     |warning)  [a-z ]{10}  | {23})\S")
            self.assertRegex(lines[-1], r"\A0 faults, [0-9]+ warnings?\Z")

    def test_nothing_is_left_behind(self):
        host, port = FORMS["REDIS"].split("//")[1].rsplit(":", 1)
        self.inspect(patient(FORMS["REDIS"]) + "&namespace=tidy")
        with socket.create_connection((host, int(port))) as client:
            client.sendall(b"SCAN 0 MATCH weir:tidy:* COUNT 100000\r\n")
            self.assertRegex(client.recv(65536), rb"\A\*2\r\n\$\d+\r\n\d+\r\n\*0\r\n\Z")


if __name__ == "__main__":
    unittest.main()
