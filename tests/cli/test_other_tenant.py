"""Another user of the same store does harm to a limiter, and is kept from it: docs/security.md."""

import hashlib
import json
import re
import time
import unittest
from urllib.parse import unquote_to_bytes

from doctor import Server
from program import ALLOWED, DENIED, NO_DECISION, ProgramTest, run

RULES = ("fixed-window:5/400d", "token-bucket:5/400d", "quota:5/400d")
VICTIM = "alice@example.com"


class Redis:
    """A connection that speaks for itself."""

    def __init__(self, server, *login):
        self.socket = server.connect()
        self.replies = self.socket.makefile("rb")
        if login:
            assert self.ask("AUTH", *login) == b"+OK"

    def read(self):
        line = self.replies.readline()[:-2]
        if line[:1] == b"*":
            return [self.read() for _ in range(int(line[1:]))]
        return self.replies.read(int(line[1:]) + 2)[:-2] if line[:1] == b"$" and line != b"$-1" else line

    def ask(self, *words):
        words = [word.encode() if isinstance(word, str) else word for word in words]
        self.socket.sendall(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words))
        return self.read()

    def names(self):
        return self.ask("KEYS", "*")

    def delete(self, name):
        self.ask("DEL", name)

    def write(self, name, value):
        if b":tb-" in name and value.isdigit():
            self.ask("ZADD", name, value, "m")
        else:
            self.ask("SET", name, value)

    def flush(self):
        self.ask("FLUSHALL")

    def close(self):
        self.replies.close()
        self.socket.close()


class Memcached:
    def __init__(self, server):
        self.socket = server.connect()
        self.replies = self.socket.makefile("rb")

    def ask(self, text):
        self.socket.sendall(text + b"\r\n")
        return self.replies.readline()[:-2]

    def names(self):
        """All of them are listed once the newest were looked at, which may take a second."""
        found = []
        line = self.ask(b"lru_crawler metadump all")
        while line != b"END":
            if line != b"OK":  # 1.6.43 and newer begin with it
                found.append(unquote_to_bytes(re.match(rb"key=(\S+)", line)[1]))
            line = self.replies.readline()[:-2]
        return found

    def delete(self, name):
        self.ask(b"delete " + name)

    def write(self, name, value):
        assert self.ask(b"set %s 0 0 %d\r\n%s" % (name, len(value), value)) == b"STORED"

    def flush(self):
        self.ask(b"flush_all")

    def close(self):
        self.replies.close()
        self.socket.close()


class AnybodyWithAccess(ProgramTest):
    def assert_harmed(self, kind, tenant_of):
        with Server(kind) as server:
            tenant = tenant_of(server)
            self.addCleanup(tenant.close)
            for rule in RULES:
                with self.subTest(kind + " " + rule):
                    tenant.flush()
                    self.harm(tenant, server.url_with(), rule)

    def harm(self, tenant, url, rule):
        def take(cost):
            return run("take", "--store", url, "--rule", rule, "--cost", str(cost), VICTIM).returncode

        self.assertEqual((take(5), take(5)), (ALLOWED, DENIED))
        names = self.names(tenant)
        for name in names:
            tenant.delete(name)
        self.assertEqual((take(5), take(5)), (ALLOWED, DENIED), "the limit once more")
        for name in names:
            tenant.delete(name)
        planted = self.plant(rule)
        for name, value in planted.items():
            tenant.write(name, value)
        self.assertEqual(take(1), DENIED, "nothing was admitted")
        for name in [*names, *planted]:
            tenant.write(name, b"x")
        self.assertEqual(take(1), NO_DECISION)

    def names(self, tenant):
        """The names show who is limited."""
        for _ in range(100):
            names = tenant.names()
            if names:
                break
            time.sleep(0.1)
        self.assertTrue(names and all(b"{%s}" % VICTIM.encode() in name for name in names), names)
        return names

    def plant(self, rule):
        """Guessed from the rule, the key and the time alone."""
        period_us = 400 * 86400 * 1000000
        now_us = int(time.time() * 1e6)
        tag = {"fixed-window": "fw-34560000000", "token-bucket": "tb-34560000000-u0", "quota": "quota-34560000000"}[rule.split(":")[0]]
        index = now_us // period_us
        values = {"fixed-window": {index: 10**6}, "token-bucket": {0: now_us + period_us - 10**6},
                  "quota": {f"o{index}": now_us + 1, now_us: 10**6}}[rule.split(":")[0]]
        return {f"weir:{tag}:{{{VICTIM}}}:{suffix}".encode(): b"%d" % value for suffix, value in values.items()}

    def test_on_memcached(self):
        self.assert_harmed("memcached", Memcached)

    def test_on_redis(self):
        self.assert_harmed("redis", Redis)

    def test_a_hash_that_everybody_can_compute_hides_no_key(self):
        with Server("redis") as server:
            key = "token " * 30
            self.assert_ends(run("take", "--store", server.url_with(), "--rule", "fixed-window:5/1d", key), ALLOWED)
            tenant = Redis(server)
            [name] = tenant.names()
            tenant.close()
            self.assertIn(b"{#%s}" % hashlib.blake2b(key.encode(), digest_size=16).hexdigest().encode(), name)


class UsersOfRedis(ProgramTest):
    """One user and one namespace each, as doctor writes them."""

    def share(self):
        self.server = self.enterContext(Server("redis"))
        self.owner = Redis(self.server)
        self.addCleanup(self.owner.close)
        for name in ("ann", "bob"):
            self.assertEqual(self.owner.ask(*self.line(name).replace(">PASSWORD", ">s3cret").split()), b"+OK")

    def url(self, name, **credentials):
        return self.server.url_with(f"namespace={name}&timeout=30s", **credentials)

    def line(self, name):
        """The ACL line for a user who may do what this rule needs; doctor names the user "limiter" unless the URL has another."""
        result = run("doctor", "--json", "--store", self.url(name), "--rule", "fixed-window:5/400d")
        [text] = [found["text"] for found in map(json.loads, result.stdout.splitlines()) if found["topic"] == "ACL"]
        self.assertIn(f" ~weir:{name}:* ", text)
        return text.replace("limiter", name)

    def test_one_cannot_touch_what_is_the_others(self):
        self.share()
        take = ["take", "--rule", "fixed-window:5/400d", "--cost", "5", VICTIM, "--store"]
        self.assert_ends(run(*take, self.url("ann", credentials="ann:s3cret@")), ALLOWED)
        [name] = [name for name in self.owner.names() if b"doctor" not in name]
        self.assertTrue(name.startswith(b"weir:ann:fw-"), name)
        bob = Redis(self.server, "bob", "s3cret")
        self.addCleanup(bob.close)
        for words in (("GET", name), ("SET", name, "0", "PX", "1000"), ("DEL", name), ("INCRBY", name, "1"), ("KEYS", "*"), ("FLUSHALL",),
                      ("CONFIG", "SET", "maxmemory", "1"), ("EVAL", "return 1", "0"), ("DEBUG", "SLEEP", "1"), ("ACL", "LIST")):
            self.assertTrue(bob.ask(*words).startswith(b"-"), words)
        self.assert_ends(run(*take, self.url("ann", credentials="ann:s3cret@")), DENIED)
        self.assert_ends(run(*take, self.url("bob", credentials="bob:s3cret@")), ALLOWED)
        self.assert_error(run(*take, self.url("ann", credentials="bob:s3cret@")), NO_DECISION, "may not touch this key")

    def test_the_benchmark_shows_no_password(self):
        with Server("redis", "--requirepass", "s3cret") as server:
            for form in ([], ["--json"]):
                result = run("bench", *form, "--duration", "100ms", "--rounds", "1", "--rule", "fixed-window:5/400d", "--deadline", "10s", "--store",
                             server.url_with(credentials=":s3cret@"))
                self.assert_ends(result, 0)
                self.assertNotIn(b"s3cret", result.stdout + result.stderr)


if __name__ == "__main__":
    unittest.main()
