"""The Python package on every store: decisions, errors, batches, reservations, event loops, what is
counted, and structures that are as large as C says."""
import asyncio
import contextlib
import ctypes
import gc
import math
import multiprocessing
import os
import signal
import sys
import threading
import time
import traceback
import unittest
import unittest.mock

import weir
from weir import aio, limiter as module, native, web

STORES = [url for name, url in sorted(os.environ.items()) if name.startswith("WEIR_TEST_")] + ["memory:"]
SIZES = sys.argv.pop()


def with_option(url, option):
    return url + ("&" if "?" in url else "?") + option


def named(url, name):
    return with_option(url, f"namespace=python-{name}&timeout=30s")


class EveryStore(unittest.TestCase):
    def test_decisions(self):
        self.assertGreaterEqual(len(STORES), 6)
        for number, url in enumerate(STORES):
            with self.subTest(url), weir.Store(named(url, number)) as store:
                self.decide(weir.Limiter(store, "fixed-window:3/400d"))
                self.several(weir.Limiter(store, "quota:5/400d,name=ip"), weir.Limiter(store, "quota:2/400d,name=user"))

    def several(self, by_address, by_account):
        """All are charged, or none."""
        asked = [(by_address, "192.0.2.7"), (by_account, ("bob", 2))]
        told = weir.decide_all(asked)
        self.assertTrue(told and told.allowed)
        self.assertEqual((told.denied_by, told.retry_after, [each.remaining for each in told.decisions]), (None, 0.0, [4, 0]))
        for _ in range(3):
            told = weir.decide_all(iter(asked))
            self.assertFalse(told or told.allowed)
            self.assertEqual((told.denied_by, [each.allowed for each in told.decisions]), (1, [False, False]))
            self.assertEqual(told.retry_after, told.decisions[1].retry_after)
            self.assertGreater(told.retry_after, 0)
            self.assertEqual(told.decisions[0].retry_after, 0)
        self.assertEqual((by_address.peek("192.0.2.7").remaining, by_account.peek("bob").remaining), (4, 0))
        self.assertIsNone(weir.decide_all([(by_address, ("x", 6)), (by_account, "x")]).retry_after)
        self.assertTrue(weir.decide_all([(by_address, weir.Request("x", peek=True))]))
        taken = weir.decide_all([(by_address, ("y", 2)), (by_account, "y")]).decisions
        by_address.refund("y", taken[0])
        self.assertEqual((by_address.peek("y").remaining, by_account.peek("y").remaining), (5, 1))
        for wrong, status, text in (([], "BAD_ARGUMENT", "accepted are 1 to 16"), (asked[:1] * 17, "BAD_ARGUMENT", "17 requests"),
                                    (asked[:1] * 2, "BAD_ARGUMENT", "requests[1]: the limiter and key of requests[0]"),
                                    ([asked[0], (by_account, "")], "BAD_KEY", "requests[1]: the key is empty"),
                                    ([asked[0], (by_account, weir.Request("b", up_to=True))], "BAD_ARGUMENT", "flags")):
            with self.assertRaisesRegex(weir.Error, text.replace("[", r"\[")) as raised:
                weir.decide_all(wrong)
            self.assertEqual(raised.exception.status, status)
        self.assertRaises(TypeError, weir.decide_all, [("bob", "bob")])

    def decide(self, limiter):
        self.assertEqual(limiter.peek("a").remaining, 3)
        first = limiter.take("a", 2)
        self.assertEqual((first.allowed, first.remaining, first.cost, first.source), (True, 1, 2, "store"))
        self.assertFalse(limiter.take("a", 2))
        self.assertEqual(limiter.take_up_to("a", 3).cost, 1)
        denied = limiter.take(b"a")
        self.assertFalse(denied.allowed)
        self.assertGreater(denied.retry_after, 0)
        fields = limiter.http_fields("api", denied)
        self.assertEqual(fields["RateLimit-Policy"], '"api";q=3;w=34560000')
        self.assertEqual(set(fields), {"RateLimit-Policy", "RateLimit", "Retry-After"})
        self.assertIn("X-RateLimit-Limit", limiter.http_fields("api", denied, "x-ratelimit"))
        limiter.refund("a", first)
        self.assertEqual(first.cost, 0)
        self.assertTrue(limiter.take("a", 2))
        limiter.reset("a")
        self.assertEqual(limiter.take("a").remaining, 2)
        self.assertIsNone(limiter.take("a", 4).retry_after)
        self.batch(limiter)
        self.reserve(limiter)

    def batch(self, limiter):
        batch = limiter.decide([("b", 1), (b"\0\xff", 3), weir.Request("b", 3), ("", 1), ("b", 2), ("c", 0)])
        self.assertEqual([getattr(each, "allowed", None) for each in batch], [True, True, False, None, True, None])
        self.assertEqual([batch[3].status, batch[5].status], ["BAD_KEY", "BAD_COST"])
        self.assertIn("key is empty", str(batch[3]))
        self.assertIn("cost 0 is outside", str(batch[5]))  # the text of its own error, though it is the second

    def reserve(self, limiter):
        with limiter.reserve("r", 2) as kept:
            self.assertTrue(kept.decision.allowed)
        with self.assertRaises(KeyError), limiter.reserve("r") as gone:
            self.assertTrue(gone)
            raise KeyError("the work failed")
        self.assertEqual(limiter.peek("r").remaining, 1)
        with limiter.reserve("r", 2) as denied:
            self.assertFalse(denied)
        with self.assertRaises(weir.Error):
            gone.cancel()
        partly = limiter.reserve("s", 3)
        limiter.refund("s", partly.decision, 2)
        partly.cancel()
        self.assertEqual(limiter.peek("s").remaining, 3)
        self.settle(limiter)

    def settle(self, limiter):
        less, more = limiter.take("t", 2), limiter.take("u")
        limiter.settle("t", less, 1)
        limiter.settle("u", more, 9)
        self.assertEqual([(each.cost, each.source) for each in (less, more)], [(1, "settled"), (3, "settled")])
        self.assertEqual([limiter.peek(key).remaining for key in "tu"], [2, 0])
        for call in (lambda: limiter.settle("t", less, 1), lambda: limiter.refund("t", less)):
            with self.assertRaisesRegex(weir.Error, "settled"):
                call()
        with limiter.reserve("v", 3) as reserved:
            with self.assertRaises(weir.Error):
                reserved.settle(-1)
            with self.assertRaises(ValueError):
                reserved.settle([1, 1])
            self.assertEqual(reserved.settle(1), [1])
        with self.assertRaises(weir.Error):
            reserved.settle(1)
        self.assertEqual(limiter.peek("v").remaining, 2)


class Places(unittest.TestCase):
    """Places in flight: held, waited for, forgotten by forks, lost by the stopped, left by the killed."""

    RULE = "in-flight:2/3s"

    def url(self, name):
        return with_option(os.environ["WEIR_TEST_MEMCACHED_META"], f"namespace=python-places-{name}&timeout=300ms")

    def limiter(self, name, rule=RULE):
        store = weir.Store(self.url(name))
        self.addCleanup(store.close)
        store.connect(30)
        return weir.Limiter(store, rule, fallback="deny")  # a busy machine's store may be late: then try again

    def test_every_store(self):
        for number, url in enumerate(STORES):
            with self.subTest(url), weir.Store(named(url, f"places-{number}")) as store:
                self.enter(weir.Limiter(store, "in-flight:2/1h;quota:9/400d"), weir.Limiter(store, "quota:9/400d"))

    def enter(self, limiter, quota):
        with self.assertRaises(weir.Error):
            limiter.take("a")
        with limiter.hold("a") as first:
            second = limiter.hold("a", 1, wait=1)
            self.assertTrue(first and first.held() and second.held())
            self.assertGreater(second.token, first.token)
            self.assertGreater(first.held_until(), time.time() + 1)
            with self.assertRaises(weir.NoPlace) as none, limiter.hold("a"):
                self.fail("entered")
            self.assertEqual((none.exception.decision.allowed, none.exception.decision.limit), (False, 2))
            self.assertEqual(second.release(), "OK")
            self.assertEqual((second.held(), second.held_until(), second.token), (False, 0.0, 0))
            with self.assertRaises(weir.Error):
                second.release()
        self.assertFalse(first.held())
        with self.assertRaises(KeyError), limiter.hold("a", (2, 1)):
            raise KeyError("the work failed")
        limiter.hold("a", 2).release()
        self.assertEqual(quota.peek("a").remaining, 4)  # whatever became of the work
        with limiter.reserve("a") as reserved:
            self.assertTrue(reserved.held() and reserved.token)
        open_end = quota.reserve("b")
        self.assertEqual((open_end.held(), open_end.held_until(), open_end.token), (True, math.inf, 0))
        counts = limiter.counts()
        self.assertEqual((counts["places_held"], counts["places_entered"], counts["places_denied"]), (0, 5, 1))

    def test_waits(self):
        limiter = self.limiter("waits", "in-flight:1/3s")
        place = limiter.hold("a")
        with self.assertRaises(weir.NoPlace):
            limiter.hold("a", wait=0.05)
        for wait in (-1, "1", float("nan")):
            with self.assertRaises((TypeError, ValueError)):
                limiter.hold("a", wait=wait)
        with self.assertRaisesRegex(weir.Error, "accepted are 0 s to 60 s"):
            limiter.hold("a", wait=61)
        timer = threading.Timer(0.2, place.release)
        timer.start()
        with limiter.hold("a", wait=None) as other:
            self.assertTrue(other.held())
        timer.join()

    def child(self, work):
        """The process of a child whose work answers true where all went well."""
        pid = os.fork()
        if pid == 0:
            try:
                os._exit(0 if work() else 3)
            except BaseException:
                traceback.print_exc()
                os._exit(4)
        return pid

    def test_a_child_holds_nothing(self):
        limiter = self.limiter("fork")

        def work():
            try:
                place.release()
                return False
            except weir.Error:
                pass
            place.__exit__(None, None, None)
            with limiter.hold("a", wait=5) as own:  # the second of both
                return own.held() and not place.held() and (place.held_until(), place.token) == (0.0, 0)

        with limiter.hold("a") as place:
            self.assertEqual(os.waitpid(self.child(work), 0)[1], 0)
            context = multiprocessing.get_context("fork")
            with context.Pool(2) as pool:
                self.assertEqual(pool.map(held_by, [()] * 4), [False] * 4)
            self.assertTrue(place.held())
        limiter.hold("a", 2, wait=5).release()

    def test_who_is_stopped_has_lost_it(self):
        limiter = self.limiter("stopped", "in-flight:1/3s")
        read, write = os.pipe()

        def work():
            try:
                with limiter.hold("a") as place:
                    token = place.token
                    os.write(write, b".")
                    os.kill(os.getpid(), signal.SIGSTOP)
                    lost = not place.held() and place.held_until() == 0.0
                return False
            except weir.PlaceLost as error:
                told = error.status == "PLACE_LOST" and "others may have entered" in str(error)
            with limiter.hold("a", wait=20) as again:
                return lost and told and again.token > token

        pid = self.child(work)
        os.read(read, 1)
        self.assertTrue(os.WIFSTOPPED(os.waitpid(pid, os.WUNTRACED)[1]))
        with limiter.hold("a", wait=20) as other:  # as nobody pays for it
            os.kill(pid, signal.SIGCONT)
            time.sleep(0.1)
            self.assertTrue(other.held())
        self.assertEqual(os.waitpid(pid, 0)[1], 0)

    def test_what_was_lost_is_over(self):
        """Whatever ended it: the block has nothing to end any more, and no charge is said to stay."""
        now = [1_800_000_000.0]
        store = weir.Store("memory:")
        self.addCleanup(store.close)
        limiter = weir.Limiter(store, "in-flight:2/3s", clock=lambda: now[0])
        with unittest.mock.patch.object(module.log, "warning") as told:
            for enter in (limiter.hold, limiter.reserve):
                with self.subTest(enter.__name__):
                    with self.assertRaises(weir.PlaceLost), enter("a") as held:
                        now[0] += 60
                        held.settle(0)
                    with self.assertRaises(KeyError), enter("a") as held:
                        now[0] += 60
                        raise KeyError("the work failed")
                    with self.assertRaises(weir.PlaceLost), enter("a") as held:
                        now[0] += 60
                        with self.assertRaisesRegex(weir.Error, "accepted"):
                            held.settle(2)  # which no in-flight rule accepts
            told.assert_not_called()

    def test_who_is_killed_leaves_it(self):
        limiter = self.limiter("killed", "in-flight:1/3s")
        read, write = os.pipe()
        pid = self.child(lambda: [limiter.hold("a"), os.write(write, b"."), time.sleep(60)])
        os.read(read, 1)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        began = time.monotonic()
        limiter.hold("a", wait=20).release()
        self.assertLess(time.monotonic() - began, 1.25 * 3 + 1)

    def test_loops(self):
        async def work(limiter, under_way, most):
            async with limiter.hold("a", wait=30) as place:
                under_way.append(place)
                most.append(len(under_way))
                await asyncio.sleep(0.05)
                self.assertTrue(place.held() and place.token and place.held_until() > time.time())
                under_way.remove(place)

        async def ask():
            async with aio.Store(self.url("loops")) as store:
                await store.connect(30)
                limiter, most = aio.Limiter(store, self.RULE, fallback="deny"), []
                await asyncio.gather(*[work(limiter, under_way, most) for under_way in [[]] for _ in range(6)])
                self.assertEqual(max(most), 2)
                held = await limiter.hold("a", 2)
                with self.assertRaises(weir.NoPlace):
                    async with limiter.hold("a", wait=0.05):
                        self.fail("entered")
                waiting = asyncio.ensure_future(work(limiter, [], most))
                await asyncio.sleep(0.05)
                waiting.cancel()
                self.assertEqual(await held.release(), "OK")
                with self.assertRaises(asyncio.CancelledError):
                    await waiting
                inside = asyncio.ensure_future(self.stay(limiter))
                await asyncio.sleep(0.3)
                inside.cancel()
                with self.assertRaises(asyncio.CancelledError):
                    await inside
                async with limiter.hold("a", 2, wait=5) as all_of_them:
                    self.assertTrue(all_of_them)
        asyncio.run(ask())

    async def stay(self, limiter):
        async with limiter.hold("a", 2, wait=5):
            await asyncio.sleep(60)

    @contextlib.asynccontextmanager
    async def detour(self, name):
        """A store that answers by this loop: who has the loop wait for it, waits for ever. And what lets it answer."""
        opened = asyncio.Event()
        opened.set()
        host, port = self.url(name).partition("://")[2].partition("?")[0].split(":")

        async def carry(reader, writer):
            while data := await reader.read(1 << 16):
                await opened.wait()
                writer.write(data)
            writer.close()

        async def serve(reader, writer):
            there = await asyncio.open_connection(host, int(port))
            await asyncio.gather(carry(reader, there[1]), carry(there[0], writer))

        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            at = "%s:%d" % server.sockets[0].getsockname()
            async with aio.Store(f"memcached://{at}?timeout=5s&namespace=python-places-{name}") as store:
                await store.connect(30)
                yield store, opened

    def test_no_loop_waits(self):
        async def ask():
            async with self.detour("detour") as (store, _):
                limiter = aio.Limiter(store, "in-flight:2/1h;quota:9/400d,name=q", fallback="none")
                reserved = await limiter.reserve("a", 2)
                await reserved.commit()
                async with limiter.reserve("a", 2) as reserved:
                    self.assertTrue(reserved.held())
                async with limiter.hold("a", 2) as place:
                    self.assertTrue(place.held())
        asyncio.run(ask())

    def test_what_a_cancelled_task_reserved_goes_back(self):
        async def ask():
            async with self.detour("cancelled") as (store, opened):
                limiter, end = aio.Limiter(store, "fixed-window:9/400d", fallback="none"), time.monotonic() + 30
                opened.clear()
                asked = asyncio.ensure_future(self.open(limiter.reserve("a", 9)))
                await asyncio.sleep(0.05)
                asked.cancel()
                with self.assertRaises(asyncio.CancelledError):
                    await asked
                opened.set()
                while limiter.counts()["allowed"] == 0 and time.monotonic() < end:
                    await asyncio.sleep(0.01)
                while (left := (await limiter.peek("a")).remaining) < 9 and time.monotonic() < end:
                    await asyncio.sleep(0.01)
                self.assertEqual(left, 9)
        asyncio.run(ask())

    async def open(self, reservation):
        async with reservation:
            await asyncio.sleep(60)

    def test_what_is_reserved_as_a_loop_ends_goes_back(self):
        with weir.Store("memory:") as store:
            limiter, begun = weir.Limiter(store, "fixed-window:9/400d"), threading.Event()

            def reserve():
                begun.set()
                time.sleep(0.2)
                return limiter.reserve("a", 9)

            async def leave():
                task = asyncio.create_task(self.open(aio.Reservation(reserve)))
                while not begun.is_set():
                    await asyncio.sleep(0.01)
                self.assertFalse(task.done())
            asyncio.run(leave())
            self.assertEqual(limiter.counts()["allowed"], 1)
            self.assertEqual(limiter.peek("a").remaining, 9)


def held_by(_):
    """Whether a worker of multiprocessing holds what its parent did."""
    return any(place.held() for place in gc.get_objects() if isinstance(place, weir.Place))


class Middleware(unittest.TestCase):
    """The parts that it shares: a store is connected to before the first request of each process is decided."""

    SEEN = web.Seen(None, "GET", "192.0.2.1", None, "")

    def gate(self):
        gate = web.Gate(named(os.environ["WEIR_TEST_MEMCACHED_META"], "ahead"), "fixed-window:100/1h")
        self.addCleanup(gate.store.close)
        return gate

    def expect_ahead(self, ask):
        gate, connect, answered = self.gate(), weir.Store.connect, []

        def counting(store, timeout):
            connect(store, 30)
            answered.append((timeout, store.servers()[0].answered))

        with unittest.mock.patch.object(weir.Store, "connect", counting):
            for times in (1, 2):
                self.assertEqual(answered, [(0.25, True)] * (times - 1))
                for _ in range(2):
                    self.assertIsNone(ask(gate).refusal)
                self.assertEqual(answered, [(0.25, True)] * times)
                gate.store._forked()  # as in a child

    def test_it_connects_once_in_a_process(self):
        self.expect_ahead(lambda gate: gate.ask(self.SEEN))
        self.expect_ahead(lambda gate: asyncio.run(gate.ask_later(self.SEEN)))

    def test_a_store_that_is_away_is_left_to_the_policy(self):
        gate = web.Gate("memcached://127.0.0.1:1", "fixed-window:100/1h", fallback="deny")
        self.addCleanup(gate.store.close)
        self.assertEqual(gate.ask(self.SEEN).decision.source, "fallback")


class Arguments(unittest.TestCase):
    def setUp(self):
        self.store = weir.Store("memory:")
        self.addCleanup(self.store.close)

    def limiter(self, rule="fixed-window:100/400d", **options):
        return weir.Limiter(self.store, rule, **options)

    def test_keys(self):
        limiter = self.limiter()
        for key in ("3", b"3", bytearray(b"3"), memoryview(b"3"), 3):
            limiter.take(key)
        self.assertEqual(limiter.peek("3").remaining, 95)
        for key in (None, 3.0, True, ["3"], object()):
            with self.subTest(key), self.assertRaises(TypeError):
                limiter.take(key)

    def test_costs(self):
        limiter = self.limiter()
        for cost in (0, -1, 2**31 + 1, 2**63, 2**64 + 1, -2**70):
            with self.subTest(cost), self.assertRaises(weir.Error) as caught:
                limiter.take("a", cost)
            self.assertEqual((caught.exception.status, caught.exception.kind), ("BAD_COST", "caller"))
        for cost in (None, 1.0, "1", True, b"1"):
            with self.subTest(cost), self.assertRaises(TypeError):
                limiter.take("a", cost)

    def test_cost_of_each_rule(self):
        limiter = self.limiter("fixed-window:10/1h;quota:1000/1d")
        self.assertTrue(limiter.take("a", (1, 700)))
        self.assertFalse(limiter.take("a", [1, 700]))
        self.assertTrue(limiter.take("a", [1, 0]))
        with self.assertRaises(ValueError):
            limiter.take("a", (1,))
        self.assertEqual([each.algorithm for each in limiter.rules], ["fixed-window", "quota"])

    def test_options(self):
        for wrong in ({"fallbak": "deny"}, {"deadline_us": 5}):
            with self.subTest(wrong), self.assertRaises(TypeError):
                self.limiter(**wrong)
        for wrong in ({"fallback": "maybe"}, {"deadline": 0}, {"deadline": float("nan")}, {"processes": 0},
                      {"processes": 2**32}, {"deadline": 1e300}):
            with self.subTest(wrong), self.assertRaises(ValueError):
                self.limiter(**wrong)
        with self.assertRaises(weir.Error) as caught:
            self.limiter(deadline=61)
        self.assertIn("deadline", str(caught.exception))
        self.limiter(deadline=0.5, clock_error=0.01, processes=4, memo_keys=10, memo_age=1, local_denial=0.05,
                     least_ttl=60, longest_wait=1, peers=2, cached_cells=False, leases=False).take("a")

    def test_what_is_refused_says_so(self):
        for rules, url, status, text in [("slow:1/1s", "memory:", "BAD_RULE", "slow"),
                                         ("fixed-window:1/1s", "nowhere:", "BAD_URL", "nowhere")]:
            with self.assertRaises(weir.Error) as caught, weir.Store(url) as store:
                weir.Limiter(store, rules)
            self.assertEqual(caught.exception.status, status)
            self.assertIn(text, str(caught.exception))
        with self.assertRaises(ValueError):
            weir.Store("memory:\0")

    def test_warnings(self):
        first, second = self.limiter("fixed-window:5/1m"), self.limiter("fixed-window:50/1m")
        self.assertEqual((first.warnings, len(second.warnings)), ([], 1))

    def test_clock(self):
        now = [1_800_000_000.0]
        limiter = self.limiter("fixed-window:1/1m", clock=lambda: now[0])
        self.assertEqual([bool(limiter.take("a")) for _ in range(2)], [True, False])
        now[0] += 60
        self.assertTrue(limiter.take("a"))

    def test_waiting(self):
        limiter = self.limiter("leaky-bucket:50/1s,queue=9")
        began = time.monotonic()
        self.assertTrue(all(limiter.wait("a", longest_wait=30) for _ in range(4)))
        self.assertGreater(time.monotonic() - began, 0.055)
        with self.assertRaises(weir.Error):
            limiter.wait("a", longest_wait=61)

    def test_addresses(self):
        proxies = weir.Networks("10.0.0.0/8")
        self.assertEqual(weir.client_key("10.0.0.1", "192.0.2.7", proxies), "192.0.2.7")
        self.assertEqual(weir.client_key("192.0.2.9", "192.0.2.7", proxies), "192.0.2.9")
        self.assertEqual(weir.client_key("2001:db8::1"), "2001:db8::/64")
        self.assertIn("10.1.2.3", proxies)
        self.assertNotIn("nobody", proxies)
        for wrong in ("nobody", "10.0.0.0/8\0"):
            with self.assertRaises((weir.Error, ValueError)):
                weir.client_key(wrong)

    def test_what_is_counted(self):
        limiter = self.limiter("fixed-window:1/400d")
        watch = weir.Watch({"api": limiter}, quiet=0)
        limiter.take("a"), limiter.take("a")
        counts = limiter.counts()
        self.assertEqual((counts["allowed"], counts["denied"], counts["statuses"]["OK"]), (1, 1, 2))
        text = weir.metrics({"api": limiter, "main": self.store})
        self.assertIn('weir_decisions_total{limiter="api",result="denied"} 1', text)
        self.assertEqual(watch.look(), [])
        with weir.Store("memcached://127.0.0.1:1?timeout=1s") as away:
            lost = weir.Limiter(away, "fixed-window:1/1m", fallback="deny")
            watch = weir.Watch({"lost": lost, "away": away}, quiet=0)
            self.assertEqual(lost.take("a").source, "fallback")
            self.assertIn("server-lost", [each.kind for each in watch.look()])
            self.assertEqual(away.servers()[0].breaker, "open")
            with self.assertRaises(weir.Error):
                away.connect(0.05)


class Loops(unittest.TestCase):
    def test_batches(self):
        for url in (os.environ["WEIR_TEST_MEMCACHED_THREE"], os.environ["WEIR_TEST_REDIS"], "memory:"):
            with self.subTest(url):
                asyncio.run(self.batches(named(url, "aio")))

    async def batches(self, url):
        async with aio.Store(url) as store:
            await store.connect(30)
            limiter = aio.Limiter(store, "fixed-window:50/400d")
            decided = await asyncio.gather(*[limiter.take(f"key-{i % 10}") for i in range(2000)])
            self.assertEqual(sum(each.allowed for each in decided), 500)
            counts = limiter.counts()
            self.assertEqual((counts["allowed"], counts["denied"]), (500, 1500))
            self.assertLess(counts["round_trips"], 200)  # they went in batches
            other = aio.Limiter(store, "quota:3/400d;fixed-window:9/400d,name=other")
            decided = await asyncio.gather(limiter.take("b"), other.take("b", (3, 1)), other.take("b"))
            self.assertEqual([each.allowed for each in decided], [True, True, False])
            self.assertEqual((await limiter.peek("b")).remaining, 49)
            self.assertEqual((await limiter.take_up_to("b", 90)).cost, 49)
            await limiter.reset("b")
            taken = await limiter.take("b", 7)
            await limiter.settle("b", taken, 1)
            async with limiter.reserve("b", 11) as reserved:
                self.assertTrue(reserved)
                self.assertEqual(await reserved.settle(9), [9])
            with self.assertRaises(KeyError):
                async with limiter.reserve("b", 9):
                    raise KeyError
            self.assertEqual((await limiter.peek("b")).remaining, 40)
            self.assertEqual([getattr(each, "status", None) for each in await limiter.decide(["b", ("b", 1), ""])],
                             [None, None, "BAD_KEY"])
            both = [(limiter, ("all", 5)), (other.sync, "all")]  # all nine at once fit the first
            told = await asyncio.gather(*[aio.decide_all(both) for _ in range(9)])
            self.assertEqual(sum(each.allowed for each in told), 3)
            self.assertEqual({each.denied_by for each in told}, {None, 1})
            self.assertEqual((await limiter.peek("all")).remaining, 50 - 15)

    def test_one_bad_request_hurts_no_other(self):
        async def ask():
            async with aio.Store(named(os.environ["WEIR_TEST_REDIS"], "bad")) as store:
                limiter = aio.Limiter(store, "fixed-window:50/400d")
                wrong = [("k", 0), ("", 1), ("k", 2**70), (None, 1), ("k", None), ("k", 1.5)]
                asked = [limiter.take("good"), *[limiter.take(*each) for each in wrong], limiter.take("good")]
                answers = await asyncio.gather(*asked, return_exceptions=True)
                self.assertTrue(answers[0] and answers[-1])
                self.assertTrue(all(isinstance(each, Exception) for each in answers[1:-1]), answers)
                self.assertTrue(await limiter.take("later"))
        asyncio.run(ask())

    def test_many_loops(self):
        """asyncio.run() twice, the first with a request under way, and in threads at once."""
        with weir.Store(named(os.environ["WEIR_TEST_MEMCACHED_META"], "loops")) as store:
            limiter = aio.Limiter(store, "fixed-window:1000/400d")

            async def leave():
                asyncio.ensure_future(limiter.take("left"))
                await asyncio.sleep(0)

            async def ask():
                decided = await asyncio.gather(*[limiter.take("a") for _ in range(50)])
                return sum(each.allowed for each in decided)

            asyncio.run(leave())
            self.assertEqual(asyncio.run(ask()), 50)
            asyncio.run(leave())
            allowed = []
            threads = [threading.Thread(target=lambda: allowed.append(asyncio.run(ask()))) for _ in range(4)]
            for each in threads:
                each.start()
            for each in threads:
                each.join()
            self.assertEqual(allowed, [50] * 4)

    def test_cancelled(self):
        async def ask():
            async with aio.Store("memory:") as store:
                limiter = aio.Limiter(store, "fixed-window:9/400d")
                task = asyncio.ensure_future(limiter.take("a"))
                await asyncio.sleep(0)
                task.cancel()
                with self.assertRaises(asyncio.CancelledError):
                    await task
                self.assertEqual((await limiter.take("a")).remaining, 8)
        asyncio.run(ask())

    def test_wait(self):
        async def ask():
            async with aio.Store("memory:") as store:
                limiter = aio.Limiter(store, "leaky-bucket:50/1s,queue=9")
                began = time.monotonic()
                self.assertTrue(all(await asyncio.gather(*[limiter.wait("a", longest_wait=30) for _ in range(4)])))
                self.assertGreater(time.monotonic() - began, 0.055)
                window = aio.Limiter(store, "fixed-window:1/100ms")
                self.assertTrue(all([await window.wait("a", longest_wait=30) for _ in range(3)]))
                never = aio.Limiter(store, "fixed-window:1/400d")
                await never.take("a")
                self.assertFalse(await never.wait("a", longest_wait=1))
        asyncio.run(ask())


class Sizes(unittest.TestCase):
    def test_structures(self):
        """"weir_decision 88" and "weir_decision.cost 64" of the compiler, for every structure."""
        with open(SIZES, encoding="ascii") as lines:
            rows = [line.split() for line in lines]
        self.assertGreater(len(rows), 50)
        for name, number in rows:
            kind, _, member = name.partition(".")
            kind = getattr(native, kind)
            self.assertEqual(getattr(kind, member).offset if member else ctypes.sizeof(kind), int(number), name)
        self.assertEqual(module.INPUT.size, native.weir_request.flags.offset + 4)
        self.assertEqual(native.weir_request.decision.offset + module.DECISION_SIZE, module.SIZE)


if __name__ == "__main__":
    gc.set_threshold(100)
    unittest.main()
