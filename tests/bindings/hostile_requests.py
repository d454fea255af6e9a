"""Requests as a client may write them that is over its limit, to middleware behind the servers that people use: the
list of tests/serve/hostile_forms.py. What the application takes for a key is what was counted."""
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

# Each says on stdout which key it was asked with, before it answers.
COMMON = """
import json, os
STORE, RULE = os.environ["WEIR_STORE"], "3/1d"
OPTIONS = {"trusted": "127.0.0.1"}
def note(key):
    os.write(1, json.dumps([(key or "")[:300]]).encode() + b"\\n")
"""
METHODS = '["GET", "POST", "PURGE", "HEAD"]'
APPLICATIONS = {
    "wsgi": """
import weir.wsgi
def inner(environ, start_response):
    note(environ.get("HTTP_X_API_KEY"))
    start_response("200 OK", [("Content-Length", "0")])
    return [b""]
if os.environ["BY"] == "key":
    OPTIONS["key"] = lambda environ: environ.get("HTTP_X_API_KEY")
app = weir.wsgi.Limit(inner, STORE, RULE, **OPTIONS)
""",
    "flask": """
import weir.flask
from flask import Flask, request
app = Flask(__name__)
if os.environ["BY"] == "key":
    OPTIONS["key"] = lambda: request.headers.get("X-Api-Key")
weir.flask.Limits(STORE).all(app, RULE, **OPTIONS)
@app.route("/", defaults={"path": ""}, methods=%s)
@app.route("/<path:path>", methods=%s)
def view(path):
    note(request.headers.get("X-Api-Key"))
    return "ok"
""" % (METHODS, METHODS),
    "django": """
from django.conf import settings
if os.environ["BY"] == "key":
    OPTIONS["key"] = lambda request: request.headers.get("X-Api-Key")
settings.configure(ALLOWED_HOSTS=["*"], ROOT_URLCONF=__name__, SECRET_KEY="of a test",
                   MIDDLEWARE=["weir.django.Middleware"], WEIR={"store": STORE, "rule": RULE, **OPTIONS})
from django.core.wsgi import get_wsgi_application
from django.http import HttpResponse
from django.urls import re_path
def view(request):
    note(request.headers.get("X-Api-Key"))
    return HttpResponse("ok")
urlpatterns = [re_path("(?s).*", view)]
app = get_wsgi_application()
""",
    "asgi": """
import weir.asgi
async def inner(scope, receive, send):
    if scope["type"] == "lifespan":
        return
    note(weir.asgi.header(scope, "x-api-key"))
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
    await send({"type": "http.response.body", "body": b""})
if os.environ["BY"] == "key":
    OPTIONS["key"] = lambda scope: weir.asgi.header(scope, "x-api-key")
app = weir.asgi.Limit(inner, STORE, RULE, **OPTIONS)
""",
}
GUNICORN = ["/usr/bin/python3", "-m", "gunicorn", "-w", "1", "--threads", "4", "-b", "127.0.0.1:PORT", "--log-level", "critical", "service:app"]
UVICORN = ["/usr/bin/python3", "-m", "uvicorn", "--port", "PORT", "--log-level", "critical", "--lifespan", "off", "service:app"]


class Seen:
    """What the application has said, one line for each request. It has when the answer is there."""

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
    """What command starts, with a limit by key or by address; it may be ready later."""

    def __init__(self, test, name, by, command, folder, environment=None):
        self.test, self.name, self.by, self.port = test, name, by, free_port()
        url = os.environ["WEIR_TEST_MEMCACHED_META"] + f"&timeout=10s&namespace=hostile-{os.getpid()}-{name}-{by}"
        self.process = subprocess.Popen(
            [each.replace("PORT", str(self.port)) for each in command], cwd=folder, stdout=subprocess.PIPE, bufsize=0,
            env={**(os.environ if environment is None else environment), "WEIR_STORE": url, "BY": by})
        test.addCleanup(self.end)

    def assert_holds(self):
        until = time.monotonic() + 60
        while not answers(self.port):
            self.test.assertTrue(self.process.poll() is None and time.monotonic() < until, self.name)
            time.sleep(0.05)
        seen = Seen(self.process.stdout)
        with self.test.subTest(name=self.name, by=self.by):
            if self.by == "key":
                hostile_forms.assert_alice_stays_out(self.test, self.port, seen)
            else:
                hostile_forms.assert_none_enters(self.test, self.port, seen)

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
        services = []
        for name, by in (("wsgi", "key"), ("wsgi", "address"), ("asgi", "key"), ("asgi", "address"), ("flask", "key"), ("django", "key")):
            folder = tempfile.TemporaryDirectory()
            self.addCleanup(folder.cleanup)
            pathlib.Path(folder.name, "service.py").write_text(COMMON + APPLICATIONS[name])
            services.append(Service(self, name, by, UVICORN if name == "asgi" else GUNICORN, folder.name))
        assert_all_hold(services)


if __name__ == "__main__":
    unittest.main()
