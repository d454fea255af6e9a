"""The server's end, its reload, and what it does when the store is away."""

import json
import re
import signal
import subprocess
import threading
import time
import unittest

from server import BASE, PATIENCE_S, PROGRAM, Server, Store, await_that, command, http

GET = "GET /check/%s?key=k HTTP/1.1\r\nHost: localhost\r\n%s\r\n"


class Ends(unittest.TestCase):
    def test_a_request_is_answered_or_was_not_decided(self):
        """SIGTERM under load, and a store that has counted what the clients were told."""
        store = Store("memcached")
        self.addCleanup(store.end)
        rule = "quota:1000000000/1d"  # its day begins with the first request, not in between
        config = BASE.replace("limiters:\n", """  apart: {url: "%s?timeout=10s", fallback: none}
limiters:
  counted: {store: apart, rule: "%s"}
""" % (store.url, rule))
        with Server(config) as server:
            told = [0] * 8
            others = []
            clients = [server.connect() for _ in told]

            def hammer(i):
                try:
                    while True:
                        clients[i].send(command("WEIR.TAKE", "counted", "load") * 4)
                        for _ in range(4):
                            reply = clients[i].reply()
                            if reply[:2] == ["allowed", 1]:
                                told[i] += 1
                            else:
                                others.append(reply)
                except (EOFError, OSError):
                    pass
            threads = [threading.Thread(target=hammer, args=(i,)) for i in range(len(told))]
            for thread in threads:
                thread.start()
            await_that(lambda: min(told) > 50, "every client to be served")
            server.process.send_signal(signal.SIGTERM)
            for thread in threads:
                thread.join(PATIENCE_S)
            self.assertEqual(server.process.wait(PATIENCE_S), 0)
            for client in clients:
                client.close()
            with self.assertRaises(OSError):
                server.connect()
        self.assertEqual(others, [])
        peeked = subprocess.run([PROGRAM, "peek", "--json", "--store", store.url, "--rule", rule, "--processes",
                                 "64", "--deadline", "10s", "counted:load"], capture_output=True,
                                timeout=PATIENCE_S, check=True).stdout
        self.assertEqual(10**9 - json.loads(peeked)["remaining"], sum(told))

    def test_the_last_answers_arrive(self):
        """Requests that were sent whole before the signal are answered in full, then the end is said."""
        with Server(BASE) as server:
            client = server.connect()
            client.send(command("PING") * 20000)
            self.assertEqual(client.line(), "+PONG")
            server.process.send_signal(signal.SIGTERM)
            rest = client.rest()
            self.assertEqual(rest.count(b"+PONG\r\n") * 7, len(rest), "an answer was cut")
            client.close()


    def test_who_is_not_ready_says_so_until_the_drain_is_over(self):
        """A client that takes its answers late, and one that never does."""
        for takes in (True, False):
            with Server(BASE + "limits: {drain: %s}\n" % ("10m" if takes else "1s")) as server:
                admin = server.connect("admin")
                ready = "GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n"
                self.assertEqual(http(admin, ready)[0], 200)
                client = server.connect()
                client.socket.settimeout(0.5)
                with self.assertRaises(TimeoutError):  # more than the kernel holds and the server reads
                    client.send(command("ECHO", "x" * 1000) * 64000)
                client.socket.settimeout(PATIENCE_S)
                server.process.send_signal(signal.SIGTERM)
                if takes:
                    server.await_log("ending")
                    status, body, _ = http(admin, ready)
                    self.assertEqual((status, body.split("\n")[0]), (503, "ending"))
                    self.assertEqual(http(admin, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")[0], 200)
                    with self.assertRaises((ConnectionError, EOFError)):  # at once, not by a timeout
                        server.connect().ask("PING")
                    answers = client.rest()
                    self.assertEqual(answers, b"$1000\r\n%s\r\n" % (b"x" * 1000) * answers.count(b"$"))
                self.assertEqual(server.process.wait(PATIENCE_S), 0)
                for one in (admin, client):
                    one.close()


class Reload(unittest.TestCase):
    def limit(self, client, limiter="api"):
        fields = client.ask("WEIR.PEEK", limiter, "reload")
        return fields[fields.index("limit") + 1] if isinstance(fields, list) else fields

    def test_a_new_file_is_used_and_a_bad_one_is_not(self):
        with Server(BASE) as server:
            client = server.connect()
            self.assertEqual(self.limit(client), 3)
            server.write(server.config.replace("3/1d", "7/1d"))  # noticed by itself
            await_that(lambda: self.limit(client) == 7, "the new limit")
            server.write(server.config.replace("3/1d", "x/1d"))
            server.await_log("is not used")
            self.assertEqual(self.limit(client), 7)
            self.assertRegex(server.log(), r"weir\.yaml:9:\d+: limiters\.api")
            server.write(server.config.replace("3/1d", "9/1d"))
            server.process.send_signal(signal.SIGHUP)
            await_that(lambda: self.limit(client) == 9, "the limit after SIGHUP")
            self.assertEqual(server.metric('weir_serve_reloads_total{result="refused"}'), 1)
            client.close()

    def test_a_limit_that_counts_anew_is_told(self):
        """As a client sees it: who has used up 100 has 5000 more, and the log says so."""
        for store in (Store("memcached"), Store("redis")):
            self.addCleanup(store.end)
            config = BASE[:BASE.index("stores:")] + """stores: {m: {url: "%s?timeout=10s"}}
limiters:
  up: {rule: "sliding-window:100/1d"}
  go: {rule: "sliding-window:100/1d"}
""" % store.url
            with Server(config) as server:
                client = server.connect()
                for limiter in ("up", "go"):
                    self.assertEqual(client.ask("WEIR.TAKE", limiter, "k", "COST", "100")[:2], ["allowed", 1])
                server.write(server.config.replace("up: {rule: \"sliding-window:100/", "up: {rule: \"sliding-window:5000/")
                             .replace("go: {rule: \"sliding-window:100/", "go: {rule: \"sliding-window:200/"))
                await_that(lambda: self.limit(client, "up") == 5000, "the reload")  # in the loop of this client, too
                self.assertEqual(client.ask("WEIR.TAKE", "up", "k", "COST", "5000")[:2], ["allowed", 1])
                self.assertEqual(client.ask("WEIR.TAKE", "go", "k", "COST", "101")[:2], ["allowed", 0])
                self.assertEqual(client.ask("WEIR.TAKE", "go", "k", "COST", "100")[:2], ["allowed", 1])
                server.await_log("is in use now")  # behind all warnings
                self.assertEqual(re.findall(r"warning: (\S+) (\S+) begins to count anew", server.log()),
                                 [("limiters.up.rule:", "sliding-window:5000/1d")])
                client.close()

    def test_reload_under_load_loses_nothing(self):
        with Server(BASE) as server:
            over = threading.Event()
            answers, wrong = [0] * 4, []

            def hammer(i):
                client = server.connect()
                while not over.is_set():
                    client.send(command("WEIR.TAKE", "big", "load") * 16)
                    for _ in range(16):
                        reply = client.reply()
                        answers[i] += 1
                        if not isinstance(reply, list) or reply[1] != 1:
                            wrong.append(reply)
                client.close()
            threads = [threading.Thread(target=hammer, args=(i,)) for i in range(len(answers))]
            for thread in threads:
                thread.start()
            for i in range(10):
                server.write(server.config.replace("3/1d", "%d/1d" % (10 + i)))
                server.process.send_signal(signal.SIGHUP)
                time.sleep(0.05)
            server.await_log("is in use now", 2)
            over.set()
            for thread in threads:
                thread.join(PATIENCE_S)
            self.assertEqual(wrong, [])
            client = server.connect()
            await_that(lambda: self.limit(client) == 19, "the last file")
            fields = client.ask("WEIR.PEEK", "big", "load")
            self.assertEqual(fields[fields.index("remaining") + 1], 10**9 - sum(answers))
            client.close()

    def test_listeners_stay(self):
        with Server(BASE) as server:
            client = server.connect()
            server.write(server.config.replace("listen:\n", "listen:\n", 1).split("listen:")[0]
                         + server.config[server.config.index("stores:"):]
                         + "listen: {resp: {address: \"unix:FOLDER/other\"}}\n")
            server.process.send_signal(signal.SIGHUP)
            server.await_log("listeners change with a restart only")
            self.assertEqual(client.ask("PING"), "+PONG")
            other = server.connect()
            self.assertEqual(other.ask("PING"), "+PONG")
            other.close()
            client.close()


class StoreAway(unittest.TestCase):
    """A private server behind a store that is stopped and comes back."""

    def test_the_policy_answers_until_it_is_back(self):
        store = Store("memcached")
        self.addCleanup(store.end)
        config = BASE.replace("limiters:\n", """  away: {url: "%s", fallback: deny}
  none: {url: "%s", fallback: none}
limiters:
  denies: {store: away, rule: "quota:100000/1d"}
  says: {store: none, rule: "quota:100000/1d"}
""" % (store.url, store.url))
        with Server(config) as server:
            client = server.connect()
            web = server.connect("http")

            def source(limiter):
                fields = client.ask("WEIR.TAKE", limiter, "k")
                return fields[fields.index("source") + 1] if isinstance(fields, list) else fields
            await_that(lambda: source("denies") == "store", "the store")
            store.order("stop")
            await_that(lambda: source("denies") == "fallback", "the policy")
            self.assertEqual(client.ask("WEIR.TAKE", "denies", "k")[1], 0)
            await_that(lambda: str(source("says")).startswith("-ERR UNAVAILABLE"), "a status")
            status, body, _ = http(web, GET % ("says", ""))
            self.assertEqual(status, 503)
            self.assertRegex(body, "UNAVAILABLE|TIMEOUT|UNKNOWN_OUTCOME")
            self.assertEqual(client.ask("WEIR.TAKE", "big", "k")[1], 1)
            store.order("continue")
            await_that(lambda: source("denies") == "store", "the store to be back")
            await_that(lambda: source("says") == "store", "the store to be back")
            client.close()
            web.close()


if __name__ == "__main__":
    unittest.main()
