"""Requests as a client may write them that is over its limit, to middleware behind the servers that people use: the
list of tests/serve/hostile_forms.py. The key that the application takes is the one that was counted."""
import fcntl
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "serve"), str(HERE.parent / "examples")]
import hostile_forms  # noqa: E402
from service import free_port  # noqa: E402

# Each application says on stdout which key it was asked with, before it answers. One process may serve several, each at a
# port of its own: LIMITS has their names, whether they limit by key or by address, their ports and their stores.
COMMON = """
import json, os
LIMITS, RULE = json.loads(os.environ["LIMITS"]), "3/1d"
def note(key):
    os.write(1, json.dumps([(key or "")[:300]]).encode() + b"\\n")
def options(by, key):
    return {"trusted": "127.0.0.1", **({"key": key} if by == "key" else {})}
"""
METHODS = '["GET", "POST", "PURGE", "HEAD"]'
WSGI = COMMON + """
import flask, weir.flask, weir.wsgi
from django.conf import settings
def of_wsgi(store, by):
    def inner(environ, start_response):
        note(environ.get("HTTP_X_API_KEY"))
        start_response("200 OK", [("Content-Length", "0")])
        return [b""]
    return weir.wsgi.Limit(inner, store, RULE, **options(by, lambda environ: environ.get("HTTP_X_API_KEY")))

def of_flask(store, by):
    made = flask.Flask(__name__)
    weir.flask.Limits(store).all(made, RULE, **options(by, lambda: flask.request.headers.get("X-Api-Key")))
    @made.route("/", defaults={"path": ""}, methods=%s)
    @made.route("/<path:path>", methods=%s)
    def view(path):
        note(flask.request.headers.get("X-Api-Key"))
        return "ok"
    return made

def of_django(store, by):
    settings.configure(ALLOWED_HOSTS=["*"], ROOT_URLCONF=__name__, SECRET_KEY="of a test",
                       MIDDLEWARE=["weir.django.Middleware"],
                       WEIR={"store": store, "rule": RULE, **options(by, lambda request: request.headers.get("X-Api-Key"))})
    from django.core.wsgi import get_wsgi_application
    from django.http import HttpResponse
    from django.urls import re_path
    def view(request):
        note(request.headers.get("X-Api-Key"))
        return HttpResponse("ok")
    urlpatterns.append(re_path("(?s).*", view))
    return get_wsgi_application()

urlpatterns = []
applications = {str(port): globals()["of_" + name](store, by) for name, by, port, store in LIMITS}
def app(environ, start_response):
    return applications[environ["SERVER_PORT"]](environ, start_response)
""" % (METHODS, METHODS)
ASGI = COMMON + """
import weir.asgi
async def inner(scope, receive, send):
    if scope["type"] == "lifespan":
        return
    note(weir.asgi.header(scope, "x-api-key"))
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
    await send({"type": "http.response.body", "body": b""})
(_, by, _, store), = LIMITS
app = weir.asgi.Limit(inner, store, RULE, **options(by, lambda scope: weir.asgi.header(scope, "x-api-key")))
"""
GUNICORN = ["/usr/bin/python3", "-m", "gunicorn", "-w", "1", "--threads", "4", "BINDS", "--log-level", "critical", "wsgi:app"]
UVICORN = ["/usr/bin/python3", "-m", "uvicorn", "--port", "PORT", "--log-level", "critical", "--lifespan", "off", "asgi:app"]


class Seen:
    """The application's lines, one for each request. It has when the answer is there."""

    def __init__(self, pipe):
        self.pipe, self.text, self.keys = pipe, b"", []
        fcntl.fcntl(pipe, fcntl.F_SETFL, fcntl.fcntl(pipe, fcntl.F_GETFL) | os.O_NONBLOCK)

    def __len__(self):
        self.text += self.pipe.read() or b""
        *lines, self.text = self.text.split(b"\n")
        self.keys += [json.loads(line) for line in lines]
        return len(self.keys)

    def __getitem__(self, which):
        return self.keys[which]


class Service:
    """The process that command starts, for pairs of an application and its limit: by key or by address. It may be ready
    later."""

    def __init__(self, test, limits, command, folder, environment=None):
        self.test = test
        self.limits = [(name, by, free_port(), os.environ["WEIR_TEST_MEMCACHED_META"]
                        + f"&timeout=10s&namespace=hostile-{os.getpid()}-{name}-{by}") for name, by in limits]
        ports = [str(port) for _, _, port, _ in self.limits]
        binds = ["--bind=127.0.0.1:" + port for port in ports]
        words = [word for each in command for word in (binds if each == "BINDS" else [each.replace("PORT", ports[0])])]
        self.process = subprocess.Popen(
            words, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, bufsize=0,
            env={**(os.environ if environment is None else environment), "LIMITS": json.dumps(self.limits)})
        test.addCleanup(self.end)

    def assert_holds(self):
        seen = Seen(self.process.stdout)
        for name, by, port, _ in self.limits:
            until = time.monotonic() + 60
            while not answers(port):
                self.test.assertTrue(self.process.poll() is None and time.monotonic() < until, name)
                time.sleep(0.05)
            with self.test.subTest(name=name, by=by):
                if by == "key":
                    hostile_forms.assert_alice_stays_out(self.test, port, seen)
                else:
                    hostile_forms.assert_none_enters(self.test, port, seen)

    def end(self):
        self.process.terminate()
        self.process.wait(60)
        self.process.stdout.close()


def assert_all_hold(services):
    """They started side by side, and end so."""
    for service in services:
        service.assert_holds()
        service.process.terminate()


def answers(port):
    try:
        return hostile_forms.send(port, hostile_forms.fields(), "127.0.9.1") is not None
    except OSError:
        return False


class Middleware(unittest.TestCase):
    def test_forms(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        for name, text in (("wsgi", WSGI), ("asgi", ASGI)):
            pathlib.Path(folder.name, f"{name}.py").write_text(text, encoding="ascii")
        limits = [[("asgi", "key")], [("asgi", "address")], [("wsgi", "key"), ("wsgi", "address"), ("flask", "key"), ("django", "key")]]
        assert_all_hold([Service(self, each, UVICORN if each[0][0] == "asgi" else GUNICORN, folder.name) for each in limits])


if __name__ == "__main__":
    unittest.main()
