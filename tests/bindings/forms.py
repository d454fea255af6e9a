"""Limits in the forms in which people write applications: decorators of methods and classes, views without a
request, blueprints, plans, handlers of errors. Each in its framework, on a real store."""
import asyncio
import concurrent.futures
import ctypes
import functools
import gc
import os
import pathlib
import pickle
import resource
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
import unittest
import warnings

import django
import flask
import flask.views
from django.conf import settings

SERVER = os.environ["WEIR_TEST_MEMCACHED_META"]
URL = SERVER + f"&timeout=10s&namespace=forms-{os.getpid()}"
settings.configure(ALLOWED_HOSTS=["*"], ROOT_URLCONF=__name__, SECRET_KEY="of a test",
                   WEIR={"store": URL + "-django", "rule": "100000/1h"})
django.setup()

import weir  # noqa: E402
import weir.django  # noqa: E402
import weir.flask  # noqa: E402
import weir.starlette  # noqa: E402
import weir.wsgi  # noqa: E402
from django.core.handlers.base import BaseHandler  # noqa: E402
from django.http import HttpResponse  # noqa: E402
from django.test import RequestFactory  # noqa: E402
from django.urls import path  # noqa: E402
from django.utils.decorators import method_decorator  # noqa: E402
from django.views import View  # noqa: E402
from django.views.decorators.csrf import csrf_exempt  # noqa: E402
from fastapi import APIRouter, Depends, FastAPI, HTTPException, Response, WebSocket  # noqa: E402
from pydantic import BaseModel  # noqa: E402
from services import Memcached, Service  # noqa: E402
from starlette.applications import Starlette  # noqa: E402
from starlette.endpoints import HTTPEndpoint  # noqa: E402
from starlette.responses import PlainTextResponse  # noqa: E402
from starlette.routing import Route, WebSocketRoute  # noqa: E402
from starlette.testclient import TestClient  # noqa: E402
from starlette.websockets import WebSocketDisconnect  # noqa: E402

REQUESTS = 1000
urlpatterns = []
numbers = iter(range(1 << 30))


def store(**options):
    """Another for each test, so that limits of one name do not meet."""
    return weir.Store(f"{URL}-{next(numbers)}" + "".join(f"&{name}={value}" for name, value in options.items()))


def live(kind):
    gc.collect()
    return sum(isinstance(each, kind) for each in gc.get_objects())


def cost_of_many(ask):
    """The rest that 1,000 requests leave behind: descriptors, MiB, stores, limiters."""
    def now():
        return (len(os.listdir("/proc/self/fd")), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
                live(weir.Store), live(weir.Limiter))
    for _ in range(20):
        ask()
    before = now()
    for _ in range(REQUESTS):
        ask()
    return [round(after - first, 1) for after, first in zip(now(), before)]


class Forms(unittest.TestCase):
    def constant(self, ask):
        fds, mib, stores, limiters = cost_of_many(ask)
        self.assertEqual((stores, limiters), (0, 0))
        self.assertLessEqual(fds, 2)
        self.assertLess(mib, 8)


# --- Django ------------------------------------------------------------------------------------

@method_decorator(weir.django.limit("5/1h"), name="dispatch")
class First(View):
    def get(self, request):
        return HttpResponse("first")


@method_decorator(weir.django.limit("5/1h"), name="dispatch")
class Second(View):
    def get(self, request):
        return HttpResponse("second")


class Named(View):
    @method_decorator(weir.django.limit("5/1h", name="named"))
    def get(self, request):
        return HttpResponse("named")

    @method_decorator(weir.django.limit("2/1h"))
    def post(self, request):
        return HttpResponse("posted")


class Whole(View):
    def get(self, request):
        return HttpResponse("whole")


class Often(View):
    @method_decorator(weir.django.limit("100000/1h"))
    def get(self, request):
        return HttpResponse("often")


class Callable:
    def __call__(self, request):
        return HttpResponse("called")


class Awaited(View):
    """A class of async methods, as Django has them since 4.1: each call gives what is awaited."""
    view_is_async = True

    async def get(self, request):
        return HttpResponse("awaited")

    @classmethod
    def marked(cls):
        view = cls.as_view()
        view._is_coroutine = asyncio.coroutines._is_coroutine
        return view


@method_decorator(weir.django.limit("2/1h"), name="dispatch")
class AwaitedWhole(Awaited):
    pass


@method_decorator([weir.django.limit("2/1h"), csrf_exempt], name="dispatch")
class AwaitedBelow(Awaited):
    """The limit is given what csrf_exempt makes: a function that does not say that it is asynchronous."""


class Django(Forms):
    factory = RequestFactory()

    def statuses(self, view, count, method="get", **extra):
        return [view(getattr(self.factory, method)("/", **extra)).status_code for _ in range(count)]

    def test_classes_and_methods_have_counts_of_their_own(self):
        for view in (First.as_view(), Second.as_view(), Named.as_view()):
            self.assertEqual(self.statuses(view, 6), [200] * 5 + [429])
        self.assertEqual(self.statuses(Named.as_view(), 3, "post"), [200, 200, 429])

    def test_what_is_no_function(self):
        def view(request, what):
            return HttpResponse(what)
        for number, limited in enumerate((Callable(), functools.partial(view, what="x"), Whole.as_view())):
            for name in (None, f"name-{number}"):
                made = weir.django.limit("2/1h", **({"name": name} if name else {}))(limited)
                self.assertEqual(self.statuses(made, 3), [200, 200, 429], (limited, name))

    def test_what_is_awaited(self):
        """By the loop, as Django's handler of ASGI does; it tells such views by their mark."""
        async def statuses(view):
            self.assertTrue(asyncio.iscoroutinefunction(view))
            return [(await view(self.factory.get("/"))).status_code for _ in range(3)]
        for view in (AwaitedWhole.marked(), AwaitedBelow.marked(), weir.django.limit("2/1h")(Awaited.marked())):
            self.assertEqual(asyncio.run(statuses(view)), [200, 200, 429], view)

    def test_many_requests_leave_nothing(self):
        view = Often.as_view()
        self.constant(lambda: self.statuses(view, 1))

    def test_forty_views_share_a_store(self):
        before = live(weir.Store)
        for number in range(40):
            view = weir.django.limit("2/1h", name=f"view-{number}")(lambda request: HttpResponse("x"))
            self.assertEqual(self.statuses(view, 1), [200])
        self.assertLessEqual(live(weir.Store) - before, 1)

    def test_a_refusal_is_shaped(self):
        def shaped(request, refusal):
            return HttpResponse(f"slow down {refusal.retry_after}", status=refusal.status)
        view = weir.django.limit("1/1h", on_denied=shaped)(lambda request: HttpResponse("x"))
        self.statuses(view, 1)
        answer = view(self.factory.get("/"))
        self.assertEqual((answer.status_code, answer.content[:9]), (429, b"slow down"))
        self.assertIn("RateLimit", answer)
        raising = weir.django.limit("1/1h", name="raising", on_denied="weir.django.raise_ratelimited")(
            lambda request: HttpResponse("x"))
        self.statuses(raising, 1)
        with self.assertRaises(weir.django.Ratelimited) as raised:
            self.statuses(raising, 1)
        self.assertFalse(raised.exception.refusal.decision.allowed)

    def test_a_message_is_no_path(self):
        for number, message in enumerate(("Stop.", "Slow down. Now.", "...", "a.b.", "1.5")):
            view = weir.django.limit("1/1h", message=message, name=f"message-{number}")(Callable())
            self.statuses(view, 1)
            self.assertEqual(view(self.factory.get("/")).content.decode(), message)
        view = weir.django.limit("1/1h", message="weir.django.name_of", name="path")(Callable())
        self.statuses(view, 1)
        self.assertEqual(view(self.factory.get("/")).content.decode(), "weir.web.Refusal")

    def test_the_middleware(self):
        handler = BaseHandler()
        middleware = weir.django.Middleware(lambda request: HttpResponse("x"))
        answer = middleware(self.factory.get("/"))
        self.assertIn("RateLimit-Policy", answer)
        self.assertIsNotNone(handler)
        self.constant(lambda: middleware(self.factory.get("/")))

    def test_who_is_exempt_is_told_by_the_urls_of_the_request(self):
        """As of middleware that has others for each host."""
        def view(request):
            return HttpResponse("x")
        middleware = weir.django.Middleware(view)
        request = self.factory.get("/health")
        request.urlconf = (path("health", weir.django.exempt(lambda request: view(request))),)
        self.assertNotIn("RateLimit", middleware(request))
        request.urlconf = (path("health", view),)
        self.assertIn("RateLimit", middleware(request))

    def test_failures_alone(self):
        """A login: wrong passwords count."""
        def login(request):
            return HttpResponse(status=200 if request.GET.get("right") else 401)
        view = weir.django.limit("3/1h", skip_successful=True)(login)
        self.assertEqual(self.statuses(view, 20, data={"right": 1}), [200] * 20)
        self.assertEqual(self.statuses(view, 4), [401] * 3 + [429])


# --- FastAPI and Starlette ---------------------------------------------------------------------

class Found(BaseModel):
    name: str


class Fast(Forms):
    def client(self, rule="5/1h", **options):
        app, limit = FastAPI(), weir.starlette.Limits(store(), **options)

        @app.get("/def")
        @limit(rule)
        def plain():
            return {"found": 1}

        @app.get("/async/{number}")
        @limit(rule)
        async def later(number: int, response: Response, query: str = "none"):
            response.headers["x-own"] = "kept"
            return {"number": number, "query": query}

        @app.get("/model", response_model=Found)
        @limit(rule)
        def model():
            return Found(name="x")

        @app.get("/response")
        @limit(rule)
        async def response():
            return PlainTextResponse("text")

        class Called:
            async def __call__(self, query: str = "none"):
                return {"query": query}
        app.get("/called")(limit(rule)(Called()))
        return TestClient(app)

    def test_views_without_a_request(self):
        client = self.client()
        for path, body in (("/def", {"found": 1}), ("/async/7?query=q", {"number": 7, "query": "q"}),
                           ("/model", {"name": "x"}), ("/called?query=q", {"query": "q"})):
            for number in range(5):
                answer = client.get(path)
                self.assertEqual((answer.status_code, answer.json()), (200, body))
                self.assertIn(f"r={4 - number};", answer.headers["ratelimit"] + ";")
            denied = client.get(path, headers={"accept": "application/json"})
            self.assertEqual((denied.status_code, denied.headers["content-type"]), (429, "application/problem+json"))
            self.assertEqual(denied.json()["violated-policies"], [denied.headers["ratelimit"].split('"')[1]])
            self.assertGreater(int(denied.headers["retry-after"]), 0)
        self.assertEqual(client.get("/async/7").headers.get("x-own"), None)
        self.assertEqual(client.get("/response").headers["ratelimit"].count("r=4"), 1)
        self.assertEqual(self.client().get("/async/1").headers["x-own"], "kept")
        self.assertEqual(client.get("/async/none").status_code, 422)

    def test_the_api_is_described_as_without_a_limit(self):
        described = self.client().get("/openapi.json").json()["paths"]["/async/{number}"]["get"]["parameters"]
        self.assertEqual([each["name"] for each in described], ["number", "query"])

    def test_forty_at_once(self):
        client = self.client("100000/1h")
        with concurrent.futures.ThreadPoolExecutor(40) as crowd:
            answers = list(crowd.map(lambda _: client.get("/def").status_code, range(80)))
        self.assertEqual(answers, [200] * 80)

    def test_many_requests_leave_nothing(self):
        client = self.client("100000/1h")
        self.constant(lambda: client.get("/def"))

    def test_an_exception_handler_shapes_it(self):
        app = FastAPI()

        def deny(request, refusal):
            raise weir.starlette.RateLimited(refusal)
        limit = weir.starlette.Limits(store(), on_denied=deny)

        @app.exception_handler(429)
        async def shape(request, error):
            return PlainTextResponse(f"shaped {error.refusal.status}", 429)

        @app.get("/")
        @limit("1/1h")
        async def index():
            return {}
        client = TestClient(app)
        self.assertEqual([client.get("/").status_code, client.get("/").text], [200, "shaped 429"])

    def test_a_dependency_denies(self):
        """Of a router or of a function, asked in the loop or in a thread: what it answers is not sent, so it raises."""
        limit = weir.starlette.Limits(store())

        @limit("1/1h")
        async def later():
            return "later"

        @limit("1/1h", on_denied=lambda request, refusal: PlainTextResponse("never sent", 418))
        def now():
            return "now"
        app, router = FastAPI(), APIRouter(dependencies=[Depends(later)])
        router.get("/router")(lambda: "in")

        @app.get("/function")
        @limit("3/1h")
        def function(said: str = Depends(now)):
            return said
        app.include_router(router)
        client = TestClient(app)
        for path in ("/router", "/function"):
            first, second = client.get(path), client.get(path)
            self.assertEqual((first.status_code, second.status_code), (200, 429), path)
            self.assertIn("r=0", first.headers["ratelimit"])
            self.assertGreater(int(second.headers["retry-after"]), 0)

    def test_a_web_socket_is_closed(self):
        app, limit = FastAPI(), weir.starlette.Limits(store())

        async def talk(socket: WebSocket):
            await socket.accept()
            await socket.send_text("in")
            await socket.close()

        @app.websocket("/dependency")
        async def guarded(socket: WebSocket, door: None = Depends(limit("1/1h", name="door")(lambda: None))):
            await talk(socket)
        app.websocket("/function")(limit("1/1h")(talk))
        plain = Starlette(routes=[WebSocketRoute("/plain", limit("1/1h", name="plain")(talk))])
        for made, path in ((app, "/function"), (app, "/dependency"), (plain, "/plain")):
            client = TestClient(made)
            with client.websocket_connect(path) as socket:
                self.assertEqual(socket.receive_text(), "in")
            with self.assertRaises(WebSocketDisconnect) as closed, client.websocket_connect(path):
                pass
            self.assertEqual(closed.exception.code, 1013)

    def test_what_an_application_keeps_stays_as_it_is(self):
        """Errors and answers that it gives again and again. Those of a limit have its fields, and no others have."""
        app, limit = FastAPI(), weir.starlette.Limits(store())
        missing, found = HTTPException(status_code=404, headers={"X-Own": "kept"}), PlainTextResponse("found")

        async def raises():
            raise missing

        async def answers():
            return found

        async def loses():
            raise missing from KeyError("why")
        app.get("/free")(limit("5/1h", name="free", exempt=lambda request: True)(loses))
        self.assertEqual(TestClient(app).get("/free").status_code, 404)
        self.assertIsInstance(missing.__cause__, KeyError)
        app.get("/raises")(limit("9/1h")(limit("5/1h", name="inner")(raises)))
        app.get("/answers")(limit("9/1h")(limit("5/1h", name="inner2")(answers)))
        app.get("/missing")(raises)
        app.get("/found")(answers)
        client = TestClient(app)
        for path, status in (("/raises", 404), ("/answers", 200)):
            for i in range(3):
                answer = client.get(path)
                self.assertEqual(answer.status_code, status)
                self.assertRegex(answer.headers["ratelimit"], rf"^[^,]*;r={4 - i};t=\d+, [^,]*;r={8 - i};t=\d+$")
        self.assertEqual(client.get("/raises").headers["x-own"], "kept")
        for path in ("/missing", "/found"):
            self.assertNotIn("ratelimit", client.get(path).headers)

    def test_starlette(self):
        limit = weir.starlette.Limits(store())

        class Endpoint(HTTPEndpoint):
            @limit("2/1h")
            async def get(self, request):
                return PlainTextResponse("got")

        @limit("2/1h")
        def plain(request):
            return PlainTextResponse("plain")
        client = TestClient(Starlette(routes=[Route("/class", Endpoint), Route("/plain", plain)]))
        for path in ("/class", "/plain"):
            self.assertEqual([client.get(path).status_code for _ in range(3)], [200, 200, 429])

    def test_it_is_told_what_was_called_wrongly(self):
        limit = weir.starlette.Limits(store())
        with self.assertRaisesRegex(TypeError, "without a request"):
            limit("1/1h")(lambda: None)()


# --- Flask -------------------------------------------------------------------------------------

class Flask(Forms):
    def statuses(self, client, path, count, **how):
        return [client.get(path, **how).status_code for _ in range(count)]

    def test_blueprints_and_views_have_counts_of_their_own(self):
        app, limit = flask.Flask("shop"), weir.flask.Limits(store())
        for name in ("one", "two"):
            blueprint = flask.Blueprint(name, name, url_prefix="/" + name)
            limit.all(blueprint, "3/1h")
            blueprint.get("/")(lambda: "x")
            app.register_blueprint(blueprint)

        class Search(flask.views.MethodView):
            decorators = [limit("2/1h")]

            def get(self):
                return "x"

        class Other(flask.views.MethodView):
            decorators = [limit("2/1h")]

            def get(self):
                return "x"
        app.add_url_rule("/search", view_func=Search.as_view("search"))
        app.add_url_rule("/other", view_func=Other.as_view("other"))
        client = app.test_client()
        for path, most in (("/one/", 3), ("/two/", 3), ("/search", 2), ("/other", 2)):
            self.assertEqual(self.statuses(client, path, most + 1), [200] * most + [429], path)

    def test_who_is_exempt(self):
        app, limit = flask.Flask("shop"), weir.flask.Limits(store())
        limit.all(app, "1/1h")
        blueprint = limit.exempt(flask.Blueprint("open", "open"))
        blueprint.get("/blueprint")(lambda: "x")
        app.register_blueprint(blueprint)

        @limit.exempt
        class Open(flask.views.MethodView):
            def get(self):
                return "x"
        app.add_url_rule("/class", view_func=Open.as_view("class"))

        def wrapped(view):
            return functools.wraps(view)(lambda: view())
        app.get("/wrapped", endpoint="wrapped")(wrapped(limit.exempt(lambda: "x")))
        app.get("/limited", endpoint="limited")(wrapped(lambda: "x"))
        client = app.test_client()
        for path in ("/blueprint", "/class", "/wrapped"):
            self.assertEqual(self.statuses(client, path, 3), [200] * 3, path)
        self.assertEqual(self.statuses(client, "/limited", 2), [200, 429])

    def test_an_answer_that_an_application_keeps_stays_as_it_is(self):
        app, limit, kept = flask.Flask("keeps"), weir.flask.Limits(store()), flask.Response("kept")
        limit.all(app, "9/1h", exempt=lambda: flask.request.path == "/free")
        app.get("/limited")(limit("5/1h")(lambda: kept))
        app.add_url_rule("/free", "free", lambda: kept)
        client = app.test_client()
        for i in range(3):
            said = client.get("/limited").headers.getlist("RateLimit")
            self.assertEqual([each.split(";")[1] for each in said], [f"r={8 - i}", f"r={4 - i}"])
        self.assertNotIn("RateLimit", client.get("/free").headers)

    def test_what_on_denied_says_of_fields_is_said_once(self):
        app = flask.Flask("shop")
        limit = weir.flask.Limits(store(), on_denied=lambda refusal: flask.Response("no", 429, headers=refusal.fields))
        app.get("/")(limit("1/1h")(lambda: "x"))
        client = app.test_client()
        self.statuses(client, "/", 1)
        fields = client.get("/").headers
        self.assertEqual([len(fields.getlist(name)) for name in ("Retry-After", "RateLimit", "RateLimit-Policy")], [1, 1, 1])

    def test_error_handlers_shape_it(self):
        app, limit = flask.Flask("shop"), weir.flask.Limits(store())
        limit.all(app, "2/1h")
        app.get("/")(lambda: "x")
        app.errorhandler(429)(lambda error: (f"shaped {error.refusal.decision.limit}", 429))
        client = app.test_client()
        self.statuses(client, "/", 2)
        answer = client.get("/")
        self.assertEqual((answer.status_code, answer.text), (429, "shaped 2"))
        self.assertIn("Retry-After", answer.headers)

    def test_plans_methods_and_tests(self):
        app = flask.Flask("shop")
        plans = {"free": "2 per hour", "paid": "4/hour", "staff": None}
        on = {"enabled": True}
        limit = weir.flask.Limits(store(), key=lambda: flask.request.headers.get("X-User"))

        @app.route("/", methods=["GET", "POST"])
        @limit(lambda: plans[flask.request.headers["X-Plan"]], methods=["GET"], enabled=lambda: on["enabled"])
        def index():
            return "x"
        client = app.test_client()

        def ask(count, plan):
            return self.statuses(client, "/", count, headers={"X-User": plan, "X-Plan": plan})
        self.assertEqual(ask(3, "free"), [200, 200, 429])
        self.assertEqual(ask(5, "paid"), [200] * 4 + [429])
        self.assertEqual(ask(9, "staff"), [200] * 9)
        self.assertEqual(client.post("/", headers={"X-User": "free", "X-Plan": "free"}).status_code, 200)
        on["enabled"] = False
        self.assertEqual(ask(9, "free"), [200] * 9)

    def test_what_cannot_be(self):
        app = flask.Flask("shop")
        app.get("/never", endpoint="never")(weir.flask.Limits(store())("2/1h", cost=lambda: 3)(lambda: "x"))
        away = weir.flask.Limits("memcached://127.0.0.1:1", fallback="none", message="closed for now")
        app.get("/away", endpoint="away")(away("2/1h")(lambda: "x"))
        client = app.test_client()
        never = client.get("/never")
        self.assertEqual((never.status_code, "never" in never.text, never.headers.get("Retry-After")), (400, True, None))
        with self.assertLogs("weir", "WARNING"):
            gone = client.get("/away", headers={"Accept": "application/json"})
        self.assertEqual((gone.status_code, gone.headers["Retry-After"]), (503, "1"))
        self.assertEqual(gone.json["detail"], "closed for now")

    def test_many_requests_leave_nothing(self):
        app = flask.Flask("shop")
        app.get("/")(weir.flask.Limits(store())("100000/1h")(lambda: "x"))
        client = app.test_client()
        self.constant(lambda: client.get("/"))


# --- all of them -------------------------------------------------------------------------------

class Texts(unittest.TestCase):
    def test_rules_as_people_say_them(self):
        for said, meant in (("5 per minute", "5/1m"), ("5/minute", "5/1m"), ("100 per 15 minutes", "100/15m"),
                            ("10 per 2 Hours", "10/2h"), ("7/day", "7/1d"), ("1/s", "1/1s"), ("1 per month", "1/30d"),
                            ("9/m", "9/1m"), ("500/200ms", "500/200ms"), ("5/ms", "5/ms"), ("8 per 3 s", "8/3s"),
                            ("8/3secs", "8/3s")):
            self.assertEqual(weir.web.complete(said, None), "sliding-window:" + meant)
        self.assertEqual(weir.web.complete("5 per minute; quota:9/1d", "n"),
                         "sliding-window:5/1m,name=n;quota:9/1d,name=n")
        with self.assertRaises(weir.Error):
            weir.web.Gate(store(), "5 per fortnight")

    def test_a_function_that_would_be_awaited(self):
        """A coroutine is true: a limit with such an exempt would limit nobody."""
        async def later(request=None):
            return False
        for name in ("key", "cost", "exempt", "enabled", "message", "on_denied"):
            for limit in (weir.web.Gate, lambda *which, **options: weir.flask.Limits(which[0])(which[1], **options)(len)):
                with self.assertRaisesRegex(TypeError, f"{name} is a function that answers at once"):
                    limit(store(), "5/1m", **{name: later})
        gate = weir.web.Gate(store(), "5/1m", exempt=lambda request: later(request))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that it was never awaited
            with self.assertRaisesRegex(TypeError, "exempt answered with what is to be awaited"):
                gate.ask(weir.web.Seen(None, "GET", "192.0.2.1", None, ""))

    def test_an_application_that_says_its_status_late(self):
        """A generator of WSGI runs when its server asks for bytes: what it raises then is a failure as well."""
        closed = []

        def app(environ, start_response):
            try:
                if environ["fails"]:
                    raise RuntimeError("late")
                start_response("200 OK", [])
                yield b"a"
                yield b"b"
            finally:
                closed.append(environ["fails"])
        limited = weir.wsgi.Limit(app, store(), "2/1h", skip_failed=True)

        def asked(fails):
            said = []
            body = limited({"REQUEST_METHOD": "GET", "REMOTE_ADDR": "192.0.2.1", "fails": fails},
                           lambda status, lines, *error: said.append((status[:3], dict(lines))))
            try:
                return b"".join(body), said
            finally:
                if hasattr(body, "close"):
                    body.close()
        for _ in range(5):
            self.assertRaises(RuntimeError, asked, True)
        for left in (1, 0):
            body, ((status, fields),) = asked(False)
            self.assertEqual((body, status), (b"ab", "200"))
            self.assertIn(f"r={left};", fields["RateLimit"])
        self.assertEqual(asked(False)[1][0][0], "429")
        self.assertEqual(closed, [True] * 5 + [False] * 2)

        class Unread:
            closed = False

            def __iter__(self):
                raise AssertionError("nobody reads it")

            def close(self):
                self.closed = True
        unread = Unread()
        weir.wsgi.Limit(lambda *asked: unread, store(), "2/1h")({"REQUEST_METHOD": "GET", "REMOTE_ADDR": "192.0.2.1"},
                                                                 print).close()
        self.assertTrue(unread.closed)

    def test_a_method_in_other_words_is_the_same(self):
        """Views of GET answer HEAD, and Django's and Flask's take a method in any case, as servers pass it on."""
        for named, asked in (("GET", ("GET", "HEAD", "get", "head")), ("post", ("POST", "post", "Post"))):
            gate = weir.web.Gate(store(), "1/1h", methods=[named])
            seen = [gate.ask(weir.web.Seen(None, each, "192.0.2.1", None, "")) for each in asked]
            self.assertEqual([each is not None and each.refusal is None for each in seen], [True] + [False] * (len(asked) - 1))
            self.assertNotIn(None, seen)
            self.assertIsNone(gate.ask(weir.web.Seen(None, "PUT", "192.0.2.1", None, "")))

    def test_one_method_is_no_list(self):
        with self.assertRaisesRegex(TypeError, "methods is a list"):
            weir.web.Gate(store(), "5/1m", methods="POST")

    def test_more_plans_than_are_kept_take_none_from_a_request(self):
        plans = iter(f"{5 + i}/1m" for i in range(1 + weir.web.RULES_MOST))
        gate = weir.web.Gate(store(), lambda request: next(plans), key=lambda request: "k", name="plans")
        seen = weir.web.Seen(None, "GET", "192.0.2.1", None, "")
        limiter, key, cost, _ = gate._wanted(seen)
        for _ in range(weir.web.RULES_MOST):
            gate._wanted(seen)
        self.assertTrue(limiter.take(key, cost).allowed)

    def test_of_too_many_plans_the_least_lately_used_goes(self):
        asked = {"rule": ""}
        gate = weir.web.Gate(store(), lambda request: asked["rule"], name="used")

        def limiter_of(number):
            asked["rule"] = f"{1000 + number}/1h"
            return gate.ask(weir.web.Seen(None, "GET", "192.0.2.1", None, "")).limiter
        first = limiter_of(0)
        for number in range(1, weir.web.RULES_MOST):
            limiter_of(number)
        self.assertIs(limiter_of(0), first)
        limiter_of(weir.web.RULES_MOST)  # 1 goes
        self.assertIs(limiter_of(0), first)

    def test_what_is_no_function_is_told_at_once(self):
        for name in ("key", "exempt", "on_denied"):
            with self.assertRaisesRegex(TypeError, f"^{name} is a function of the request, not str"):
                weir.web.Gate(store(), "5/1m", **{name: "user"})
        with self.assertRaisesRegex(TypeError, "^message is str or a function"):
            weir.web.Gate(store(), "5/1m", message=b"no")

    def test_a_fork_beside_requests_leaves_no_lock_behind(self):
        gate = weir.web.Gate(store(), "1000000/1h")
        seen, ended = weir.web.Seen(None, "GET", "192.0.2.1", None, ""), threading.Event()

        def ask_on():
            while not ended.is_set():
                gate._wanted(seen)
        askers = [threading.Thread(target=ask_on) for _ in range(3)]
        interval = sys.getswitchinterval()
        sys.setswitchinterval(1e-6)
        for each in askers:
            each.start()
        try:
            for _ in range(30):
                child = os.fork()
                if child == 0:
                    signal.alarm(5)  # which ends it
                    gate._wanted(seen)
                    os._exit(0)
                self.assertEqual(os.waitpid(child, 0)[1], 0)
        finally:
            ended.set()
            sys.setswitchinterval(interval)
            for each in askers:
                each.join()


class Names(unittest.TestCase):
    def test_two_that_would_share_are_told_once(self):
        place = store()
        with self.assertLogs("weir", "WARNING") as told:
            kept = [weir.wsgi.Limit(None, place, rule) for rule in ("100/1m", "5/1m")]
        self.assertEqual(len(told.output), 1)
        self.assertIn("without a name", told.output[0])
        with self.assertNoLogs("weir", "WARNING"):  # made again, as by an application's factory; and named
            kept += [weir.wsgi.Limit(None, place, "100/1m"), weir.wsgi.Limit(None, place, "5/1m", name="login")]

    def test_two_views_of_one_name(self):
        limit = weir.flask.Limits(store())

        def make(text):
            return (lambda: text) if text == "a" else (lambda: "b")
        first = limit("5/1m")(make("a"))
        with self.assertLogs("weir", "WARNING") as told:
            second = limit("5/1m")(make("b"))
        self.assertIn("name=", told.output[0])
        self.assertEqual(len(told.output), 1)
        self.assertTrue(first and second)
        with self.assertNoLogs("weir", "WARNING"):
            self.assertTrue(limit("5/1h")(make("a")) and limit("5/1m", name="own")(make("b")))


class Away(unittest.TestCase):
    def test_a_store_that_is_away_is_told_once_and_so_is_its_return(self):
        server = Memcached()
        try:
            place = weir.Store(server.url("timeout=200ms"))
            limiter = weir.Limiter(place, "sliding-window:10/1h")
            with self.assertLogs("weir", "WARNING") as told:
                decisions = [limiter.take("a") for _ in range(3)]
            self.assertEqual((len(told.output), {each.source for each in decisions}), (1, {"fallback"}))
            self.assertIn("memcached", decisions[0].message)
            server.start()
            with self.assertLogs("weir", "WARNING") as told:
                end = time.monotonic() + 30
                while limiter.take("a").source != "store" and time.monotonic() < end:
                    time.sleep(0.01)
            self.assertEqual((len(told.output), "decides again" in told.output[0]), (1, True))
            self.assertEqual(limiter.take("a").message, "")
        finally:
            server.end()

    def test_a_key_that_still_counts_by_the_policy_does_not_tell_that_its_store_is_away(self):
        with Memcached() as server, self.assertLogs("weir", "WARNING") as told:
            place = weir.Store(server.url("timeout=100ms"))
            place.connect(30)
            limiter, stills, end = weir.Limiter(place, "fixed-window:10/1h"), [], time.monotonic() + 30
            os.kill(server.process.pid, signal.SIGSTOP)
            while limiter.take("a") or limiter.take("a").source != "fallback":  # what this process may admit is used up
                self.assertLess(time.monotonic(), end)
            os.kill(server.process.pid, signal.SIGCONT)
            decided = limiter.take("a")
            while decided.source != "store":
                self.assertLess(time.monotonic(), end)
                time.sleep(0.02)
                limiter.take("b")
                decided = limiter.take("a")
                stills += [decided.message] if decided.source == "fallback" and decided.store_status == "OK" else []
        self.assertIn("what was admitted while the store was away still counts for this key", stills)
        self.assertEqual(sum("does not decide" in line for line in told.output), 1, told.output)

    def test_whatever_is_asked_tells_that_its_store_is_away(self):
        def ask(call, rule):
            limiter = weir.Limiter(weir.Store("memcached://127.0.0.1:1?timeout=200ms"), rule)
            with self.assertLogs("weir", "WARNING") as told:
                answered = call(limiter)
            self.assertEqual((answered.source, len(told.output)), ("fallback", 1))
            self.assertIn("cannot connect", answered.message)
        ask(lambda limiter: limiter.take("a"), "quota:9/1h")
        ask(lambda limiter: limiter.decide(["a", "b"])[1], "quota:9/1h")
        ask(lambda limiter: weir.decide_all([(limiter, "a")]).decisions[0], "quota:9/1h")
        ask(lambda limiter: limiter.reserve("a").decision, "quota:9/1h")
        ask(lambda limiter: limiter.hold("a").decision, "in-flight:9/10s")

    def test_what_ends_a_block_is_seen_where_nothing_can_be_given_back(self):
        with Memcached() as server:
            limiter = weir.Limiter(weir.Store(server.url("timeout=5s")), "quota:9/1h")
            with self.assertLogs("weir", "WARNING") as told, self.assertRaises(KeyError):
                with limiter.reserve("a"):
                    server.kill()
                    raise KeyError("of the block")
            self.assertIn("stays charged", told.output[0])

    def test_a_child_that_was_forked_in_c_decides_several_as_one(self):
        """Which Python is not told of."""
        limiter = weir.Limiter(store(), "quota:9/1h")
        limiter.take("a")
        child = ctypes.CDLL(None).fork()
        if child == 0:
            try:
                os._exit(0 if weir.decide_all([(limiter, "a")]).allowed else 1)
            finally:
                os._exit(2)
        self.assertEqual(os.waitpid(child, 0)[1], 0)

    def test_secrets_are_not_shown(self):
        limiter = weir.Limiter(weir.Store("redis://user:s3cret@127.0.0.1:1"), "quota:1/1h")
        self.assertEqual(repr(limiter), "Limiter('quota:1/1h', Store('redis://***@127.0.0.1:1'))")
        for each in (limiter, limiter.store):
            with self.assertRaisesRegex(TypeError, "open one in each process"):
                pickle.dumps(each)
        decision = pickle.loads(pickle.dumps(weir.Limiter(weir.Store("memory:"), "quota:9/1h").take("a")))
        self.assertEqual((decision.allowed, decision.remaining), (True, 8))

    def test_ctrl_c_ends_a_wait(self):
        """In the main thread, at once."""
        for call in ('limiter.hold("a", wait=30)', 'quota.wait("a", longest_wait=80)'):
            program = textwrap.dedent(f"""
                import weir
                store = weir.Store({SERVER + "&timeout=1s&namespace=ctrl"!r} + {call[0]!r})
                limiter, quota = weir.Limiter(store, "in-flight:1/30s"), weir.Limiter(store, "fixed-window:1/1m", longest_wait=90)
                held, _ = limiter.hold("a", wait=9), quota.take("a")
                print("waits", flush=True)
                try:
                    {call}
                    {call}
                except KeyboardInterrupt:
                    held.release()
                    print("ended", flush=True)
            """)
            process = subprocess.Popen([sys.executable, "-B", "-c", program], stdout=subprocess.PIPE, text=True)
            self.assertEqual(process.stdout.readline(), "waits\n")
            time.sleep(0.2)
            process.send_signal(signal.SIGINT)
            began = time.monotonic()
            self.assertEqual(process.communicate(timeout=30)[0], "ended\n")
            self.assertLess(time.monotonic() - began, 3)


class Servers(unittest.TestCase):
    """Which fork in C, or serve all requests in one thread."""

    APP = textwrap.dedent("""
        import os, weir, weir.wsgi
        url = os.environ["WEIR_STORE"].replace("timeout=10s", "timeout=100ms")
        store = weir.Store(os.environ.get("WEIR_SILENT", url))
        places = weir.Limiter(store, "in-flight:2/30s,name=places")
        leased = weir.Limiter(store, "fixed-window:1000/1h,lease=200ms,name=leased")
        parents = places.hold("parent")
        leased.take("k")
        def answer(environ, start):
            path = environ["PATH_INFO"]
            if path == "/places":
                held = "dead" if not parents.held() else "alive"
                with places.hold("k", wait=1) as place:
                    body = f"{held} {place.held()} {leased.take('k').allowed}"
            else:
                body = "x"
            start("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(len(body)))])
            return [body.encode()]
        app = weir.wsgi.Limit(answer, store, "20/1h", exempt=lambda environ: environ["PATH_INFO"] == "/health",
                              key=lambda environ: environ["PATH_INFO"])
    """)

    def served(self, name, *command, **environment):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        pathlib.Path(folder.name, "application.py").write_text(self.APP, encoding="ascii")
        return Service(name, command, folder.name, {**os.environ, **environment})

    def test_uwsgi_as_it_comes(self):
        with self.served("uwsgi", "uwsgi", "--plugin", "python3", "--http-socket", "127.0.0.1:PORT", "--master",
                         "--processes", "4", "--enable-threads", "--die-on-term", "--disable-logging", "--wsgi-file",
                         "application.py", "--callable", "app") as service:
            answers = [service.get("/limited")[0] for _ in range(24)]
            self.assertEqual(answers, [200] * 20 + [429] * 4)
            self.assertEqual({service.get("/places")[2] for _ in range(8)}, {"dead True True"})

    def test_gevent_goes_on_while_a_store_is_silent(self):
        with Memcached() as memcached:
            silent = {"WEIR_SILENT": memcached.url("timeout=3s")}
            with self.served("gevent", sys.executable, "-B", "-m", "gunicorn", "--log-level", "warning", "-k",
                             "gevent", "-b", "127.0.0.1:PORT", "application:app", **silent) as service:
                self.assertEqual([service.get("/limited")[0] for _ in range(21)], [200] * 20 + [429])
                memcached.process.send_signal(signal.SIGSTOP)
                with concurrent.futures.ThreadPoolExecutor(4) as crowd:
                    waiting = [crowd.submit(service.get, f"/silent-{number}") for number in range(4)]
                    began = time.monotonic()
                    for _ in range(10):
                        self.assertEqual(service.get("/health")[0], 200)
                    self.assertLess(time.monotonic() - began, 2)
                    memcached.process.send_signal(signal.SIGCONT)
                    self.assertEqual({each.result()[0] for each in waiting}, {200})


if __name__ == "__main__":
    unittest.main()
