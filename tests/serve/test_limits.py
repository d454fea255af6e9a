"""Limits of keys that are set while servers run: seen by all of them within a second and a deadline, whatever
their clients ask meanwhile. `python3 test_limits.py 20` is the hunt; the check has three servers."""

import os
import re
import sqlite3
import subprocess
import sys
import tempfile
import time
import unittest

from server import PATIENCE_S, PROGRAM, Client, Server, Store, await_that, command, http

RULE = "sliding-window:100/1m,most=5000,tiers=gold:900"
SERVERS = int(sys.argv.pop(1)) if len(sys.argv) > 1 and sys.argv[1].isdigit() else 3
SEEN_S = 1 + 0.05  # T, and what this test takes between two rounds; the longest answer comes on top
CONFIG = """listen:
  resp: [{address: "127.0.0.1:0"}]
stores: {main: {url: "%s?timeout=10s"}}
limiters:
  api: {store: main, rule: "%s", limits: store}
  closed: {store: main, rule: "%s,name=closed", limits: store, absent: deny}
"""


def limit(store, *words, rule=RULE):
    done = subprocess.run([PROGRAM, "limit", *words, "--store", store.url, "--rule", rule], capture_output=True,
                          text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


class Limits(unittest.TestCase):
    def take(self, client, limiter, key):
        flat = client.ask("WEIR.TAKE", limiter, key)
        self.assertIsInstance(flat, list, flat)
        return dict(zip(flat[::2], flat[1::2]))

    def start(self, kind, count):
        store = Store(kind)
        self.addCleanup(store.end)
        clients = []
        for _ in range(count):
            server = Server(CONFIG % (store.url, RULE, RULE))
            self.addCleanup(server.end)
            clients.append(server.connect())
            self.addCleanup(clients[-1].close)
        return store, clients

    def await_limit(self, clients, wanted):
        """How long after this the last request was sent that did not go by it, and the longest round of
        requests; all are asked all the time, as keys in use are."""
        begin = last = time.monotonic()
        longest = 0
        while time.monotonic() < begin + PATIENCE_S:
            sent = time.monotonic()
            told = [self.take(client, "api", "alice") for client in clients]
            longest = max(longest, time.monotonic() - sent)
            if all(wanted(one) for one in told):
                return last - begin, longest
            last = sent
            time.sleep(0.005)
        self.fail(f"not seen: {told}")

    def test_all_servers_see_what_is_set(self):
        for kind in ("memcached", "redis") if SERVERS > 3 else ("redis",):
            store, clients = self.start(kind, SERVERS)
            for client in clients:
                self.assertEqual(self.take(client, "api", "alice")["limit"], 100)
            took = []
            for word, wanted in (("5000/1m", lambda one: one["limit"] == 5000 and one["source"] != "unlimited"),
                                 ("blocked", lambda one: one["allowed"] == 0 and one["retry_after_us"] == -1),
                                 ("gold", lambda one: one["limit"] == 900),
                                 ("unlimited", lambda one: one["allowed"] == 1 and one["source"] == "unlimited"),
                                 ("7", lambda one: one["limit"] == 7 and one["allowed"] == 0)):
                limit(store, "set", "api:alice", word)
                took.append(self.await_limit(clients, wanted))
            limit(store, "unset", "api:alice")
            took.append(self.await_limit(clients, lambda one: one["limit"] == 100))
            print(f"{kind}, {SERVERS} servers: seen after {', '.join('%.3f s' % one for one, _ in took)}; "
                  f"longest round {max(longest for _, longest in took):.3f} s")
            if os.environ.get("WEIR_SANITIZED", "") == "":
                for one, longest in took:
                    self.assertLess(one, SEEN_S + longest)

    def test_a_key_that_none_was_set_for_may_be_denied(self):
        store, (client,) = self.start("redis", 1)
        rule = RULE + ",name=closed"
        self.assertEqual(self.take(client, "closed", "bob")["allowed"], 0)
        limit(store, "set", "closed:bob", "9", rule=rule)
        await_that(lambda: self.take(client, "closed", "bob")["limit"] == 9, "the limit")
        self.assertEqual(self.take(client, "closed", "carl")["allowed"], 0)

    def test_many_are_loaded(self):
        store, (client,) = self.start("memcached", 1)
        lines = "".join(f"api:customer{i}\t{1 + i % 5000}/1m\n" for i in range(10000))
        done = subprocess.run([PROGRAM, "limit", "load", "-", "--store", store.url, "--rule", RULE], input=lines,
                              capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        self.assertEqual((done.returncode, done.stdout), (0, "10000 set\n"), done.stderr)
        for i in (0, 777, 9999):
            self.assertEqual(self.take(client, "api", f"customer{i}")["limit"], 1 + i % 5000)


SETS = """listen:
  resp: [{address: "127.0.0.1:0", sets_limits: true}, {address: "127.0.0.1:0"}]
  http: [{address: "127.0.0.1:0", sets_limits: true, auth: right}, {address: "127.0.0.1:0"}]
  admin: {address: "127.0.0.1:0"}
stores:
  main: {url: "%s"}
  here: {url: "memory:"}
limiters:
  api: {store: main, rule: "sliding-window:100/1m,most=5000,tiers=gold:900", limits: store, log_keys: plain, block: [evil]}
  plain: {store: main, rule: "sliding-window:100/1m,most=5000"}
  own: {store: here, rule: "quota:1000000/1d"}
"""


def call(client, method, path, body="", token="right", more=""):
    """Status and body of an answer."""
    shows = f"Authorization: Bearer {token}\r\n" if token else ""
    return http(client, f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n{shows}{more}"
                        f"Content-Length: {len(body)}\r\n\r\n{body}")[:2]


def tell(url, line):
    """A command to the store itself, and the first line of its answer."""
    host, port = url.split("//")[1].split("?")[0].rstrip("/").rsplit(":", 1)
    client = Client((host.strip("[]"), int(port)))
    client.send(line + "\r\n")
    answer = client.line()
    client.close()
    return answer


class Sets(unittest.TestCase):
    """Clients that may set limits of keys, over RESP and over HTTP."""

    def start(self, kind, count=1, options="?timeout=10s"):
        store = Store(kind)
        self.addCleanup(store.end)
        servers = [Server(SETS % (store.url + options)) for _ in range(count)]
        for server in servers:
            self.addCleanup(server.end)
        return store, servers

    def connect(self, server, protocol="resp", index=0):
        client = server.connect(protocol, index)
        self.addCleanup(client.close)
        return client

    def limit_of(self, client, key):
        flat = client.ask("WEIR.TAKE", "api", key)
        return dict(zip(flat[::2], flat[1::2]))["limit"]

    def test_what_one_server_sets_another_sees(self):
        for kind in ("redis", "memcached"):
            _, servers = self.start(kind, 2)
            sets, other = self.connect(servers[0]), self.connect(servers[1])
            web = self.connect(servers[0], "http")
            key = b"al}i{ce\x00\xff /%"
            path = "/limits/api/" + "".join("%%%02x" % byte for byte in key)
            self.assertEqual(self.limit_of(other, key), 100)
            self.assertEqual(sets.ask("WEIR.LIMIT", "GET", "api", key), "absent")
            steps = ((lambda: sets.ask("WEIR.LIMIT", "SET", "api", key, "5000/1m"), "+OK", "5000", 5000),
                     (lambda: call(web, "PUT", path, "7"), (200, '{"limiter":"api","limit":7}\n'), "7", 7),
                     (lambda: call(web, "PUT", path + "?for=1h", '"blocked"'),
                      (200, '{"limiter":"api","limit":"blocked"}\n'), "blocked", 0),
                     (lambda: call(web, "PUT", path, "unlimited"),
                      (200, '{"limiter":"api","limit":"unlimited"}\n'), "unlimited", 5000),
                     (lambda: sets.ask("WEIR.LIMIT", "SET", "api", key, "3"), "+OK", "3", 3),
                     (lambda: call(web, "PUT", path, "gold"), (200, '{"limiter":"api","limit":"gold"}\n'), "gold", 900),
                     (lambda: sets.ask("WEIR.LIMIT", "SET", "api", key, "unlimited"), "+OK", "unlimited", 5000),
                     (lambda: sets.ask("weir.limit", "unset", "api", key), "+OK", "none", 100),
                     (lambda: sets.ask("WEIR.LIMIT", "SET", "api", key, "9", "FOR", "1d"), "+OK", "9", 9),
                     (lambda: call(web, "DELETE", path), (200, '{"limiter":"api","limit":"none"}\n'), "none", 100))
            for does, answer, told, limit in steps:
                self.assertEqual(does(), answer)
                begin = asked = last = time.monotonic()
                longest = 0
                self.assertEqual(self.limit_of(sets, key), limit)  # at once, where it was set
                while told in ("5000", "blocked", "unlimited") and self.limit_of(other, key) != limit:
                    last = asked
                    asked = time.monotonic()
                    self.assertLess(asked, begin + PATIENCE_S)
                    longest = max(longest, asked - last)
                if os.environ.get("WEIR_SANITIZED", "") == "":
                    self.assertLess(last - begin, SEEN_S + longest)
                self.assertEqual(sets.ask("WEIR.LIMIT", "GET", "api", key), told)
                shown = told if told.isdigit() else f'"{told}"'
                self.assertEqual(call(web, "GET", path), (200, '{"limiter":"api","limit":%s}\n' % shown))
            self.assertEqual(servers[0].metric("weir_serve_limits_set_total"), len(steps))
            servers[0].await_log("result=OK", len(steps))
            line = [line for line in servers[0].log().splitlines() if "limit of a key" in line][2]
            self.assertIn('limiter=api key="al}i{ce\\x00\\xff /%" limit=blocked for_us=3600000000 client="127.0.0.1" result=OK', line)

    def test_the_stamp_of_an_unlimited_key_gives_nothing_back(self):
        for kind in ("redis", "memcached"):
            _, servers = self.start(kind, 2)
            sets, other = self.connect(servers[0]), self.connect(servers[1])
            left = lambda: dict(zip(*[iter(sets.ask("WEIR.PEEK", "api", "alice"))] * 2))["remaining"]
            sets.ask("WEIR.TAKE", "api", "alice", "COST", "60")
            self.assertEqual(sets.ask("WEIR.LIMIT", "SET", "api", "alice", "unlimited"), "+OK")
            flat = sets.ask("WEIR.TAKE", "api", "alice", "COST", "50")
            told = dict(zip(flat[::2], flat[1::2]))
            self.assertEqual((told["allowed"], told["source"], told["remaining"]), (1, "unlimited", 5000))
            self.assertRegex(told["stamp"], r"\A[0-9]+\.unlimited\.")
            self.assertEqual(sets.ask("WEIR.LIMIT", "UNSET", "api", "alice"), "+OK")
            self.assertEqual(left(), 40)
            for real, client in ((7, other), (90, sets)):
                flat = client.ask("WEIR.SETTLE", "api", "alice", "50", real, "STAMP", told["stamp"])
                self.assertEqual(dict(zip(flat[::2], flat[1::2]))["cost"], real)
                self.assertEqual(left(), 40)
            self.assertEqual(servers[0].metric('weir_serve_decisions_total{limiter="api",protocol="resp",'
                                               'decision="allowed",source="unlimited"}'), 1)

    def test_many_at_once_are_set_in_their_order(self):
        _, (server,) = self.start("redis")
        clients = [self.connect(server) for _ in range(70)]
        wanted = {}
        for i, client in enumerate(clients):
            words = [("WEIR.LIMIT", "SET", "api", f"k{i}", 1 + j) for j in range(5)]
            client.send(b"".join(command(*one) for one in words) + command("WEIR.LIMIT", "GET", "api", f"k{i}")
                        + command("WEIR.TAKE", "api", f"k{i}"))
            wanted[i] = "5"
        for i, client in enumerate(clients):
            self.assertEqual([client.reply() for _ in range(5)], ["+OK"] * 5)
            self.assertEqual(client.reply(), wanted[i])
            flat = client.reply()
            self.assertEqual(dict(zip(flat[::2], flat[1::2]))["limit"], 5)
        self.assertEqual(server.metric("weir_serve_limits_set_total"), 350)
        server.await_log("more limits of keys are not in this log")

    def test_who_may(self):
        _, (server,) = self.start("memcached")
        without, web, bare = (self.connect(server, "resp", 1), self.connect(server, "http"),
                              self.connect(server, "http", 1))
        for words in (("SET", "api", "alice", "5"), ("GET", "api", "alice"), ("UNSET", "api", "alice")):
            self.assertEqual(without.ask("WEIR.LIMIT", *words), "-ERR WEIR.LIMIT is off: sets_limits of this listener")
        for method, body in (("PUT", "5"), ("GET", ""), ("DELETE", "")):
            self.assertEqual(call(web, method, "/limits/api/alice", body, token=None)[0], 401)
            self.assertEqual(call(web, method, "/limits/api/alice", body, token="wrong")[0], 401)
            status, told = call(bare, method, "/limits/api/alice", body)
            self.assertEqual(status, 403)
            self.assertIn("/limits is off: sets_limits of this listener", told)
            for field in ("Origin: http://evil.example", "Sec-Fetch-Site: cross-site"):
                status, told = call(web, method, "/limits/api/alice", body, more=field + "\r\n")
                self.assertEqual(status, 403, told)
        self.assertEqual(call(web, "GET", "/limits/api/alice"), (200, '{"limiter":"api","limit":"absent"}\n'))
        self.assertEqual(server.metric("weir_serve_limits_set_total"), 0)

    def test_bad_ones_are_refused(self):
        _, (server,) = self.start("memcached")
        client, web = self.connect(server), self.connect(server, "http")
        for words, why in ((("api", "alice", "5001"), "a limit of 5001 for sliding-window:100/1m,most=5000,tiers=gold:900: accepted are 1 "),
                           (("api", "alice", "0"), "to deny all, say that it is blocked"),
                           (("api", "alice", "5/1h"), "which may have /1m behind it, blocked, unlimited and none, and the tiers gold"),
                           (("api", "alice", "unset"), "the limit is no number"),
                           (("api", "alice", "-1"), "the limit is no number"),
                           (("api", "alice", b"5\x00"), "the limit is no number"),
                           (("api", "alice", "5", "FOR", "401d"), "for: 1s to 400d is accepted"),
                           (("api", "evil", "5"), "this key is blocked or unlimited by the configuration"),
                           (("plain", "alice", "5"), "accepted is one with limits: store"),
                           (("none", "alice", "5"), "there is no limiter of this name in the configuration: none"),
                           (("api", "a" * 5000, "5"), "the key has 5000 bytes")):
            told = client.ask("WEIR.LIMIT", "SET", *words)
            self.assertTrue(told.startswith("-ERR") and why in told, (words, told))
        for path, body, status, why in (("/limits/api/alice", '{"limit":5}', 400, "the limit is no number"),
                                        ("/limits/api/alice", "5.0", 400, "the limit is no number"),
                                        ("/limits/api/alice", "", 400, "a number, a tier, blocked, unlimited or none is accepted"),
                                        ("/limits/none/alice", "5", 404, "there is no limiter of this name"),
                                        ("/limits/plain/alice", "5", 400, "accepted is one with limits: store"),
                                        ("/limits/api/" + "a" * 5000, "5", 400, "the key is too long"),
                                        ("/limits/api/%", "5", 400, "two hexadecimal digits")):
            told = call(web, "PUT", path, body)
            self.assertEqual(told[0], status, told)
            self.assertIn(why, told[1])
        self.assertEqual(server.metric("weir_serve_limits_set_total"), 0)
        self.assertEqual(client.ask("WEIR.LIMIT", "GET", "api", "alice"), "absent")

    def test_an_outage_says_that_it_is_not_known(self):
        store, (server,) = self.start("redis", options="")
        client, web, other = self.connect(server), self.connect(server, "http"), self.connect(server)
        self.assertEqual(client.ask("WEIR.LIMIT", "SET", "api", "alice", "5"), "+OK")
        store.order("stop")
        client.send(command("WEIR.LIMIT", "SET", "api", "alice", "6"))
        slowest = 0
        while client.is_quiet():  # nobody else waits for it
            begin = time.monotonic()
            self.assertIsInstance(other.ask("WEIR.TAKE", "own", "bob"), list)
            slowest = max(slowest, time.monotonic() - begin)
        self.assertRegex(client.reply(), "^-ERR UNKNOWN_OUTCOME ")
        if os.environ.get("WEIR_SANITIZED", "") == "":
            self.assertLess(slowest, 1)
        status, told = call(web, "PUT", "/limits/api/alice", "7")
        self.assertEqual(status, 503)
        self.assertRegex(told, '"detail":"(UNKNOWN_OUTCOME|UNAVAILABLE): ')
        self.assertEqual(call(web, "GET", "/limits/api/alice")[0], 503)
        store.order("continue")
        await_that(lambda: client.ask("WEIR.LIMIT", "GET", "api", "alice") in ("5", "6", "7"), "an answer")
        self.assertEqual(client.ask("WEIR.LIMIT", "SET", "api", "alice", "8"), "+OK")
        self.assertEqual(client.ask("WEIR.LIMIT", "GET", "api", "alice"), "8")
        server.await_log("result=UNKNOWN_OUTCOME")
        self.assertEqual(server.metric("weir_serve_limits_set_total"), 2)

    def test_a_flushed_store_has_none(self):
        for kind, flush in (("redis", "FLUSHALL"), ("memcached", "flush_all")):
            store, (server,) = self.start(kind)
            client = self.connect(server)
            self.assertEqual(client.ask("WEIR.LIMIT", "SET", "api", "alice", "5"), "+OK")
            self.assertIn("OK", tell(store.url, flush))
            self.assertEqual(client.ask("WEIR.LIMIT", "GET", "api", "alice"), "absent")
            self.assertEqual(self.limit_of(client, "alice"), 5)  # it is believed for a while
            self.assertEqual(client.ask("WEIR.LIMIT", "SET", "api", "alice", "6"), "+OK")
            self.assertEqual(self.limit_of(client, "alice"), 6)


    def test_the_plans_of_a_table(self):
        """The example of a page."""
        with open(os.path.join(os.path.dirname(__file__), "../../docs/answers.md"), encoding="utf-8") as page:
            example = re.search(r"```python\n(import http\.client.*?)```", page.read(), re.DOTALL).group(1)
        names = {}
        exec(example, names)
        _, servers = self.start("redis", 2)
        address = "127.0.0.1:%d" % servers[0].ports["http"][0]
        asks = self.connect(servers[1])
        database = sqlite3.connect(":memory:")
        database.execute("create table customers (key text, per_minute integer)")
        database.execute("insert into customers values ('al/ice', 100)")
        for per_minute in (5000, 0):
            names["change_plan"](database, address, "right", "al/ice", per_minute)
            self.assertEqual(database.execute("select per_minute from customers").fetchall(), [(per_minute,)])
            await_that(lambda wanted=per_minute: self.limit_of(asks, "al/ice") == wanted, "the plan")
        with self.assertRaisesRegex(RuntimeError, "accepted are 1 to 5000"):
            names["change_plan"](database, address, "right", "al/ice", 5001)
        database.close()


class Differences(unittest.TestCase):
    """`weir limit load FILE --before OLD`."""

    def load(self, store, new, *more, old=None):
        with tempfile.TemporaryDirectory() as folder:
            words = []
            for name, lines in (("new", new), ("old", old)):
                with open(os.path.join(folder, name), "w", encoding="latin-1") as file:
                    file.write("".join(f"{key}\t{limit}\n" for key, limit in lines or ()))
                words.append(os.path.join(folder, name))
            done = subprocess.run([PROGRAM, "limit", "load", words[0], *(("--before", words[1]) if old is not None else ()),
                                   *more, "--store", store.url, "--rule", RULE], capture_output=True, text=True,
                                  timeout=PATIENCE_S, check=False)
        return done.returncode, done.stdout + done.stderr

    def start(self, kind):
        store = Store(kind)
        self.addCleanup(store.end)
        return store

    def test_what_differs_is_set_and_what_is_gone_is_unset(self):
        for kind in ("redis", "memcached"):
            store = self.start(kind)
            old = {f"k{i:04}": 1 + i for i in range(3000)}
            new = {key: limit for key, limit in old.items() if limit % 1000 != 7} | {"k0100": 5, "k2999": "blocked", "a": 9, "z": 9}
            self.assertEqual(self.load(store, sorted(old.items())), (0, "3000 set\n"))
            limit(store, "set", "k1500", "77")  # by hand: no line says another limit
            self.assertEqual(self.load(store, sorted(new.items()), old=sorted(old.items())),
                             (0, "4 set, 3 unset, 2995 as before\n"))
            for key, told in (("k0006", "none"), ("k1006", "none"), ("k2006", "none"), ("k0100", "5"), ("k0000", "1"),
                              ("k2999", "blocked"), ("a", "9"), ("z", "9"), ("k1500", "77"), ("k2998", "2999")):
                self.assertEqual(limit(store, "get", key), told)
            self.assertEqual(self.load(store, sorted(new.items()), old=sorted(new.items())), (0, "0 set, 0 unset, 2999 as before\n"))
            self.assertEqual(self.load(store, (), old=(("a", 9), ("z", 9))), (0, "0 set, 2 unset, 0 as before\n"))
            self.assertEqual(self.load(store, (("a", 1),), old=()), (0, "1 set, 0 unset, 0 as before\n"))

    def test_a_store_that_has_lost_some_is_told_of(self):
        store = self.start("redis")
        lines = [(f"k{i:04}", 1 + i) for i in range(3000)]
        self.assertEqual(self.load(store, lines), (0, "3000 set\n"))
        self.assertIn("OK", tell(store.url, "FLUSHALL"))
        status, told = self.load(store, lines, old=lines)
        self.assertEqual(status, 2)
        self.assertIn("line 1, after 0 that are set: the store has no limit of this key, which was set before", told)

    def test_bad_files_are_refused(self):
        store = self.start("redis")
        good = (("a", 1), ("b", 2))
        self.load(store, good)
        for new, old, line, why in (((("b", 2), ("a", 1)), good, 2, "line 2, after 0 that are set: its key does not rise"),
                                    (good, (("b", 2), ("a", 1)), 2, "line 2, after 0 that are set: of --before: its key"),
                                    ((("a", 1), ("a", 1)), good, 2, "its key does not rise"),
                                    ((("ab", 1), ("a", 1)), (), 2, "its key does not rise"),
                                    (good, (("a", 1), ("", 2)), 2, "of --before: KEY, a tab and LIMIT are accepted"),
                                    ((("a", "1/1h"),), good, 1, "line 1, after 0 that are set: the limit is no number")):
            status, told = self.load(store, new, old=old)
            self.assertEqual(status, 2, told)
            self.assertIn(why, told)
        for more in (("--for", "30d"),):
            status, told = self.load(store, good, *more, old=good)
            self.assertIn("--before is accepted with load, and without --for", told)
            self.assertEqual(status, 2)
        self.assertEqual((limit(store, "get", "a"), limit(store, "get", "b")), ("1", "2"))


class Faults(unittest.TestCase):
    def refuse(self, limiter, why):
        with self.assertRaises(AssertionError) as raised:
            Server("listen: {resp: [{address: \"127.0.0.1:0\"}]}\nstores: {main: {url: \"memory:\"}}\n"
                   "limiters: {api: {store: main, " + limiter + "}}\n")
        self.assertIn(why, str(raised.exception))

    def test_limits_need_a_rule_that_has_some(self):
        self.refuse('rule: "fixed-window:5/1m", limits: store', "limits: store is accepted where one rule of the text has most=, and no in-flight one lease=")
        self.refuse('rule: "in-flight:5/5m,most=9,lease=1s", limits: store', "and no in-flight one lease=")
        self.refuse('rule: "fixed-window:5/1m,most=9", absent: deny', "absent: deny: accepted with limits: store")
        self.refuse('rule: "fixed-window:5/1m,most=9", limits: file', "accepted are off and store")

    def test_who_sets_them_must_show_who_it_is(self):
        def start(listen):
            done = subprocess.run([PROGRAM, "check", "/dev/stdin"], capture_output=True, text=True, check=False,
                                  timeout=PATIENCE_S, input="listen: {%s}\nstores: {main: {url: \"memory:\"}}\n"
                                  "limiters: {api: {store: main, rule: \"fixed-window:5/1m\"}}\n" % listen)
            return done.returncode, done.stdout + done.stderr

        for listen in ('resp: {address: "0.0.0.0:1", insecure: true, sets_limits: true}',
                       'http: {address: "systemd:x", sets_limits: true}'):
            status, told = start(listen)
            self.assertNotEqual(status, 0)
            self.assertIn("may be open to other hosts: give it auth, or client_ca of tls", told)
        for listen in ('resp: {address: "127.0.0.1:1", sets_limits: true}', 'http: {address: "unix:/x", sets_limits: true}',
                       'resp: {address: "0.0.0.0:1", auth: right, sets_limits: true}'):
            self.assertEqual(start(listen)[0], 0, start(listen))
        status, told = start('grpc: {address: "127.0.0.1:1", sets_limits: true}')
        self.assertIn("sets_limits", told)
        self.assertNotEqual(status, 0)


if __name__ == "__main__":
    unittest.main()
