"""What recipes need: their own text, a proxy that runs by it, an application behind the proxy, and a
client whose address can be chosen."""

import http.client
import http.server
import os
import re
import socket
import subprocess
import tempfile
import threading

from server import MORTAL, PATIENCE_S, await_that, hold_port

DOCS = os.path.join(os.path.dirname(__file__), "..", "..", "docs")
API = 'rule: "sliding-window:100/1m"'  # as the pages have it: too many for a test, and too soon over
THREE = 'rule: "quota:3/1d"'


def blocks(page, language):
    """The blocks of one language in a page of docs, in order."""
    with open(os.path.join(DOCS, page), encoding="utf-8") as file:
        return re.findall(r"^```%s\n(.*?)^```$" % language, file.read(), re.MULTILINE | re.DOTALL)


def replace(text, *pairs):
    """Each must be there: a page that has changed is not tried by halves."""
    for old, new in pairs:
        if old not in text:
            raise AssertionError(f"the page has no {old!r}")
        text = text.replace(old, new)
    return text


def on_free_ports(config):
    """A configuration of a page, for a server of the tests."""
    return replace(re.sub(r"127\.0\.0\.1:(8080|9090|6380)", "127.0.0.1:0", config), (API, THREE))


class Application:
    """Answers 200 to all, 403 to /forbidden, and counts."""

    def __init__(self):
        application = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                application.asked += 1
                body = b"hello\n"
                self.send_response(403 if self.path == "/forbidden" else 200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def do_POST(self):
                self.rfile.read(int(self.headers["Content-Length"]))
                self.do_GET()

            def log_message(self, *_):
                pass

        self.asked = 0
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]
        self.thread = threading.Thread(target=self.server.serve_forever)
        self.thread.start()

    def end(self):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


class Proxy:
    """A program that runs in the foreground by its files, and shares a port that is held for it.

    files: name to text; there and in arguments FOLDER stands for where they are, and PORT for the port."""

    def __init__(self, files, *arguments):
        self.held = hold_port()
        self.port = self.held.getsockname()[1]
        self.folder = tempfile.TemporaryDirectory(prefix="weir-recipe-")
        os.chmod(self.folder.name, 0o755)  # root's proxy works as somebody else
        for name, text in files.items():
            with open(os.path.join(self.folder.name, name), "w", encoding="utf-8") as file:
                file.write(text.replace("FOLDER", self.folder.name).replace("PORT", str(self.port)))
        self.log = tempfile.TemporaryFile("w+")
        home = dict(os.environ, HOME=self.folder.name, XDG_DATA_HOME=self.folder.name,
                    XDG_CONFIG_HOME=self.folder.name, PATH=os.environ["PATH"] + ":/usr/sbin")
        self.process = subprocess.Popen(
            [*MORTAL, *(a.replace("FOLDER", self.folder.name) for a in arguments)], env=home,
            stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        try:
            await_that(self.is_ready, arguments[0])
        except AssertionError:
            self.end()
            raise

    def said(self):
        self.log.seek(0)
        return self.log.read()

    def is_ready(self):
        if self.process.poll() is not None:
            raise AssertionError(self.said())
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def get(self, path="/", source="127.0.0.2", fields=None, body=None):
        """(status, fields, body) of one request of a client at an address of loopback."""
        client = http.client.HTTPConnection("127.0.0.1", self.port, PATIENCE_S, (source, 0))
        client.request("GET" if body is None else "POST", path, body, fields or {})
        answer = client.getresponse()
        text = answer.read()
        client.close()
        return answer.status, answer.headers, text

    def end(self):
        self.process.terminate()
        try:
            self.process.wait(PATIENCE_S)
        finally:
            self.process.kill()
            self.log.close()
            self.held.close()
            self.folder.cleanup()

