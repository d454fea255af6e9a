"""The services of docs/examples/python, run by the servers that people run: who is denied, and how the
answer says so. frameworks.py EXAMPLES"""
import asyncio
import contextlib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import weir
import weir.asgi
from services import Memcached, Service, check, free_port, get, through_an_outage

PACKAGE = pathlib.Path(__file__).resolve().parents[2] / "src/bindings/python"
EXAMPLES = sys.argv.pop()
GUNICORN = [sys.executable, "-B", "-m", "gunicorn", "--log-level", "warning"]
# Each answers with the number of its process, which its log has in each line.
LOGGED = """
import logging, os
logging.basicConfig(format="%(process)d %(message)s")
URL = os.environ["WEIR_STORE"]
"""
WORKERS = {"wsgi": LOGGED + """
import weir.flask
from flask import Flask
app = Flask(__name__)
limit = weir.flask.Limits(URL)
limit.all(app, "1000000/1h")
@app.get("/")
def index():
    return str(os.getpid())
@app.get("/health")
@limit.exempt
def health():
    return "ok"
""", "asgi": LOGGED + """
import weir.starlette
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
limit = weir.starlette.Limits(URL)
app = Starlette()
@app.route("/")
@limit("1000000/1h")
async def index(request):
    return PlainTextResponse(str(os.getpid()))
@app.route("/health")
async def health(request):
    return PlainTextResponse("ok")
"""}


class Frameworks(unittest.TestCase):
    @staticmethod
    def service(name, *command):
        return Service(name, command, EXAMPLES, os.environ)

    def test_flask(self):
        with self.service("flask", *GUNICORN, "--preload", "-w", "3", "-b", "127.0.0.1:PORT", "flask_service:app") as service:
            check(self, service)
            # A worker that is killed: the next one goes on where the store stands.
            os.kill(service.children()[0], signal.SIGKILL)
            self.assertEqual(service.get("/search", x_user="alice")[0], 429)
            self.assertEqual(service.get("/search", x_user="carol")[0], 200)

    def test_django(self):
        with self.service("django", *GUNICORN, "--preload", "-w", "2", "-b", "127.0.0.1:PORT", "django_service:app") as service:
            check(self, service)
            self.assertEqual(service.get("/nowhere", x_forwarded_for="192.0.2.1")[0], 429)

    def test_wsgi(self):
        with self.service("wsgi", *GUNICORN, "--threads", "4", "-b", "127.0.0.1:PORT", "wsgi_service:app") as service:
            check(self, service)

    def test_starlette(self):
        with self.service("starlette", sys.executable, "-B", "-m", "uvicorn", "--log-level", "warning", "--no-proxy-headers",
                     "--port", "PORT", "starlette_service:app") as service:
            check(self, service)

    def test_four_workers_while_the_store_goes_and_comes(self):
        gunicorn = [*GUNICORN, "-w", "4", "-b", "127.0.0.1:PORT", "wsgi:app"]
        commands = {"preload": [*gunicorn, "--preload"], "each": [*gunicorn, "--threads", "2"],
                    "uvicorn": [sys.executable, "-B", "-m", "uvicorn", "--workers", "4", "--log-level", "warning",
                                "--port", "PORT", "asgi:app"]}
        with contextlib.ExitStack() as stack:
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            for name, text in WORKERS.items():
                pathlib.Path(folder, f"{name}.py").write_text(text, encoding="ascii")
            memcached = stack.enter_context(Memcached())
            services = [stack.enter_context(Service(name, command, folder, os.environ, memcached.url(f"timeout=5s&namespace={name}"),
                                                    f"{folder}/{name}.log"))
                        for name, command in commands.items()]
            through_an_outage(self, memcached, services, 4)

    def test_web_socket(self):
        """One that is denied is closed before it opens."""
        async def app(scope, receive, send):
            await send({"type": "websocket.accept"})

        async def ask():
            limited, sent = weir.asgi.Limit(app, "memory:", "1/1m", cost=lambda scope: 1), []

            async def receive():
                return {"type": "websocket.connect"}

            async def send(message):
                sent.append(message)
            for _ in range(2):
                await limited({"type": "websocket", "headers": [], "client": None}, receive, send)
            self.assertEqual([each["type"] for each in sent], ["websocket.accept", "websocket.close"])
            self.assertIn(b"ratelimit", dict(sent[0]["headers"]))
        asyncio.run(ask())

    def test_stranger(self):
        """A Flask application of somebody else's, limited by the commands of README as they stand there."""
        readme = (PACKAGE / "README.md").read_text()
        commands, = re.findall(r"^```sh flask\n(.*?)^```$", readme, re.M | re.S)
        self.assertLessEqual(len(commands.splitlines()), 5)
        url = os.environ["WEIR_TEST_MEMCACHED_META"] + "&timeout=10s&namespace=stranger"
        port = free_port()
        with tempfile.TemporaryDirectory() as folder:
            shutil.copytree(PACKAGE, f"{folder}/weir", ignore=shutil.ignore_patterns("__pycache__"))
            pathlib.Path(folder, "app.py").write_text("from flask import Flask\napp = Flask(__name__)\n"
                                                      "@app.get('/')\ndef index(): return 'mine\\n'\n")
            for given, here in (("memcached://localhost?namespace=shop", url), ("127.0.0.1:8000", f"127.0.0.1:{port}"),
                                ("weir/src/bindings/python", "./weir")):
                self.assertIn(given, commands)
                commands = commands.replace(given, here)
            # Debian's python3 is the one meant. The build needs what Debian has, and no network.
            away = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
            away["PATH"] = "/usr/bin:" + away["PATH"]
            began = time.monotonic()
            said = subprocess.run(["sh", "-eux", "-c", commands], cwd=folder, capture_output=True, text=True, check=False,
                                  env={**away, "PIP_NO_INDEX": "1", "PIP_NO_BUILD_ISOLATION": "0"})
            took = time.monotonic() - began
            try:
                self.assertEqual(said.returncode, 0, said.stdout + said.stderr)
                self.assertRegex(said.stdout, r'(?s)200 OK.*RateLimit: "default";r=99.*mine')
                self.assertEqual([get(port, "/")[0] for _ in range(100)], [200] * 99 + [429])
                print(f"limited in {len(commands.splitlines())} commands and {took:.1f} s", file=sys.stderr)
            finally:
                pid_file = pathlib.Path(folder, "pid")
                if pid_file.exists():
                    pid = int(pid_file.read_text())
                    os.kill(pid, signal.SIGTERM)
                    while pathlib.Path(f"/proc/{pid}").exists():
                        time.sleep(0.05)


if __name__ == "__main__":
    unittest.main()
