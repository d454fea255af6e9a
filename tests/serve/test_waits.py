"""No request waits for a store that it does not need: stores that are far, or stopped, beside all else."""

import json
import pathlib
import select
import signal
import sys
import threading
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "fixture"))

from envoy import Served, entries, per_year, question
from far import Far
from server import Server, Store, await_that, command, http

AWAY_S = 0.15  # one way to a store that is far
CONFIG = """
listen:
  resp: {address: "127.0.0.1:0"}
  http: {address: "127.0.0.1:0"}
  admin: {address: "127.0.0.1:0"}
stores:
  slow: {url: "SLOW"}
  here: {url: "memory:?timeout=10s"}
limiters:
  hot: {store: slow, rule: "sliding-window:1000000/1m,lease=1s"}
  one: {store: slow, rule: "quota:1/1d", block: [never]}
  few: {store: slow, rule: "quota:100/1d"}
  held: {store: slow, rule: "in-flight:2/10m"}
  near: {store: here, rule: "quota:1000000/1d"}
throttle: {enabled: true, store: slow, limiters: 1}
loops: 1
"""


def words(reply):
    """The decision of a WEIR.TAKE, by its names."""
    return dict(zip(reply[::2], reply[1::2]))


def post(path, **body):
    text = json.dumps(body)
    return (f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(text)}\r\n\r\n{text}")


class FarAway(unittest.TestCase):
    """0.3 s there and back, whatever this machine is busy with."""

    def setUp(self):
        store = Store("memcached")
        self.addCleanup(store.end)
        far = Far(store.url, AWAY_S)
        self.addCleanup(far.end)
        self.server = Server(CONFIG.replace("SLOW", far.url("timeout=30s", "connect-timeout=30s")))
        self.addCleanup(self.server.end)

    def fill(self, client):
        """A lot for the key: it is asked for often, at once."""
        client.send(50 * command("WEIR.TAKE", "hot", "k"))
        for _ in range(50):
            self.assertEqual(words(client.reply())["allowed"], 1)

    def test_what_is_known_waits_for_nothing(self):
        """A request that asks the store is answered last, behind others that do not and were sent behind it."""
        hot, cold, other, http_client = (*(self.server.connect() for _ in range(3)), self.server.connect("http"))
        known = {"lot": 0, "list": 0, "here": 0}
        for _ in range(9):
            self.fill(hot)
            cold.send(command("WEIR.TAKE", "few", "k"))
            answers = [
                ("lot", words(hot.ask("WEIR.TAKE", "hot", "k"))["source"] == "local"),
                ("list", words(other.ask("WEIR.TAKE", "one", "never"))["allowed"] == 0),
                ("here", http(http_client, post("/take", limiter="near", key="k"))[0] == 200)]
            for name, is_so in answers:
                known[name] += is_so and cold.is_quiet()
            self.assertEqual(words(cold.reply())["allowed"], 1)
            if all(known.values()):
                break
        self.assertGreater(min(known.values()), 0, known)
        for client in (hot, cold, other, http_client):
            client.close()

    def test_many_leave_together(self):
        """Requests of many clients are few exchanges, which are counted."""
        clients = [self.server.connect() for _ in range(60)]
        for round_trips in range(3):
            for i, client in enumerate(clients):
                client.send(command("WEIR.TAKE", "few", f"k{i}"))
            for client in clients:
                self.assertEqual(words(client.reply())["remaining"], 99 - round_trips)
        for client in clients:
            client.close()
        self.assertLess(self.server.metric("weir_serve_exchanges_total"), 60)
        self.assertEqual(self.server.metric("weir_serve_exchanges"), 0)
        self.assertEqual(self.server.metric("weir_serve_waiting_requests"), 0)

    def test_answers_keep_their_order(self):
        """Over one connection, whoever answers them: and the requests of a key are decided in order."""
        client = self.server.connect()
        asked, expected = [], []
        for i in range(12):
            asked += [command("WEIR.TAKE", "few", "k"), command("PING", f"p{i}"), command("WEIR.TAKE", "near", "k"),
                      command("CL.THROTTLE", "k", 19, 1, 3600), command("WEIR.TAKE", "one", "never")]
            expected += [99 - i, f"p{i}", 999999 - i, 19 - i, 0]
        asked += [command("WEIR.RESET", "few", "k"), command("WEIR.TAKE", "few", "k"), command("NONSENSE")]
        expected += ["+OK", 99, "-ERR unknown command"]
        client.send(b"".join(asked))
        for wanted in expected:
            reply = client.reply()
            if isinstance(reply, list):
                reply = reply[2] if len(reply) == 5 else words(reply)["remaining"]
            self.assertEqual(reply if not isinstance(wanted, str) else reply[:len(wanted)], wanted)
        client.close()

    def test_http_keeps_its_order(self):
        client = self.server.connect("http")
        client.send("".join(post("/take", limiter=limiter, key="h") for limiter in 4 * ("few", "near")) +
                    "GET /check/few?key=h HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        told = [json.loads(http(client, "")[1]) for _ in range(8)]
        self.assertEqual([one["remaining"] for one in told[::2]], [99, 98, 97, 96])
        self.assertEqual([one["remaining"] for one in told[1::2]], [999999, 999998, 999997, 999996])
        self.assertEqual(http(client, "")[0], 200)
        self.assertEqual(client.rest(), b"")
        client.close()


class NearAgain(unittest.TestCase):
    """A store that was far for a while."""

    def test_a_store_is_near_again_when_its_answers_come_in_time(self):
        """Threads wait for it until its late answers are long enough ago, and then the loop does."""
        store = Store("memcached")
        self.addCleanup(store.end)
        far = Far(store.url, 0.004)
        self.addCleanup(far.end)
        server = Server(CONFIG.replace("SLOW", far.url("timeout=20ms")))
        self.addCleanup(server.end)
        client = server.connect()

        def exchanges(count):
            """The number of threads, while so many requests are asked."""
            before = server.metric("weir_serve_exchanges_total")
            for i in range(count):
                client.ask("CL.THROTTLE", f"k{i}", 1000000, 1000000, 1)
            return server.metric("weir_serve_exchanges_total") - before

        self.assertGreater(exchanges(20), 0)
        far.delay_s = 0
        # Few at a time, so that a machine that is busy makes few of them late.
        await_that(lambda: time.sleep(0.1) or exchanges(3) == 0, "a loop that asks the store itself")
        client.close()


class Stopped(unittest.TestCase):
    """The store answers nothing until it is continued, and no deadline passes before."""

    CONFIG = CONFIG.replace("  here:", '  other: {url: "OTHER"}\n  here:').replace(
        "throttle:", '  live: {store: other, rule: "quota:1000/1d"}\n'
        'groups:\n  both: [few, live]\n  single: [one, live]\nthrottle:')

    def setUp(self):
        self.slow, self.other = Store("memcached"), Store("memcached")
        for store in (self.slow, self.other):
            self.addCleanup(store.end)
        self.server = Server(self.config())
        self.addCleanup(self.server.end)
        self.clients = []
        self.addCleanup(lambda: [client.close() for client in self.clients])
        self.stopped = False
        self.waiting = 0
        self.addCleanup(self.go_on)

    def config(self):
        return self.CONFIG.replace("SLOW", self.slow.url + "?timeout=30s").replace(
            "OTHER", self.other.url + "?timeout=30s")

    def connect(self, protocol="resp"):
        self.clients.append(self.server.connect(protocol))
        return self.clients[-1]

    def stop(self):
        self.slow.order("stop")
        self.stopped = True

    def go_on(self):
        if self.stopped:
            self.slow.order("continue")
        self.stopped = False

    def begin(self, count=1, *words_of):
        """Requests that wait for the store."""
        begun = [self.connect() for _ in range(count)]
        for i, client in enumerate(begun):
            client.send(command(*(words_of or ("WEIR.TAKE", "few", f"k{i}"))))
        self.await_waiting(count)
        return begun

    def await_waiting(self, more):
        self.waiting += more
        await_that(lambda: self.server.metric("weir_serve_waiting_requests") == self.waiting, "requests that wait")

    def test_another_store_is_not_delayed(self):
        self.stop()
        waiting = self.begin(20)
        live = self.connect()
        for i in range(100):
            self.assertEqual(words(live.ask("WEIR.TAKE", "live", "k"))["source"], "store")
        self.assertGreater(self.server.metric("weir_serve_exchanges"), 0)
        self.assertTrue(all(client.is_quiet() for client in waiting))
        self.go_on()
        for client in waiting:
            self.assertEqual(words(client.reply())["remaining"], 99)

    def test_a_denial_needs_no_store(self):
        """It is repeated for 50 ms: that may be over on a machine that is busy."""
        denied, cold = self.connect(), self.connect()
        self.assertEqual(words(denied.ask("WEIR.TAKE", "one", "k"))["allowed"], 1)
        for _ in range(20):
            self.assertEqual(words(denied.ask("WEIR.TAKE", "one", "k"))["allowed"], 0)
            self.stop()
            cold.send(command("WEIR.TAKE", "few", "k"))
            denied.send(command("WEIR.TAKE", "one", "k"))
            is_known = bool(select.select([denied.socket], [], [], 0.2)[0]) and cold.is_quiet()
            self.go_on()
            self.assertEqual(words(denied.reply())["allowed"], 0)
            self.assertEqual(words(cold.reply())["allowed"], 1)
            if is_known:
                break
        self.assertTrue(is_known)

    def test_too_many_are_shed(self):
        """But none that needs no store."""
        self.server.end()
        self.server = Server(self.config() + "limits: {waiting: 8}\n")
        self.addCleanup(self.server.end)
        denied = self.connect()
        for _ in range(2):
            self.assertEqual(denied.ask("WEIR.TAKE", "one", "k")[0], "allowed")
        self.stop()
        waiting = self.begin(8)
        more = self.connect()
        for _ in range(3):
            self.assertEqual(words(more.ask("WEIR.TAKE", "few", "more"))["source"], "late")
        self.assertEqual(words(more.ask("WEIR.TAKE", "near", "k"))["allowed"], 1)
        self.assertEqual(self.server.metric("weir_serve_shed_total"), 3)
        self.assertTrue(more.ask("WEIR.RESET", "few", "more").startswith("-ERR TIMEOUT"))
        self.go_on()
        for client in waiting:
            self.assertEqual(words(client.reply())["allowed"], 1)

    def test_an_end_waits_for_what_is_under_way(self):
        self.stop()
        waiting = self.begin(5)
        self.server.process.send_signal(signal.SIGTERM)
        self.server.await_log("ending")
        self.go_on()
        for client in waiting:
            self.assertEqual(words(client.reply())["allowed"], 1)
            self.assertEqual(client.rest(), b"")
        self.server.end()

    def test_a_reload_leaves_what_is_under_way(self):
        """It is answered, and counted under its limiter's name, in whichever place that stands by now. Limiters
        on demand stay as long as they are asked."""
        self.stop()
        waiting = self.begin(2)
        brought = self.begin(1, "CL.THROTTLE", "k", 15, 30, 60)
        for generation in range(3):
            changed = self.server.config.replace("limiters:\n", "limiters:\n" + "".join(
                f'  new{i}: {{store: here, rule: "quota:{i + 1}/1d"}}\n' for i in range(generation + 1)))
            self.server.write(changed)
            self.server.process.send_signal(signal.SIGHUP)
            self.server.await_log("is in use now", generation + 1)
            fresh = self.connect()
            self.assertEqual(words(fresh.ask("WEIR.TAKE", f"new{generation}", "k"))["allowed"], 1)
        self.go_on()
        for client in waiting:
            self.assertEqual(words(client.reply())["allowed"], 1)
        self.assertEqual(brought[0].reply()[0], 0)
        name = 'weir_serve_decisions_total{limiter="%s",protocol="resp",decision="allowed",source="store"}'
        self.assertEqual(self.server.metric(name % "few"), 2)
        self.assertEqual(self.server.metric(name % "near"), 0)

    def test_limiters_on_demand_come_and_go(self):
        """One is kept: those that are asked stay beyond that."""
        self.stop()
        brought = []
        for i in range(5):
            brought.append(self.connect())
            brought[-1].send(command("CL.THROTTLE", f"k{i}", 15 + i, 30, 60))
        self.await_waiting(5)
        self.assertEqual(self.server.metric("weir_serve_throttle_limiters"), 5)
        self.go_on()
        for i, client in enumerate(brought):
            self.assertEqual(client.reply()[:3], [0, 16 + i, 15 + i])
        self.connect().ask("CL.THROTTLE", "k", 100, 30, 60)
        await_that(lambda: self.server.metric("weir_serve_throttle_limiters") <= 2, "limiters that go")

    def test_clients_that_leave(self):
        """Their requests are charged all the same; places that they acquire are released."""
        self.stop()
        holder = self.begin(1, "WEIR.ACQUIRE", "held", "k")[0]
        taker = self.connect()
        taker.send(command("WEIR.TAKE", "few", "left"))
        self.await_waiting(1)
        for client in (holder, taker):
            client.close()
            self.clients.remove(client)
        self.go_on()
        await_that(lambda: self.server.metric('weir_serve_places_ended_total{by="disconnected"}') == 1, "a release")
        self.assertEqual(self.server.metric("weir_serve_places"), 0)
        self.assertEqual(words(self.connect().ask("WEIR.TAKE", "few", "left"))["remaining"], 98)

    def test_places_wait_in_threads(self):
        holder, other = self.connect(), self.connect()
        held = words(holder.ask("WEIR.ACQUIRE", "held", "k"))
        self.assertEqual(held["allowed"], 1)
        self.stop()
        holder.send(command("WEIR.RELEASE", "held", "k", held["place"]))
        self.begin(1, "WEIR.ACQUIRE", "held", "k")
        for _ in range(20):
            self.assertEqual(words(other.ask("WEIR.TAKE", "live", "k"))["source"], "store")
        self.assertTrue(holder.is_quiet())
        self.go_on()
        self.assertEqual(words(holder.reply()), {"held": 1, "store": "OK"})
        self.assertEqual(words(self.clients[-1].reply())["allowed"], 1)

    def test_two_stores_over_one_connection(self):
        """A request that waits for both is answered when both have."""
        self.stop()
        both = self.connect()
        both.send(command("WEIR.TAKE", "few", "b") + command("WEIR.TAKE", "live", "b") + command("PING"))
        live = self.connect()
        for _ in range(20):
            self.assertEqual(words(live.ask("WEIR.TAKE", "live", "k"))["source"], "store")
        self.assertTrue(both.is_quiet())
        self.go_on()
        self.assertEqual([words(both.reply())["remaining"] for _ in range(2)], [99, 999])
        self.assertEqual(both.reply(), "+PONG")

    def test_groups_of_several_stores(self):
        """They wait in threads of their own, as one of their stores may be the one that has stopped."""
        self.stop()
        asked = []
        for i in range(6):
            asked.append(self.connect())
            asked[-1].send(command("WEIR.TAKE", "both", f"k{i}", "all"))
        self.await_waiting(12)
        live = self.connect()
        for _ in range(20):
            self.assertEqual(words(live.ask("WEIR.TAKE", "live", "k"))["source"], "store")
        self.go_on()
        self.assertEqual([words(client.reply())["allowed"] for client in asked], 6 * [1])
        self.assertEqual(words(live.ask("WEIR.PEEK", "live", "all"))["remaining"], 994)
        self.assertEqual(words(live.ask("WEIR.TAKE", "single", "k", "all"))["allowed"], 1)
        told = words(live.ask("WEIR.TAKE", "single", "k", "all"))
        self.assertEqual((told["allowed"], told["denied_by"]), (0, "one"))
        self.assertEqual(words(live.ask("WEIR.PEEK", "live", "all"))["remaining"], 993)

    def test_load_while_it_stops_and_goes_on(self):
        """Nothing is lost or mixed up: each client's own key counts down by one."""
        failures = []

        def load(number):
            client = self.server.connect()
            for i in range(0, 99, 3):
                client.send(b"".join(3 * [command("WEIR.TAKE", "few", f"own{number}")]) + command("PING", f"{i}"))
                told = [words(client.reply())["remaining"] for _ in range(3)]
                if told != [99 - i, 98 - i, 97 - i] or client.reply() != f"{i}":
                    failures.append((number, i, told))
            client.close()

        threads = [threading.Thread(target=load, args=(i,)) for i in range(12)]
        for thread in threads:
            thread.start()
        for _ in range(5):
            self.slow.order("stop")
            self.slow.order("continue")
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])


class Descriptors(Served):
    """A request that waits: its parts are charged as one, and what goes back goes in a thread."""

    FILES = {"a.yaml": "domain: edge\ndescriptors:\n" + "".join(
        "  - {key: %s, %s}\n" % (key, per_year(limit, more))
        for key, limit, more in (("a", 9, ""), ("b", 2, ""), ("s", 9, "")))}

    def setUp(self):
        self.store = Store("memcached")
        self.addCleanup(self.store.end)

    def codes_late(self, server, *descriptors, **more):
        """Asked while the store has stopped."""
        client = server.connect("http")
        self.store.order("stop")
        client.send(post("/json", **question("edge", *descriptors, **more)))
        await_that(lambda: server.metric("weir_serve_waiting_requests") > 0, "requests that wait")
        self.store.order("continue")
        told = json.loads(http(client, "")[1])
        client.close()
        return [one["limitRemaining"] for one in told["statuses"]]

    def test_they_wait(self):
        stores = 'stores: {main: {url: "%s?timeout=30s"}}\n' % self.store.url
        for together in ("true", "false"):
            server = self.start(self.FILES, ", domains: {edge: {together: %s}}" % together, stores=stores)
            key = "=" + together
            left = [self.codes_late(server, "a" + key, "s" + key, "b" + key) for _ in range(3)]
            self.assertEqual(left[:2], [[8, 8, 1], [7, 7, 0]])
            self.assertEqual(left[2], [7, 7, 0] if together == "true" else [6, 6, 0])
            back = {"entries": entries("a" + key), "isNegativeHits": True, "hitsAddend": 2}
            self.assertEqual(self.codes_late(server, back), [9 if together == "true" else 8])


if __name__ == "__main__":
    unittest.main(argv=["test_waits.py"])
