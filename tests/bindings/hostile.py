"""A program's mistakes, from Python: arguments of every kind, use after close, close while takes
are under way, forks and kills. Each is an answer or an exception, and never a crash or a hang."""
import asyncio
import contextlib
import faulthandler
import gc
import os
import random
import signal
import sys
import threading
import time
import traceback
import unittest

import weir
from weir import aio
from weir.limiter import LimiterHandle
from weir.store import StoreHandle

CALLS = 10_000
VALUES = [None, True, False, 0, 1, -1, 3, 2**31, 2**31 + 1, 2**32, 2**63 - 1, 2**63, 2**64 + 1, -2**63, 10**40, 0.0, 1.5,
          float("nan"), float("inf"), "", "a", "a" * 300, "\0", "a\0b", "\ud800", "ключ", b"", b"a", b"\0\xff",
          bytearray(b"b"), memoryview(b"c"), memoryview(bytearray(8)).cast("I"), (), (1,), (1, 2), [0], [2**70], [None],
          {}, {"a": 1}, set(), object(), int, len, "100/1m", "fixed-window:5/1m", "memory:", "local", "draft-10",
          weir.Request("a"), weir.Request(None), 1j, "\n", " ", "10.0.0.1", "::1", "fd00::/8"]
OPTIONS = ["fallback", "deadline", "clock_error", "processes", "memo_keys", "memo_age", "local_denial", "least_ttl",
           "longest_wait", "peers", "cached_cells", "local_denials", "combining", "leases", "clock", "dealine", ""]
# The allocator of clang's address sanitizer has no care for forks: a lock that a thread of the parent has
# at that moment is never let go in the child, which then hangs at its next malloc. So no thread has one.
SANITIZED = "asan" in os.environ.get("LD_PRELOAD", "")
REFUSED = (weir.Error, weir.NoPlace, TypeError, ValueError, OverflowError)


def store_url(name, options):
    url = os.environ[f"WEIR_TEST_{name}"]
    return url + ("&" if "?" in url else "?") + options


class Hostile(unittest.TestCase):
    def setUp(self):
        faulthandler.dump_traceback_later(120, exit=True)  # a hang is told
        self.addCleanup(faulthandler.cancel_dump_traceback_later)

    def test_arguments(self):
        seed = int(os.environ.get("WEIR_SEED", time.time_ns()))
        print(f"WEIR_SEED={seed}", file=sys.stderr)
        chance = random.Random(seed)
        store = weir.Store("memory:")
        limiter = weir.Limiter(store, "fixed-window:1000000/1h", longest_wait=0.001)
        held = weir.Limiter(store, "in-flight:1000000/1h", longest_wait=0.001)
        decision = limiter.take("a")

        def any_value():
            return chance.choice([*VALUES, store, limiter, decision])

        def values(most):
            return [any_value() for _ in range(chance.randint(0, most))]

        calls = [limiter.take, limiter.take_up_to, limiter.peek, limiter.wait, limiter.reserve, limiter.refund,
                 limiter.hold, held.hold,
                 limiter.reset, limiter.decide, limiter.http_fields, weir.client_key, weir.Networks, weir.metrics,
                 weir.Watch, weir.Store, weir.decide_together, weir.decide_all, limiter.take, limiter.take,
                 lambda *given: limiter.decide([given, *given]), lambda *given: weir.decide_together([(limiter, given)]),
                 lambda *given: weir.decide_all([(limiter, "a"), (limiter, given)]),
                 lambda *given: weir.Limiter(store, "quota:1/1m", **{chance.choice(OPTIONS): any_value()}),
                 lambda *given: weir.Limiter(*given), lambda *given: limiter.refund("a", decision, *given),
                 lambda *given: weir.Watch({"a": limiter}, *given)]
        refused = answered = 0
        for _ in range(CALLS):
            try:
                chance.choice(calls)(*values(3))
                answered += 1
            except REFUSED:
                refused += 1
        self.assertGreater(refused, CALLS / 3)
        self.assertGreater(answered, CALLS / 50)
        self.assertTrue(limiter.take("still there"))

    def test_arguments_of_loops(self):
        async def ask():
            chance = random.Random(7)
            limiter = aio.Limiter(aio.Store("memory:"), "fixed-window:1000000/1h")
            for _ in range(CALLS // 100):
                asked = [chance.choice([limiter.take, limiter.peek, limiter.take_up_to])(
                    *[chance.choice(VALUES) for _ in range(2)]) for _ in range(100)]
                answers = await asyncio.gather(*asked, return_exceptions=True)
                for each in answers:
                    self.assertIsInstance(each, (weir.Decision, *REFUSED))
            self.assertTrue(await limiter.take("still there"))
        asyncio.run(ask())

    def test_after_close(self):
        store = weir.Store("memory:")
        limiter, other = weir.Limiter(store, "quota:9/1h"), weir.Limiter(store, "quota:9/1d")
        decision, reserved = limiter.take("a"), limiter.reserve("a")
        watch = weir.Watch({"api": limiter})
        limiter.close(), limiter.close()
        for call in (lambda: limiter.take("a"), lambda: limiter.peek("a"), lambda: limiter.wait("a"),
                     lambda: limiter.reserve("a"), lambda: limiter.hold("a"), lambda: limiter.refund("a", decision), lambda: limiter.reset("a"),
                     lambda: limiter.decide(["a"]), limiter.counts, lambda: limiter.warnings, lambda: limiter.rules,
                     lambda: limiter.http_fields("api", decision), limiter.return_leases,
                     lambda: weir.metrics({"api": limiter})):
            with self.assertRaises(weir.ClosedError):
                call()
        reserved.cancel()  # of what lives as long as it
        watch.look()
        self.assertTrue(other.take("a"))
        store.close(), store.close()
        for call in (lambda: other.take("a"), lambda: weir.Limiter(store, "quota:9/1h"), store.servers, store.connect):
            with self.assertRaises(weir.ClosedError):
                call()

        async def ask():
            with self.assertRaises(weir.ClosedError):
                await closed.take("a")
        closed = aio.Limiter(weir.Store("memory:"), "quota:9/1h")
        closed.close()
        asyncio.run(ask())

    def test_collected_in_any_order(self):
        """A limiter goes before its store, also where both are found in one cycle."""
        freed = []

        def telling(kind):
            free = kind.free

            def told(handle):
                freed.append(kind)
                free(handle)
            self.addCleanup(setattr, kind, "free", free)
            kind.free = told
        telling(StoreHandle)
        telling(LimiterHandle)
        for _ in range(50):
            gc.collect()
            freed.clear()
            store = weir.Store("memory:")
            store.cycle = [store, weir.Limiter(store, "quota:9/1h")]
            store.handles = [store._handle, store.cycle[1]._handle, store]
            store.cycle[1].take("a")
            del store
            gc.collect()
            self.assertEqual(freed, [LimiterHandle, StoreHandle])

    def test_close_while_takes_are_under_way(self):
        for url in ("memory:", store_url("REDIS", "namespace=close"), store_url("MEMCACHED_META", "namespace=close")):
            store = weir.Store(url)
            limiter, ends = weir.Limiter(store, "quota:1000000/1h"), []

            def take(limiter=limiter, ends=ends):
                try:
                    while True:
                        limiter.take("a")
                except weir.ClosedError:
                    ends.append(True)

            threads = [threading.Thread(target=take) for _ in range(8)]
            for each in threads:
                each.start()
            time.sleep(0.1)
            (limiter if url == "memory:" else store).close()
            for each in threads:
                each.join(60)
            self.assertEqual(ends, [True] * 8)

    def test_close_of_loops(self):
        async def ask():
            store = aio.Store(store_url("REDIS", "namespace=closing"))
            limiter = aio.Limiter(store, "quota:1000000/1h")
            asked = [asyncio.ensure_future(limiter.take("a")) for _ in range(5000)]
            await asyncio.sleep(0)
            store.close()
            for each in await asyncio.wait_for(asyncio.gather(*asked, return_exceptions=True), 60):
                self.assertIsInstance(each, (weir.Decision, weir.ClosedError))
        asyncio.run(ask())

    def test_forks(self):
        """A child opens its parent's stores anew, whatever the parent's threads and loops were at."""
        still = threading.Lock() if SANITIZED else contextlib.nullcontext()
        store = weir.Store(store_url("MEMCACHED_META", "namespace=forks&timeout=30s"))
        plenty = "quota:1000000000/1h"  # a million are gone in half a minute, and forks may take as long
        limiter, looping = weir.Limiter(store, plenty), aio.Limiter(store, plenty)
        over, reserved = threading.Event(), limiter.reserve("a")
        place = weir.Limiter(store, "in-flight:1/1h").hold("a")  # and a thread that pays for it

        def take():
            while not over.is_set():
                with still:
                    limiter.take("a")

        async def ask(count):
            return all(await asyncio.gather(*[looping.take("b") for _ in range(count)]))

        def use():
            self.assertTrue(limiter.take("a"))
            self.assertTrue(asyncio.run(ask(50)))
            self.assertTrue(all(each.allowed for each in limiter.decide(["a", "b"])))
            for end in (reserved.cancel, place.release):
                with self.assertRaises(weir.Error):  # it is its parent's
                    end()
            self.assertFalse(place.held())
            store.close()

        def child():
            try:
                use()
                os._exit(0)
            except BaseException:
                traceback.print_exc()
                print("counts", limiter.counts(), looping.counts(), file=sys.stderr, flush=True)
            finally:
                os._exit(3)

        threads = [threading.Thread(target=take) for _ in range(4)]
        for each in threads:
            each.start()
            self.addCleanup(each.join)
        self.addCleanup(over.set)
        self.assertTrue(asyncio.run(ask(50)))
        for _ in range(20):
            with still:
                pid = os.fork()
                if pid == 0:
                    child()
            self.assertEqual(os.waitpid(pid, 0)[1], 0)
        over.set()
        self.assertTrue(limiter.take("a"))
        reserved.cancel()
        self.assertTrue(place.held())
        self.assertEqual(place.release(), "OK")

    def test_a_worker_that_is_killed(self):
        """Its charge stays; nothing else of it does."""
        store = weir.Store(store_url("REDIS", "namespace=killed&timeout=30s"))
        limiter = weir.Limiter(store, "quota:1000000/1h")
        limiter.take("a")
        read, write = os.pipe()
        pid = os.fork()
        if pid == 0:
            while True:
                limiter.take("a")
                os.write(write, b".")
        os.read(read, 100)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        self.assertLess(limiter.take("a").remaining, 999_999)

    def test_exit_while_a_thread_takes(self):
        """The interpreter ends, whatever a thread or a store is at."""
        program = ("import threading, weir\n"
                   "from weir import aio\n"
                   "store = weir.Store(%r)\n"
                   "limiter = weir.Limiter(store, 'quota:1000000/1h')\n"
                   "def take():\n"
                   "    while True: limiter.take('a')\n"
                   "for _ in range(4): threading.Thread(target=take, daemon=True).start()\n"
                   "import asyncio\n"
                   "asyncio.run(aio.Limiter(store, 'quota:1000000/1h').take('a'))\n")
        for url in ("memory:", store_url("REDIS", "namespace=ends&timeout=30s")):
            self.assertEqual(os.spawnv(os.P_WAIT, sys.executable, [sys.executable, "-B", "-c", program % url]), 0)


if __name__ == "__main__":
    unittest.main()
