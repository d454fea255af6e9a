"""What requests say of themselves in the Python package, on every store: classes, limits, tenants; and limits of
keys, set at run time. Bad input, threads, loops, settlements, places, memory, and middleware."""
import asyncio
import functools
import gc
import math
import os
import pickle
import resource
import sys
import threading
import time
import unittest

import flask
from django.conf import settings

settings.configure(WEIR={"rule": "10/1h"})

import weir  # noqa: E402
import weir.asgi  # noqa: E402
import weir.django  # noqa: E402
import weir.flask  # noqa: E402
import weir.starlette  # noqa: E402
import weir.wsgi  # noqa: E402
from django.http import HttpResponse  # noqa: E402
from django.test import RequestFactory  # noqa: E402
from fastapi import FastAPI  # noqa: E402
from starlette.responses import PlainTextResponse  # noqa: E402
from starlette.testclient import TestClient  # noqa: E402
from weir import aio, web  # noqa: E402
from werkzeug.test import Client  # noqa: E402

STORES = [url for name, url in sorted(os.environ.items()) if name.startswith("WEIR_TEST_")] + ["memory:"]
CLASSES = "classes=batch:60%|free:80%"
TIMES = int(sys.argv.pop()) if sys.argv[-1].isdigit() else 20_000  # more of them: a hunt for what is kept
REDIS = os.environ["WEIR_TEST_REDIS"]


def named(url, name):
    return f"{url}{'&' if '?' in url else '?'}namespace=claims-{name}&timeout=30s"


def raised(kind, text, call, *args, **given):
    try:
        answer = call(*args, **given)
    except kind as error:
        assert type(error) is kind and text in str(error), (type(error), str(error))
        return error
    raise AssertionError(f"answered {answer}: {text}")


class EveryStore(unittest.TestCase):
    def on_every_store(self, name, work):
        self.assertGreaterEqual(len(STORES), 6)
        for number, url in enumerate(STORES):
            with self.subTest(url), weir.Store(named(url, f"{name}-{number}")) as store:
                work(store)

    def test_classes(self):
        def work(store):
            limiter = weir.Limiter(store, f"fixed-window:10/400d,debt=5,{CLASSES}")
            taken = limiter.take("a", 6, class_="batch")
            self.assertEqual((taken.allowed, taken.limit, taken.remaining), (True, 6, 0))
            self.assertFalse(limiter.take("a", class_="batch"))
            self.assertFalse(limiter.peek("a", class_="batch"))
            self.assertEqual(limiter.take_up_to("a", 9, class_="free").cost, 2)
            self.assertEqual(limiter.wait("a", 2).cost, 2)  # kept for who says nothing
            self.assertFalse(limiter.take("a"))
            limiter.refund("a", taken, 1)
            limiter.settle("a", taken, 1)
            self.assertEqual((taken.cost, taken.source, limiter.peek("a").remaining), (1, "settled", 5))
            with limiter.reserve("b", 6, class_="batch") as reserved:
                self.assertTrue(reserved)
                self.assertFalse(limiter.reserve("b", class_="batch"))
                self.assertEqual(reserved.settle(99), [11])  # its part and the debt
            several = [(limiter, weir.Request("c", 6, class_="batch")), (limiter, weir.Request("d", 7, class_="batch"))]
            self.assertEqual(weir.decide_all(several).denied_by, 1)
            self.assertEqual(limiter.peek("c").remaining, 10)
        self.on_every_store("classes", work)

    def test_settles_as_it_was_taken(self):
        """An overrun of a class is charged up to its part and the debt, also where another process settles."""
        def work(store):
            limiter = weir.Limiter(store, f"fixed-window:10/400d,debt=5,{CLASSES}")
            taken = pickle.loads(pickle.dumps(limiter.take("a", 2, class_="batch")))
            plain = limiter.take("b", 2)
            limiter.settle("a", taken, 99)
            limiter.settle("b", plain, 99)
            self.assertEqual((taken.cost, plain.cost), (11, 15))
            raised(weir.Error, "settled before", limiter.settle, "a", taken, 1)
        self.on_every_store("settle", work)

    def test_batches(self):
        def work(store):
            limiter = weir.Limiter(store, f"fixed-window:10/400d,most=50,{CLASSES}")
            other = weir.Limiter(store, "quota:3/400d")
            asked = [(limiter, weir.Request("a", 6, class_="batch")), (other, "a"), (limiter, weir.Request("a", class_="batch")),
                     (limiter, weir.Request("a", class_="no")), (limiter, weir.Request("a", tenant="x")), (limiter, "a"),
                     (limiter, weir.Request("a", 40, limit=50)), (other, weir.Request("a", class_="batch"))]
            told = weir.decide_together(asked)
            self.assertEqual([getattr(each, "allowed", None) for each in told], [True, True, False, None, None, True, True, None])
            for index, text in ((3, 'the class "no" is none'), (4, "no tenants"), (7, "has no classes")):
                self.assertIn(text, str(told[index]))  # each its own, though a batch has one message
            self.assertEqual(limiter.peek("a", limit=50).remaining, 3)  # nothing was charged for what is wrong
        self.on_every_store("batches", work)

    def test_limits(self):
        def work(store):
            limiter = weir.Limiter(store, "sliding-window:2/400d,most=2000")
            self.assertEqual([limiter.take("a", 2).remaining, limiter.take("a", 8, limit=10).remaining], [0, 0])
            self.assertFalse(limiter.take("a", limit=10))
            self.assertTrue(limiter.take("a", 1990, limit=2000))
            bucket = weir.Limiter(store, "token-bucket:2/400d,most=2000")
            taken = bucket.take("a", 2000, limit=2000)
            bucket.settle("a", taken, 0)
            self.assertTrue(bucket.take("a", 2000, limit=2000))
        self.on_every_store("limits", work)

    def test_limits_of_keys(self):
        def work(store):
            rule = "fixed-window:10/400d,most=100,tiers=gold:50|silver:20"
            limiter, other = [weir.Limiter(store, rule, limits_every=0.01) for _ in range(2)]
            self.assertIsNone(limiter.get_limit("a"))
            limiter.set_limit("a", 3)
            other.set_limits({"b": "blocked", 7: 70, "free": "unlimited"}, ttl=3600)
            other.set_limits({b"\0c": 100})
            other.set_limits({})
            time.sleep(0.02)
            for each in (limiter, other):
                self.assertEqual([each.get_limit(key) for key in ("a", "b", "7", b"\0c", "d")], [3, "blocked", 70, 100, None])
                self.assertEqual([each.peek(key).limit for key in ("a", "b", "7", b"\0c", "d")], [3, 0, 70, 100, 10])
            self.assertFalse(limiter.take("b"))
            other.set_limits({"c": "gold", "d2": "silver"})
            self.assertEqual((limiter.get_limit("c"), limiter.peek("c").limit, limiter.peek("d2").limit), ("gold", 50, 20))
            free = limiter.take("free", 90)
            self.assertEqual((free.source, free.limit, free.remaining, other.get_limit("free")), ("unlimited", 100, 100, "unlimited"))
            other.unset_limit("free")
            other.unset_limit("b")
            other.set_limit("a", "none")
            time.sleep(0.02)
            self.assertEqual((limiter.get_limit("a"), limiter.peek("b").limit), ("none", 10))
            limiter.settle("free", free, 3)
            self.assertEqual(limiter.peek("free").remaining, 10)  # nothing was charged, and nothing goes back
            strict = weir.Limiter(store, rule, limits_every=0.01, absent="deny")
            self.assertEqual([strict.peek(key).allowed for key in ("a", "d")], [True, False])
        self.on_every_store("keys", work)

    def test_many_limits(self):
        def work(store):
            limiter = weir.Limiter(store, "fixed-window:10/400d,most=100")
            limiter.set_limits({number: 1 + number % 100 for number in range(2500)})
            self.assertEqual([limiter.get_limit(number) for number in (0, 511, 512, 2499)], [1, 12, 13, 100])
        self.on_every_store("many", work)

    def test_tenants(self):
        def work(store):
            limiter = weir.Limiter(store, "shared-window:60000/1h,weights=north:5|south:3")
            for tenant in ("north", b"south", "who is not named", 7):
                self.assertTrue(limiter.take("pool", tenant=tenant))
            for given in ({}, {"tenant": ""}, {"tenant": b""}):
                raised(weir.Error, "names no tenant", limiter.take, "pool", **given)
        self.on_every_store("tenants", work)

    def test_places(self):
        def work(store):
            limiter = weir.Limiter(store, "in-flight:4/1h,classes=batch:50%")
            first = limiter.hold("a", 2, class_="batch")
            with self.assertRaises(weir.NoPlace) as none:
                limiter.hold("a", wait=0.1, class_="batch")
            self.assertEqual(none.exception.decision.limit, 2)
            raised(weir.NoPlace, "no place", limiter.hold, "a", 3, wait=60, class_="batch")  # at once: it never fits
            with limiter.hold("a", 2) as place:
                self.assertTrue(place.held())
            timer = threading.Timer(0.1, first.release)
            timer.start()
            with limiter.hold("a", 2, class_="batch", wait=30) as place:
                self.assertTrue(place.held())
            timer.join()
        self.on_every_store("places", work)


class BadInput(unittest.TestCase):
    def setUp(self):
        self.store = weir.Store(named(REDIS, "bad"))
        self.addCleanup(self.store.close)
        self.limiter = weir.Limiter(self.store, f"fixed-window:10/400d,most=100,{CLASSES}", limits_every=1)

    def test_each_verb(self):
        wrong = [({"class_": "x"}, weir.Error, 'the class "x" is none of this limiter: accepted are batch and free'),
                 ({"class_": ""}, weir.Error, 'the class ""'), ({"class_": 3}, TypeError, "a class is str, not int"),
                 ({"class_": b"batch"}, TypeError, "a class is str, not bytes"), ({"class_": "a\0b"}, ValueError, "a class has a NUL"),
                 ({"class_": "\ud800"}, ValueError, "a class has half of a surrogate pair"),
                 ({"tenant": ""}, weir.Error, "no tenants"), ({"tenant": "\udfff"}, ValueError, "a tenant has half"),
                 ({"tenant": 1.5}, TypeError, "a tenant is str, bytes or int, not float"),
                 ({"limit": 0}, weir.Error, "a limit of 0"), ({"limit": -1}, weir.Error, "a limit of -1"),
                 ({"limit": 101}, weir.Error, "accepted are 1 to 100"), ({"limit": 2**63}, weir.Error, "9223372036854775808"),
                 ({"limit": 1.5}, TypeError, "not float"), ({"limit": math.nan}, TypeError, "not float"),
                 ({"limit": True}, TypeError, "not bool"), ({"limit": "5"}, TypeError, "not str")]
        for given, kind, text in wrong:
            for verb in (self.limiter.take, self.limiter.take_up_to, self.limiter.peek, self.limiter.wait, self.limiter.reserve):
                with self.subTest(given, verb=verb.__name__):
                    raised(kind, text, verb, "a", 1, **given)
        for given, kind, text in wrong:
            with self.subTest(given, verb="aio"):
                raised(kind, text, asyncio.run, self.later(given))
        self.assertEqual(self.limiter.peek("a").remaining, 10)
        plain = weir.Limiter(self.store, "quota:3/1h")
        raised(weir.Error, "has no classes", plain.take, "a", class_="batch")
        raised(weir.Error, "most= in one of its rules", plain.take, "a", limit=3)
        raised(weir.Error, "most= in one of its rules", plain.set_limit, "a", 3)

    async def later(self, given):
        return await aio.Limiter.of(self.limiter).take("a", **given)

    def test_surrogates(self):
        for call in (self.limiter.take, self.limiter.peek, self.limiter.wait, self.limiter.reserve, self.limiter.reset,
                     self.limiter.get_limit, lambda key: self.limiter.decide(["a", key]), lambda key: self.limiter.set_limit(key, 1)):
            raised(ValueError, "a key has half of a surrogate pair", call, "a\ud800")
        raised(ValueError, "a rule has half of a surrogate pair", weir.Limiter, self.store, "quota:3/1h,name=\ud800")

    def test_limits_of_keys(self):
        for wrong, kind, text in ((0, weir.Error, 'say "blocked"'), (-1, weir.Error, "a limit of -1"), (101, weir.Error, "1 to 100"),
                                  (2**63, weir.Error, "a limit of"), (1.5, TypeError, "not float"), (math.nan, TypeError, "not float"),
                                  (True, TypeError, "not bool"), (None, TypeError, "NoneType"), ("Blocked", ValueError, '"blocked", "unlimited" or "none", or a tier of the rule')):
            with self.subTest(wrong):
                raised(kind, text, self.limiter.set_limit, "a", wrong)
                raised(kind, text, self.limiter.set_limits, {"good": 1, "a": wrong})
        raised(weir.Error, "the limit of '': the key is empty", self.limiter.set_limits, {"good": 1, "": 1})
        raised(TypeError, "limits are a dictionary", self.limiter.set_limits, [("good", 1)])
        self.assertIsNone(self.limiter.get_limit("good"))  # nothing is set where one is wrong
        for ttl, kind in ((0, ValueError), (0.5, ValueError), (401 * 86400, ValueError), (math.inf, ValueError), ("1h", TypeError)):
            raised(kind, "ttl is", self.limiter.set_limit, "a", 1, ttl=ttl)
        for given, kind, text in (({"absent": "deny"}, ValueError, "accepted with limits_every="), ({"absent": "no"}, ValueError, "rule, deny"),
                                  ({"limits_every": 0}, ValueError, "0.001 s to 60 s"), ({"limits_every": 61}, ValueError, "0.001 s to 60 s"),
                                  ({"limits_every": True}, TypeError, "not bool")):
            raised(kind, text, weir.Limiter, self.store, "quota:3/1h,most=9", **given)
        raised(weir.Error, "most=", weir.Limiter, self.store, "quota:3/1h", limits_every=1)


class Together(unittest.TestCase):
    """The low class at any rate never takes what is kept, and no class more than its part."""

    RULE = f"fixed-window:500/400d,{CLASSES}"

    def expect(self, limiter, admitted):
        self.assertEqual(admitted["batch"] + admitted["free"] + admitted[None], 500)
        self.assertLessEqual(admitted["batch"], 300)
        self.assertLessEqual(admitted["batch"] + admitted["free"], 400)
        self.assertEqual(limiter.peek("a").remaining, 0)

    def test_threads(self):
        store = weir.Store(named(os.environ["WEIR_TEST_MEMCACHED_META"], "threads"))
        self.addCleanup(store.close)
        limiter, admitted, lock = weir.Limiter(store, self.RULE, deadline=30), {None: 0, "batch": 0, "free": 0}, threading.Lock()

        def ask(class_, times):
            mine = sum(limiter.take("a", class_=class_).allowed for _ in range(times))
            with lock:
                admitted[class_] += mine
        threads = [threading.Thread(target=ask, args=(each, 300)) for each in ("batch", "free", "batch", "free")]
        for work in ("start", "join"):
            for each in threads:
                getattr(each, work)()
        self.assertEqual(admitted["batch"] + admitted["free"], 400)
        ask(None, 150)
        self.expect(limiter, admitted)

    def test_loops(self):
        async def ask():
            async with aio.Store(named(REDIS, "loops")) as store:
                limiter = aio.Limiter(store, self.RULE, deadline=30)
                classes = ["batch", "free", None] * 400
                told = await asyncio.gather(*[limiter.take("a", class_=each) for each in classes])
                admitted = {each: sum(answer.allowed for answer, class_ in zip(told, classes) if class_ == each) for each in set(classes)}
                self.expect(limiter.sync, admitted)
                await limiter.reset("a")
                async with limiter.reserve("a", 300, class_="batch") as reserved:
                    self.assertTrue(reserved)
                    self.assertFalse(await limiter.peek("a", class_="batch"))
                    self.assertEqual((await limiter.take_up_to("a", 500, class_="free")).cost, 100)
                    self.assertTrue(await limiter.wait("a", 100))
                joint = await weir.aio.decide_all([(limiter, weir.Request("b", 301, class_="batch"))])
                self.assertFalse(joint)

        async def limits():
            async with aio.Store(named(REDIS, "loops-limits")) as store:
                limiter = aio.Limiter(store, "fixed-window:10/400d,most=100", limits_every=0.01)
                await limiter.set_limit("a", 3)
                await limiter.set_limits({"b": "blocked", "c": 4})
                await limiter.unset_limit("c")
                self.assertEqual([await limiter.get_limit(key) for key in "abcd"], [3, "blocked", "none", None])
                self.assertEqual((await limiter.take("a")).limit, 3)
                self.assertEqual((await limiter.take("a", 40, limit=50)).limit, 50)
        asyncio.run(ask())
        asyncio.run(limits())

    def test_memory(self):
        """Nothing stays of requests that say all that can be said."""
        store = weir.Store("memory:")
        limiter = weir.Limiter(store, f"fixed-window:1000000000/400d,most=1000000000,{CLASSES}")

        def ask(times):
            for number in range(times):
                limiter.take("a", class_="batch", limit=1000000000)
                if number % 100 == 0:
                    raised(weir.Error, "none of this limiter", limiter.take, "a", class_="x" * 5000)
                    limiter.settle("a", limiter.take("a", 2, class_="free"), 1)
        ask(5000)
        gc.collect()
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        ask(TIMES)
        self.assertLess(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, 2048)


class Middleware(unittest.TestCase):
    """A function of the request beside key=, in each framework; and what a client may say by it."""

    RULE = f"fixed-window:10/400d,most=100,{CLASSES}"

    def store(self, name):
        store = weir.Store(named(os.environ["WEIR_TEST_MEMCACHED_META"], f"{name}-{os.getpid()}"))
        self.addCleanup(store.close)
        return store

    @staticmethod
    def claims(header):
        """The options that a user writes, where header() reads a field of the request."""
        return {"key": lambda request: header(request, "x-user"), "class_": lambda request: header(request, "x-class"),
                "limit": lambda request: int(header(request, "x-limit")) if header(request, "x-limit") else None}

    def expect(self, get):
        """get(headers): the status and the text of an answer."""
        for _ in range(6):
            self.assertEqual(get({"x-user": "a", "x-class": "batch"})[0], 200)
        self.assertEqual(get({"x-user": "a", "x-class": "batch"})[0], 429)
        self.assertEqual(get({"x-user": "a", "x-class": "free"})[0], 200)
        self.assertEqual(get({"x-user": "a"})[0], 200)
        for wrong in ("no", "", "x" * 5000, "batch,batch", "\xff"):
            self.assertEqual(get({"x-user": "a", "x-class": wrong}), (400, "The class of this request is none of: batch, free.\n"))
        self.assertEqual([get({"x-user": "a"})[0] for _ in range(3)], [200, 200, 429])  # they were charged nothing
        self.assertEqual([get({"x-user": "a", "x-limit": "12"})[0] for _ in range(3)], [200, 200, 429])

    def test_fastapi(self):
        app, limit = FastAPI(), weir.starlette.Limits(self.store("fastapi"))

        @app.get("/")
        @limit(self.RULE, **self.claims(lambda request, name: request.headers.get(name)))
        async def index() -> str:
            return "ok"

        @app.get("/threads")
        @limit(self.RULE, name="threads", **self.claims(lambda request, name: request.headers.get(name)))
        def threads() -> str:
            return "ok"
        self.expect_client(app, "/")
        self.expect_client(app, "/threads")
        told = TestClient(app).get("/threads", headers={"accept": "application/json", "x-user": "a", "x-class": "batch"})
        self.assertEqual(told.headers["ratelimit-policy"], '"threads/batch";q=6;w=34560000')
        self.assertEqual(told.json()["violated-policies"], ["threads/batch"])

    def expect_client(self, app, path):
        client = TestClient(app)

        def get(headers):
            answer = client.get(path, headers={name: value.encode("latin-1") for name, value in headers.items()})
            self.assertLess(answer.headers["content-type"].count("charset"), 2)
            return answer.status_code, answer.text
        self.expect(get)

    def test_asgi(self):
        async def inner(scope, receive, send):
            await PlainTextResponse("ok")(scope, receive, send)
        self.expect_client(weir.asgi.Limit(inner, self.store("asgi"), self.RULE, **self.claims(weir.asgi.header)), "/")

    def test_flask(self):
        app, limit = flask.Flask(__name__), weir.flask.Limits(self.store("flask"))
        by_header = self.claims(lambda _, name: flask.request.headers.get(name))

        @app.get("/")
        @limit(self.RULE, **{name: functools.partial(each, None) for name, each in by_header.items()})
        def index():
            return "ok"

        @app.errorhandler(weir.flask.WrongClaim)
        def shaped(error):
            return error.refusal.text, 400
        client = app.test_client()

        def get(headers):
            answer = client.get("/", headers=headers)
            return answer.status_code, answer.text
        self.expect(get)

    def test_django(self):
        settings.WEIR["store"] = named(os.environ["WEIR_TEST_MEMCACHED_META"], f"django-{os.getpid()}")
        view = weir.django.limit(self.RULE, **self.claims(lambda request, name: request.headers.get(name)))(index_of_django)

        def get(headers):
            answer = view(RequestFactory().get("/", **{"HTTP_" + name.upper().replace("-", "_"): value for name, value in headers.items()}))
            return answer.status_code, answer.content.decode()
        self.expect(get)

    def test_wsgi(self):
        def inner(environ, start_response):
            start_response("200 OK", [("Content-Type", "text/plain")])
            return [b"ok"]
        limited = weir.wsgi.Limit(inner, self.store("wsgi"), self.RULE, **self.claims(
            lambda environ, name: environ.get("HTTP_" + name.upper().replace("-", "_"))))

        def get(headers):
            answer = Client(limited).get("/", headers=headers)
            return answer.status_code, answer.text
        self.expect(get)

    def test_tenants(self):
        app, limit = FastAPI(), weir.starlette.Limits(self.store("tenants"))

        @app.get("/")
        @limit("shared-window:60000/1h,weights=north:5|south:3", key=lambda request: "pool",
               tenant=lambda request: request.headers.get("x-tenant"))
        async def index() -> str:
            return "ok"
        client = TestClient(app)
        self.assertEqual(client.get("/", headers={"x-tenant": "north"}).status_code, 200)
        for headers in ({}, {"x-tenant": ""}):
            answer = client.get("/", headers={"accept": "application/json", **headers})
            self.assertEqual((answer.status_code, answer.json()["detail"]), (400, "This request names no tenant."))

    def test_a_blocked_key(self):
        """Its cost is not to blame."""
        store = self.store("blocked")
        gate = web.Gate(store, "10/1h,most=20", key=lambda _: "mallory", limits_every=0.01)
        weir.Limiter(store, "sliding-window:10/1h,most=20").set_limit("mallory", "blocked")
        refusal = gate.ask(web.Seen(None, "GET", "192.0.2.1", None, "")).refusal
        self.assertEqual((refusal.status, refusal.text, refusal.fields.get("Retry-After")), (429, "Too many requests.\n", None))

    def test_what_no_request_may_say_is_told_at_once(self):
        store = self.store("told")
        for rule, given, text in (("10/1h", {"class_": "batch"}, "rule with classes="), ("10/1h", {"class_": str}, "rule with classes="),
                                  (f"10/1h,{CLASSES}", {"class_": "bacth"}, "accepted are batch, free"),
                                  ("10/1h", {"limit": int}, "rule with most="), ("10/1h", {"tenant": str}, "shared-window"),
                                  ("shared-window:60000/1h,weights=a:1", {}, "shared-window")):
            raised(ValueError, text, web.Gate, store, rule, **given)
        gate = web.Gate(store, f"10 per minute,{CLASSES};100/1h,{CLASSES}", class_="batch")
        self.assertEqual(gate.ask(web.Seen(None, "GET", "192.0.2.1", None, "")).decision.limit, 6)


def index_of_django(_):
    return HttpResponse("ok")


if __name__ == "__main__":
    unittest.main()
