"""Places: limits of what is in flight, held by the server for its clients, on every kind of store."""

import json
import os
import signal
import subprocess
import sys
import time
import unittest

from envoy import Served, question
from server import BASE, MORTAL, Server, Store, await_that, command, http
from speaks import Speaks
from test_http import get, post

LIMITERS = """limiters:
  few: {store: main, rule: "in-flight:3/1s"}
  long: {store: main, rule: "in-flight:3/10s"}
  wide: {store: main, rule: "in-flight:100000/10s"}
  some: {store: main, rule: "in-flight:3/4s"}
  held: {store: main, rule: "in-flight:3/59m"}
  gone: {store: main, rule: "in-flight:4/58m"}
  hours: {store: main, rule: "in-flight:3/1h"}
  shown: {store: main, rule: "in-flight:9/11s", log_keys: plain}
  both: {store: main, rule: "in-flight:2/10s;quota:3/1d"}
  rate: {store: main, rule: "quota:3/1d"}
  seen: {store: main, rule: "in-flight:1/10s", shadow: true}
  tiered: {store: main, rule: "in-flight:1/10s", tiers: {gold: "in-flight:2/10s", plain: "quota:2/1d", no: blocked, free: unlimited}, overrides: {rich: gold, free: free, bad: no, old: plain}}
  headed: {store: main, rule: "in-flight:1/10s", key: "header:X-Key"}
"""
CONFIG = BASE.replace("limiters:\n", LIMITERS).replace("timeout=10s", "timeout=100ms")
PLACE = r"\A[0-9a-f]{8}-\d+-[0-9a-f]{8}\Z"
TRIES = 5  # of what a machine that stands still for a tenth of a second can spoil
T = 1.25  # of a period: the longest that a place of the dead may be away, from its last payment on


THOUSAND = """
import socket, sys, time
clients = [socket.create_connection(("127.0.0.1", int(sys.argv[1]))) for _ in range(1000)]
for i, client in enumerate(clients):
    client.sendall(b"WEIR.ACQUIRE wide k%d\\r\\n" % (i % 100))
print(sum(b"allowed\\r\\n:1" in client.recv(4096) for client in clients), flush=True)
time.sleep(100)
"""


class Holds(Speaks):
    def acquire(self, limiter, key, *words, client=None):
        """A place's name; "" where it is denied."""
        told = self.fields("WEIR.ACQUIRE", limiter, key, *words, client=client)
        self.assertEqual(told["allowed"], 1 if told["place"] else 0)
        return told["place"]

    def release(self, limiter, key, place, client=None):
        told = self.fields("WEIR.RELEASE", limiter, key, place, client=client)
        self.assertEqual(told["store"], "OK")
        return told["held"]

    def held(self, limiter, key, place):
        return self.fields("WEIR.HELD", limiter, key, place)

    def fill(self, limiter, key, count, client=None):
        """Takes what is free, of at most `count`."""
        places = []
        for _ in range(count + 1):
            place = self.acquire(limiter, key, client=client)
            if not place:
                break
            places.append(place)
        return places


class Places(Holds):
    CONFIG = CONFIG

    def test_at_most_so_many(self):
        places = self.fill("long", "k", 3)
        self.assertEqual(len(set(places)), 3)
        told = self.fields("WEIR.ACQUIRE", "long", "k")
        self.assertEqual((told["allowed"], told["place"], told["token"], told["held_until_us"]), (0, "", "0", 0))
        self.assertEqual(self.release("long", "k", places[1]), 1)
        self.assertEqual(len(self.fill("long", "k", 3)), 1)
        self.assertEqual(len(self.fill("long", "other", 3)), 3)

    def test_what_is_answered(self):
        flat = self.client.ask("WEIR.ACQUIRE", "long", "told", "COST", 2, "FOR", "30s")
        told = dict(zip(flat[::2], flat[1::2]))
        self.assertEqual(list(told), ["allowed", "limit", "remaining", "retry_after_us", "reset_after_us", "delay_us",
                                      "cost", "source", "rule", "stamp", "place", "token", "held_until_us"])
        self.assertRegex(told["place"], PLACE)
        self.assertEqual((told["limit"], told["remaining"], told["cost"], told["stamp"]), (3, 1, 2, ""))
        self.assertTrue(0 < told["held_until_us"] / 1e6 - time.time() < 21)
        asked = self.held("long", "told", told["place"])
        self.assertEqual((asked["held"], asked["token"]), (1, told["token"]))
        self.assertGreaterEqual(asked["held_until_us"], told["held_until_us"])
        later = self.fields("WEIR.ACQUIRE", "long", "told", "FOR", "1s")
        self.assertGreater(int(later["token"]), int(told["token"]))
        self.assertTrue(later["held_until_us"] / 1e6 - time.time() <= 1)
        self.assertEqual(self.fields("WEIR.PEEK", "long", "told")["remaining"], 0)
        self.release("long", "told", told["place"])
        asked = self.held("long", "told", told["place"])
        self.assertEqual((asked["held"], asked["token"], asked["held_until_us"]), (0, "0", 0))

    def test_a_stack_keeps_its_other_charges(self):
        for _ in range(3):
            self.release("both", "k", self.acquire("both", "k"))
        self.assertEqual(self.acquire("both", "k"), "")
        self.assertEqual(self.fields("WEIR.ACQUIRE", "both", "k")["rule"], 1)

    def test_keys_of_lists_and_tiers(self):
        self.assertEqual(self.acquire("tiered", "free"), "-")
        self.assertEqual(self.held("tiered", "free", "-")["held"], 1)
        self.assertEqual(self.release("tiered", "free", "-"), 1)
        self.assertEqual(self.acquire("tiered", "bad"), "")
        self.assertEqual(len(self.fill("tiered", "rich", 2)), 2)
        self.assertEqual(len(self.fill("tiered", "poor", 2)), 1)
        self.assertRegex(self.client.ask("WEIR.ACQUIRE", "tiered", "old"), "no rule of this limiter is held")
        self.assertEqual(self.fields("WEIR.TAKE", "tiered", "old")["allowed"], 1)

    def test_in_shadow_mode_a_denial_has_no_place(self):
        self.assertRegex(self.acquire("seen", "k"), PLACE)
        self.assertEqual(self.acquire("seen", "k"), "-")

    def test_errors(self):
        place = self.acquire("long", "mine")
        say = self.client.ask
        for words, wanted in (
                (("WEIR.TAKE", "long", "k"), "a place of this limiter is acquired and released"),
                (("WEIR.SETTLE", "long", "k", 1, 0), "a place of this limiter is acquired and released"),
                (("WEIR.REFUND", "long", "k", 1), "a place of this limiter is acquired and released"),
                (("WEIR.ACQUIRE", "rate", "k"), "no rule of this limiter is held"),
                (("WEIR.ACQUIRE", "none", "k"), "there is no limiter of this name"),
                (("WEIR.ACQUIRE", "long", ""), "the key has 0 bytes"),
                (("WEIR.ACQUIRE", "long", "k", "COST", 0), "COST: 1 to 2147483648"),
                (("WEIR.ACQUIRE", "long", "k", "COST", "1,1"), "there are 2 costs"),
                (("WEIR.ACQUIRE", "long", "k", "FOR", "soon"), "for: a duration such as 30s or 5m"),
                (("WEIR.ACQUIRE", "long", "k", "FOR", "2d"), "for: up to 1d is accepted"),
                (("WEIR.ACQUIRE", "long", "k", "FOR"), "COST N, FOR DURATION, CLASS NAME"),
                (("WEIR.ACQUIRE", "long", "k", "UPTO", 1), "COST N, FOR DURATION, CLASS NAME"),
                (("WEIR.ACQUIRE", "long"), "wrong number of arguments"),
                (("WEIR.RELEASE", "long", "mine"), "wrong number of arguments"),
                (("WEIR.RELEASE", "long", "mine", "17"), "place: the one that was answered"),
                (("WEIR.RELEASE", "long", "mine", ""), "place: the one that was answered"),
                (("WEIR.RELEASE", "long", "other", place), "place: it is one of another limiter or key"),
                (("WEIR.RELEASE", "few", "mine", place), "place: it is one of another limiter or key"),
                (("WEIR.RELEASE", "none", "mine", place), "there is no limiter of this name"),
                (("WEIR.RELEASE", "none", "mine", "-"), "there is no limiter of this name"),
                (("WEIR.HELD", "long", "other", place), "place: it is one of another limiter or key"),
                (("WEIR.RELEASE", "long", "mine", place[:-1] + ("0" if place[-1] != "0" else "1")), "another limiter or key"),
                (("WEIR.RELEASE", "long", "mine", "00000000-1-00000000"), "place: it is one of another server"),
                (("WEIR.HELD", "long", "mine", "00000000-1-00000000"), "place: it is one of another server")):
            self.assertRegex(say(*words), "^-ERR .*" + wanted, words)
        self.assertEqual(self.held("long", "mine", place)["held"], 1)
        self.assertEqual(self.release("long", "mine", place), 1)
        self.assertRegex(say("WEIR.RELEASE", "long", "mine", place), "it is held no more: it was released before")
        self.assertEqual(len(self.fill("long", "mine", 3)), 3)

    def test_json(self):
        status, told = self.told("/acquire", {"limiter": "long", "key": "w", "cost": 3, "for": "1m"})
        self.assertEqual((status, told["allowed"], told["cost"]), (200, True, 3))
        self.assertEqual(list(told)[-3:], ["place", "token", "held_until_us"])
        self.assertRegex(told["place"], PLACE)
        self.assertGreater(int(told["token"]), 0)
        denied = self.told("/acquire", {"limiter": "long", "key": "w"})[1]
        self.assertEqual((denied["allowed"], "place" in denied), (False, False))
        asked = {"limiter": "long", "key": "w", "place": told["place"]}
        status, held = self.told("/held", asked)
        self.assertEqual((status, held["held"], held["token"]), (200, True, told["token"]))
        self.assertEqual(self.told("/release", asked), (200, {"held": True, "store": "OK"}))
        self.assertEqual(self.told("/held", asked), (200, {"held": False, "token": "0", "held_until_us": 0}))
        for path, body, wanted in (("/release", asked, "held no more"), ("/take", {"limiter": "long", "key": "w"}, "acquired and released"),
                                   ("/acquire", {"limiter": "rate", "key": "w"}, "no rule of this limiter is held"),
                                   ("/acquire", {"limiter": "long", "key": "w", "for": "x"}, "for: a duration"),
                                   ("/release", {"limiter": "long", "key": "w", "place": "x"}, "place: the one"),
                                   ("/release", {"limiter": "long", "key": "w"}, '"place" is missing')):
            status, problem = self.told(path, body)
            self.assertEqual(status, 400, path)
            self.assertIn(wanted, problem["detail"])
        status, _, _ = http(self.web, post("/acquire", {"limiter": "long", "key": "w"}).replace("\r\n\r\n", "\r\nOrigin: http://elsewhere\r\n\r\n", 1))
        self.assertEqual(status, 403)

    def test_a_path_for_proxies(self):
        for method in ("GET", "POST", "DELETE"):
            asked = lambda path: get(path).replace("GET", method, 1).replace("\r\n\r\n", "\r\nContent-Length: 0\r\n\r\n")
            status, body, fields = http(self.web, asked("/acquire/long?key=p&cost=3&for=1m"))
            self.assertEqual((status, body), (200, ""))
            self.assertRegex(fields["weir-place"], PLACE)
            self.assertIn('qu="concurrent-requests"', fields["ratelimit-policy"])
            status, body, denied = http(self.web, asked("/acquire/long?key=p"))
            self.assertEqual((status, "weir-place" in denied), (429, False))
            self.assertIn("quota-exceeded", body)
            self.assertEqual(http(self.web, asked("/release/long?key=p&place=" + fields["weir-place"]))[:2], (200, ""))
        self.assertEqual(http(self.web, get("/release/long?key=p&place=" + fields["weir-place"]))[0], 400)
        self.assertEqual(http(self.web, get("/release/long?key=p"))[0], 400)
        self.assertEqual(http(self.web, get("/check/long?key=p"))[0], 400)
        place = http(self.web, get("/acquire/headed", "X-Key: h"))[2]["weir-place"]
        self.assertEqual(http(self.web, get("/acquire/headed", "X-Key: h"))[0], 429)
        self.assertEqual(http(self.web, get("/release/headed?place=" + place, "X-Key: h"))[0], 200)

    def test_many_in_one_turn(self):
        self.client.send(b"".join(command("WEIR.ACQUIRE", "wide", f"k{i % 7}") for i in range(3000)))
        places = [dict(zip(flat[::2], flat[1::2]))["place"] for flat in (self.client.reply() for _ in range(3000))]
        self.assertEqual(len(set(places)), 3000)
        self.client.send(b"".join(command("WEIR.RELEASE", "wide", f"k{i % 7}", place) for i, place in enumerate(places)))
        self.assertEqual({tuple(self.client.reply()) for _ in range(3000)}, {("held", 1, "store", "OK")})
        self.assertEqual(self.fields("WEIR.PEEK", "wide", "k0")["remaining"], 100000)

    def test_a_release_makes_room_in_the_same_turn(self):
        place = self.acquire("long", "turn", "COST", 3)
        self.client.send(command("WEIR.ACQUIRE", "long", "turn") + command("WEIR.RELEASE", "long", "turn", place)
                         + command("WEIR.HELD", "long", "turn", place))
        told = [self.client.reply() for _ in range(3)]
        self.assertEqual((told[0][1], told[1][1], told[2][1]), (1, 1, 0))

    def test_what_came_over_a_connection_is_released_with_it(self):
        other = self.server.connect()
        self.assertEqual(len(self.fill("long", "gone", 3, other)), 3)
        stays = self.told("/acquire", {"limiter": "wide", "key": "gone"})[1]["place"]
        self.web.close()
        self.assertEqual(self.acquire("long", "gone"), "")
        other.close()
        await_that(lambda: self.acquire("long", "gone", "COST", 3) != "", "places of the connection")
        self.assertEqual(self.held("wide", "gone", stays)["held"], 1)

    def test_another_may_release_it(self):
        other = self.server.connect()
        place = self.acquire("long", "shared", client=other)
        self.assertEqual(self.release("long", "shared", place), 1)
        other.close()
        self.assertEqual(len(self.fill("long", "shared", 3)), 3)

    def test_it_ends_with_its_time(self):
        place = self.told("/acquire", {"limiter": "long", "key": "timed", "cost": 3, "for": "1s"})[1]["place"]
        began = time.monotonic()
        await_that(lambda: self.acquire("long", "timed") != "", "the end of its time")
        self.assertGreater(time.monotonic() - began, 0.8)
        self.assertEqual(self.held("long", "timed", place)["held"], 0)
        self.assertRegex(self.client.ask("WEIR.RELEASE", "long", "timed", place), "or its time was over")

    def test_what_is_counted(self):
        before = self.server.metric('weir_serve_places_ended_total{by="released"}')
        place = self.acquire("long", "counted")
        self.assertGreater(self.server.metric("weir_serve_places"), 0)
        self.release("long", "counted", place)
        self.assertEqual(self.server.metric('weir_serve_places_ended_total{by="released"}'), before + 1)
        self.assertGreater(self.server.metric('weir_places_total{limiter="long",fate="entered"}'), 0)

    def ask_admin(self, path, body):
        client = self.server.connect("admin")
        status, text, _ = http(client, post(path, body))
        client.close()
        return status, json.loads(text)

    def test_an_operator_sees_who_holds_a_key(self):
        self.client.ask("CLIENT", "SETNAME", "worker-7")
        first = self.acquire("long", "watched", "COST", 2, "FOR", "1m")
        second = self.told("/acquire", {"limiter": "long", "key": "watched"})[1]["place"]
        status, told = self.ask_admin("/places", {"limiter": "long", "key": "watched"})
        self.assertEqual((status, told["held"]), (200, 2))
        by_name = {one["place"]: one for one in told["holders"]}
        self.assertEqual((by_name[first]["client"], by_name[first]["cost"], by_name[first]["held"]), ("127.0.0.1 worker-7", 2, True))
        self.assertEqual((by_name[second]["client"], by_name[second]["cost"]), ("127.0.0.1", 1))
        self.assertTrue(50 <= by_name[first]["left_s"] < 60)
        self.assertEqual(self.ask_admin("/places", {"limiter": "long", "key": "never"}), (200, {"held": 0, "holders": []}))

    def test_an_operator_puts_one_out(self):
        place = self.acquire("long", "stuck", "COST", 3)
        asked = {"limiter": "long", "key": "stuck", "place": place}
        status, told = self.ask_admin("/places/out", {**asked, "key": "other"})
        self.assertEqual((status, "another limiter or key" in told["detail"]), (400, True))
        self.assertEqual(self.ask_admin("/places/out", {**asked, "place": "x"})[0], 400)
        self.assertEqual(self.ask_admin("/places/out", asked), (200, {"put_out": True}))
        self.assertEqual(self.held("long", "stuck", place)["held"], 0)
        await_that(lambda: len(self.fill("long", "stuck", 3)) == 3, "room for others")
        self.assertRegex(self.client.ask("WEIR.RELEASE", "long", "stuck", place), "-ERR place: it is held no more")
        self.assertEqual(self.ask_admin("/places/out", asked)[0], 400)
        self.assertIn("an operator has put out a place of long", self.server.log())
        client = self.server.connect("admin")
        self.assertEqual(http(client, get("/places"))[0], 405)
        self.assertEqual(http(client, post("/places", {"limiter": "long"}))[0], 400)
        self.assertEqual(http(client, post("/places", asked).replace("application/json", "text/plain"))[0], 415)
        client.close()

    def test_the_page_of_status(self):
        for i in range(3):
            self.acquire("shown", "busy")
        self.acquire("shown", "calm")
        self.acquire("long", "secret")
        client = self.server.connect("admin")
        told = json.loads(http(client, get("/status.json"))[1])
        client.close()
        row = next(one for one in told["limiters"] if one["name"] == "shown")["places"]
        self.assertEqual((row["held"], row["entered"], row["lost"]), (4, 4, 0))
        self.assertNotIn("places", next(one for one in told["limiters"] if one["name"] == "rate"))
        self.assertEqual([(one["key"], one["held"]) for one in told["places"]["keys"] if one["limiter"] == "shown"], [("busy", 3), ("calm", 1)])
        self.assertNotIn("secret", json.dumps(told))
        self.assertGreaterEqual(told["places"]["held"], 5)
        self.assertEqual(told["places"]["most"], 100000)


class Stores(Holds):
    """Two servers of one store, and what becomes of places when clients and servers die."""

    def serve(self, config):
        server = Server(config)
        self.addCleanup(server.end)
        return server

    def on_stores(self, run):
        for kind in ("memcached", "redis"):
            store = Store(kind)
            try:
                with self.subTest(store=kind):
                    run(CONFIG.replace("memory:?", store.url + "?"))
            finally:
                store.end()

    def test_at_most_so_many_over_two_servers(self):
        def run(config):
            clients = [self.serve(config).connect() for _ in range(2)]
            places = []
            for i in range(8):
                told = self.fields("WEIR.ACQUIRE", "long", "k", client=clients[i % 2])
                places += [(i % 2, told["place"])] * told["allowed"]
            self.assertEqual(len(places), 3)
            self.assertRegex(clients[1 - places[0][0]].ask("WEIR.RELEASE", "long", "k", places[0][1]), "one of another server")
            for i, place in places:
                self.assertEqual(self.release("long", "k", place, clients[i]), 1)
            time.sleep(0.06)  # a denial is remembered for as long
            self.assertEqual(len(self.fill("long", "k", 3, clients[1])), 3)
            for client in clients:
                client.close()
        self.on_stores(run)

    def test_it_is_paid_for_beyond_its_period(self):
        def run(config):
            self.speak(self.serve(config))
            for _ in range(TRIES):
                places = self.fill("some", "k", 3)
                told = [self.held("some", "k", place) for place in places]
                paid = max(one["held_until_us"] for one in told)
                while all(one["held"] for one in told) and min(one["held_until_us"] for one in told) <= paid:
                    more = self.acquire("some", "k")
                    told = [self.held("some", "k", place) for place in places]
                    self.assertLessEqual(sum(one["held"] for one in told) + (more != ""), 3)
                    time.sleep(0.05)
                if all(one["held"] for one in told):
                    return
                # A machine that stood still for as long as a payment may take.
                for place in places + [more] * (more != ""):
                    self.release("some", "k", place)
            self.fail("nothing was paid for in %d tries" % TRIES)
        self.on_stores(run)

    def test_a_killed_server(self):
        def run(config):
            dies, lives = self.serve(config), self.serve(config)
            self.speak(lives)
            client = dies.connect()
            self.assertEqual(len(self.fill("few", "k", 3, client)), 3)
            dies.process.kill()
            died = time.monotonic()
            dies.process.wait()
            dies.release()
            await_that(lambda: self.acquire("few", "k", "COST", 3) != "", "places of the dead")
            self.assertLess(time.monotonic() - died, 2 + T)  # paid to the end of the next period at most
            client.close()
        self.on_stores(run)

    def test_a_server_that_ends_frees_nothing_too_early(self):
        def run(config):
            ends, lives = self.serve(config), self.serve(config)
            self.speak(lives)
            client, web = ends.connect(), ends.connect("http")
            until = [self.fields("WEIR.ACQUIRE", "few", "k", client=client)["held_until_us"] for _ in range(2)]
            until.append(json.loads(http(web, post("/acquire", {"limiter": "few", "key": "k"}))[1])["held_until_us"])
            place = self.fields("WEIR.ACQUIRE", "long", "k", client=client)["place"]
            ends.process.send_signal(signal.SIGTERM)
            self.assertEqual(client.rest(), b"")
            ends.process.wait()
            ended = time.monotonic()
            self.assertIn("4 places are held by clients", ends.log())
            ends.end()
            self.assertRegex(self.client.ask("WEIR.HELD", "long", "k", place), "-ERR place: it is one of another server")
            await_that(lambda: self.acquire("few", "k", "COST", 3) != "", "places of the one that has ended")
            self.assertGreaterEqual(time.time() * 1e6, max(until))
            self.assertLess(time.monotonic() - ended, 2 + T)
            client.close()
            web.close()
        self.on_stores(run)

    def test_a_killed_client(self):
        def run(config):
            server = self.serve(config)
            self.speak(server)
            script = ("import socket, sys, time\n"
                      "s = socket.create_connection(('127.0.0.1', int(sys.argv[1])))\n"
                      "s.sendall(b'WEIR.ACQUIRE long k COST 3\\r\\n')\n"
                      "print(len(s.recv(4096)), flush=True)\n"
                      "time.sleep(100)\n")
            child = subprocess.Popen([*MORTAL, sys.executable, "-c", script, str(server.ports["resp"][0])], stdout=subprocess.PIPE)
            child.stdout.readline()
            self.assertEqual(self.acquire("long", "k"), "")
            child.kill()
            killed = time.monotonic()
            child.wait()
            child.stdout.close()
            await_that(lambda: self.acquire("long", "k", "COST", 3) != "", "places of the dead")
            self.assertLess(time.monotonic() - killed, 10)  # with its connection, and not with its period
        self.on_stores(run)

    def test_a_store_that_is_away_takes_places(self):
        for kind in ("memcached", "redis"):
            store = Store(kind)
            with self.subTest(store=kind):
                self.speak(self.serve(CONFIG.replace("memory:?", store.url + "?")))
                lost, kept = self.acquire("few", "k"), self.acquire("hours", "k")
                store.order("stop")
                await_that(lambda: self.held("few", "k", lost)["held"] == 0, "what could not be paid for to be lost")
                self.assertEqual(self.held("hours", "k", kept)["held"], 1)
                store.order("continue")
                told = self.fields("WEIR.RELEASE", "few", "k", lost)
                self.assertEqual(told["held"], 0)
                await_that(lambda: self.acquire("few", "k", "COST", 3) != "", "all places")
            store.end()

    def test_a_store_that_is_away_decides_nothing(self):
        """Where there is no decision nothing is read of one: sanitizers fill memory with bytes that are no bool."""
        store = Store("memcached")
        config = CONFIG.replace('"memory:?timeout=100ms"', f'"{store.url}?timeout=100ms", fallback: none')
        filled = os.environ.get("ASAN_OPTIONS", "") + ":max_malloc_fill_size=100000000"
        server = Server(config, environment={**os.environ, "ASAN_OPTIONS": filled})
        self.addCleanup(server.end)
        store.end()
        self.speak(server)
        self.assertRegex(self.client.ask("WEIR.ACQUIRE", "few", "k"), "^-ERR UNAVAILABLE ")
        self.assertEqual(http(self.web, post("/acquire", {"limiter": "few", "key": "k"}))[0], 503)
        self.assertEqual(server.metric("weir_serve_places"), 0)

    def test_a_thousand_connections_that_end(self):
        def run(config):
            server = self.serve(config + "limits: {connections_per_address: 2000}\n")
            self.speak(server)
            child = subprocess.Popen([*MORTAL, sys.executable, "-c", THOUSAND, str(server.ports["resp"][0])], stdout=subprocess.PIPE)
            self.assertEqual(child.stdout.readline(), b"1000\n")
            self.assertEqual((server.metric("weir_serve_places"), self.inside()), (1000, 1000))
            child.kill()
            killed = time.monotonic()
            while self.inside() > 0:
                self.assertLess(time.monotonic() - killed, 8)  # and not when their period ends
            print(f"all of 1,000 connections have left after {(time.monotonic() - killed) * 1000:.0f} ms")
            self.assertEqual(server.metric("weir_serve_places"), 0)
            child.wait()
            child.stdout.close()
        self.on_stores(run)

    def inside(self):
        """The places held of the keys of THOUSAND, as the store has them."""
        self.client.send(b"".join(command("WEIR.PEEK", "wide", f"k{i}") for i in range(100)))
        told = [self.client.reply() for _ in range(100)]
        return sum(100000 - dict(zip(flat[::2], flat[1::2]))["remaining"] for flat in told)

    def test_many_that_go_need_one_round_trip(self):
        """200 places of 100 keys: by the end of their connection, and by releases that stand in line together."""
        def run(config):
            server = self.serve(config)
            wide = lambda name: server.metric('weir_%s{limiter="wide"}' % name)
            released = lambda: server.metric('weir_places_total{limiter="wide",fate="released"}')

            def trips(leave):
                """Round trips of those that leave; a payment for them would be one as well."""
                for _ in range(TRIES):
                    client = server.connect()
                    client.send(b"".join(command("WEIR.ACQUIRE", "wide", f"k{i % 100}") for i in range(200)))
                    told = [client.reply() for _ in range(200)]
                    places = [dict(zip(flat[::2], flat[1::2]))["place"] for flat in told]
                    paid, before, gone = wide("place_renewals_total"), wide("round_trips_total"), released()
                    leave(client, places)
                    await_that(lambda: released() == gone + 200, "all to be released")
                    client.close()
                    await_that(lambda: wide("round_trips_total") > before, "a count that follows")
                    if wide("place_renewals_total") == paid:
                        return wide("round_trips_total") - before
                self.fail("places were paid for in each of %d tries" % TRIES)

            def release(client, places):
                client.send(b"".join(command("WEIR.RELEASE", "wide", f"k{i % 100}", place) for i, place in enumerate(places)))
                self.assertEqual({tuple(client.reply()) for _ in places}, {("held", 1, "store", "OK")})

            self.assertEqual(trips(lambda client, places: client.close()), 1)
            self.assertLessEqual(trips(release), 10)  # as they are read
        self.on_stores(run)


class Ends(Holds):
    """One server, and how places end with it."""

    def test_one_that_holds_is_not_idle(self):
        config = CONFIG + "limits: {idle: 1s, first_bytes: 1s}\n"
        with Server(config) as server:
            self.speak(server)
            place = self.acquire("hours", "k")
            idle = server.connect()
            self.assertEqual(idle.ask("PING"), "+PONG")
            self.assertEqual(idle.rest(), b"")
            time.sleep(2)
            self.assertEqual(self.held("hours", "k", place)["held"], 1)
            self.release("hours", "k", place)
            self.assertEqual(self.client.rest(), b"")
            idle.close()

    def test_no_more_than_the_setting(self):
        with Server(CONFIG + "places: {most: 2, for: 1s, for_most: 1m}\n") as server:
            self.speak(server)
            first = self.acquire("wide", "a", "FOR", "1m")
            self.acquire("wide", "b", "FOR", "1m")
            self.assertRegex(self.client.ask("WEIR.ACQUIRE", "wide", "c"), "-ERR so many places are held as places.most allows")
            self.assertEqual(self.told("/acquire", {"limiter": "wide", "key": "c"})[0], 503)
            self.assertRegex(self.client.ask("WEIR.ACQUIRE", "wide", "c", "FOR", "61s"), "for: up to 1m is accepted")
            self.assertEqual(server.metric("weir_serve_places_refused_total"), 2)
            self.release("wide", "a", first)
            self.assertNotEqual(self.acquire("wide", "c"), "")
            await_that(lambda: server.metric('weir_serve_places_ended_total{by="over"}') == 1, "the end of its time")

    def test_a_reload_changes_no_place(self):
        with Server(CONFIG) as server:
            self.speak(server)
            kept, changed, gone = (self.acquire(name, "k", "COST", 2) for name in ("hours", "held", "gone"))
            server.write(server.config.replace("in-flight:3/59m", "in-flight:2/59m").replace('  gone: {store: main, rule: "in-flight:4/58m"}\n', "")
                         .replace('  some: {store: main, rule: "in-flight:3/4s"}\n', ""))
            paid = self.fields("WEIR.ACQUIRE", "some", "k")
            server.process.send_signal(signal.SIGHUP)
            server.await_log("is in use now")
            await_that(lambda: str(self.client.ask("WEIR.ACQUIRE", "gone", "k")).startswith("-ERR there is no limiter"), "the reload")
            self.assertEqual(self.acquire("held", "k"), "")  # two are held, and two are the limit
            for name, place in (("hours", kept), ("held", changed), ("gone", gone)):
                self.assertEqual(self.held(name, "k", place)["held"], 1, name)
                self.assertEqual(self.release(name, "k", place), 1, name)
            time.sleep(0.06)
            self.assertEqual(len(self.fill("held", "k", 3)), 2)
            # The places of a limiter that is gone are paid for as before; or lost by a machine that stands still.
            await_that(lambda: self.held("some", "k", paid["place"])["held_until_us"] not in range(1, paid["held_until_us"] + 1), "a payment")
            self.release("some", "k", paid["place"])

    def test_a_proxy_releases_places_of_limiters_that_are_gone(self):
        """Wherever the limiter had its keys; under its own name, and once."""
        headed = '  headed: {store: main, rule: "in-flight:1/10s", key: "header:X-Key"}\n'
        gone = '  gone: {store: main, rule: "in-flight:4/58m"}\n'
        with Server(CONFIG) as server:
            client = server.connect("http")

            def asked(path):
                return http(client, f"GET {path} HTTP/1.1\r\nHost: localhost\r\nX-Key: alice\r\n\r\n")
            places = {name: asked(f"/acquire/{name}?key=alice")[2]["weir-place"] for name in ("gone", "headed")}
            server.write(server.config.replace(headed, "").replace(gone, ""))
            server.process.send_signal(signal.SIGHUP)
            await_that(lambda: asked("/check/headed?key=alice")[0] == 404, "the reload")
            self.assertEqual(asked(f"/release/few?key=alice&place={places['gone']}")[0], 400)
            self.assertEqual(asked(f"/release/headed?key=alice&place={places['gone']}")[0], 404)
            for name, place in places.items():
                self.assertEqual([asked(f"/release/{name}?key=alice&place={place}")[0] for _ in range(2)], [200, 404], name)
            self.assertEqual(server.metric('weir_serve_places_ended_total{by="released"}'), 2)

    def test_bad_settings(self):
        for places, wanted in (("{most: 0}", "most"), ("{for: 2d}", "for is longer than for_most"), ("{for: 10ms}", "for"),
                               ("{forever: 1s}", "forever")):
            server = Server(CONFIG + f"places: {places}\n", wait=False)
            self.assertEqual(server.process.wait(60), 2)
            self.assertIn(wanted, server.log())
            server.release()

    def test_bad_rules(self):
        for rule, wanted in (("in-flight:0/10s", "1 to 1000000000"), ("in-flight:3/999ms", "1s to 1h")):
            server = Server(CONFIG.replace("in-flight:3/1s", rule), wait=False)
            self.assertEqual(server.process.wait(60), 2)
            self.assertIn(wanted, server.log())
            server.release()
        server = Server(CONFIG.replace("timeout=100ms", "timeout=200ms"), wait=False)
        self.assertEqual(server.process.wait(60), 2)
        self.assertIn("accepted are 1760 ms or more", server.log())
        server.release()


class Envoy(Served):
    """A domain whose limits are held: hits are entered, and negative hits give back."""

    LIMITS = """domain: busy
descriptors:
  - {key: user, rate_limit: {unit: second, requests_per_unit: 3}}
  - {key: tenant, rate_limit: {unit: second, requests_per_unit: 1}}
  - {key: none, rate_limit: {unit: second, requests_per_unit: 0}}
"""

    def begin(self, rest="", more="", stores='stores: {main: {url: "memory:?timeout=100ms"}}\n'):
        self.server = self.start({"a.yaml": self.LIMITS}, ", domains: {busy: {algorithm: in-flight%s}}" % more, rest, stores)
        self.web = self.server.connect("http")
        self.addCleanup(self.web.close)

    def ask(self, *descriptors, **more):
        status, text, _ = http(self.web, post("/json", question("busy", *descriptors, **more)))
        return status, json.loads(text)

    def back(self, entry, hits):
        key, _, value = entry.partition("=")
        return self.ask({"entries": [{"key": key, "value": value}], "hitsAddend": hits, "isNegativeHits": True})

    def test_hits_are_held_and_given_back(self):
        self.begin()
        self.assertEqual(self.ask("user=a", hitsAddend=2)[0], 200)
        self.assertEqual(self.ask("user=a")[0], 200)
        status, told = self.ask("user=a")
        self.assertEqual((status, told["statuses"][0]["limitRemaining"]), (429, 0))
        time.sleep(2.2)  # held beyond its period
        self.assertEqual(self.ask("user=a")[0], 429)
        status, told = self.back("user=a", 2)
        self.assertEqual((status, told["statuses"][0]["limitRemaining"]), (200, 2))
        self.assertEqual(self.back("user=a", 1)[1]["statuses"][0]["limitRemaining"], 3)
        self.assertEqual(self.server.metric("weir_serve_places"), 0)

    def test_many_are_given_back_at_once(self):
        self.LIMITS = self.LIMITS.replace("requests_per_unit: 3", "requests_per_unit: 200")
        self.begin()
        for _ in range(150):
            self.assertEqual(self.ask("user=m")[0], 200)
        self.assertEqual(self.back("user=m", 140)[1]["statuses"][0]["limitRemaining"], 190)
        self.assertEqual(self.server.metric("weir_serve_places"), 10)

    def test_what_is_not_held_is_not_given_back(self):
        self.begin()
        self.assertEqual(self.back("user=b", 5)[1]["statuses"][0]["limitRemaining"], 3)
        self.assertEqual(self.ask("user=b", hitsAddend=3)[0], 200)
        self.assertEqual(self.back("user=b", 2)[1]["statuses"][0]["limitRemaining"], 0)  # part of a place
        self.assertEqual(self.back("user=b", 4)[1]["statuses"][0]["limitRemaining"], 3)

    def test_a_denied_request_holds_nothing(self):
        self.begin()
        self.assertEqual(self.ask("user=c", "tenant=t")[0], 200)
        self.assertEqual(self.ask("user=c", "tenant=t")[0], 429)
        await_that(lambda: self.server.metric("weir_serve_places") == 2, "what the denied request had of its user")
        self.assertEqual(self.ask("user=c", "none=x")[0], 429)
        await_that(lambda: self.server.metric("weir_serve_places") == 2, "the same")
        await_that(lambda: self.ask({"entries": [{"key": "user", "value": "c"}], "hitsAddend": 0})[1]["statuses"][0]["limitRemaining"] == 2,
                   "the store to know")

    def test_its_time_ends(self):
        self.begin("places: {for: 1s, most: 1}\n")
        self.assertEqual(self.ask("user=d")[0], 200)
        self.assertEqual(self.ask("user=e", "user=f")[0], 503)
        await_that(lambda: self.ask("user=e")[0] == 200, "the end of its time")

    def test_a_list_that_finds_no_room_leaves_none_taken(self):
        """Of its first places, nor in the place of those that it gives back."""
        self.LIMITS = self.LIMITS.replace("second", "minute")
        store = Store("memcached")
        self.addCleanup(store.end)
        self.begin("places: {most: 3}\n", stores=f'stores: {{main: {{url: "{store.url}?timeout=100ms"}}}}\n')
        many = [f"user={i}" for i in range(5)]
        self.assertEqual(self.ask("user=a")[0], 200)
        for _ in range(3):
            self.assertEqual(self.ask(*many)[0], 503)
        self.assertEqual([self.ask(f"user={i}")[0] for i in "bcd"], [200, 200, 503])
        back = {"entries": [{"key": "user", "value": "a"}], "hitsAddend": 1, "isNegativeHits": True}
        self.assertEqual(self.ask(back, *many)[0], 503)
        await_that(lambda: self.server.metric("weir_serve_places") == 2, "the place that went back")
        self.assertEqual([self.ask(f"user={i}")[0] for i in "ef"], [200, 503])

    def test_no_limits_of_requests(self):
        self.begin()
        own = {"entries": [{"key": "user", "value": "g"}], "limit": {"requestsPerUnit": 5, "unit": "MINUTE"}}
        self.assertIn("has the limits of its files alone", self.ask(own)[1]["detail"])

    def test_what_is_no_domain_of_places(self):
        for more, wanted in ((", count: all", "count: all is of windows and quotas, and not of in-flight"), (", calendar: true", "calendar: true")):
            files = {"a.yaml": self.LIMITS}
            server = self.start(files, ", domains: {busy: {algorithm: in-flight%s}}" % more, wait=False)
            self.assertEqual(server.process.wait(60), 2)
            self.assertIn(wanted, server.log())
            server.release()
        server = self.start({"a.yaml": self.LIMITS.replace("second", "day", 1)}, ", domains: {busy: {algorithm: in-flight}}", wait=False)
        self.assertEqual(server.process.wait(60), 2)
        self.assertIn("is not a duration from 1s to 1h", server.log())
        server.release()


if __name__ == "__main__":
    unittest.main()
