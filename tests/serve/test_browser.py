"""The page /status in Chromium, which is to be had from Debian. A page is waited for by what it shows: in virtual
time, a page that came slowly was written down before its script ran. And what a page of another origin can
do to a server that asks for no token.

    WEIR_PROGRAM=build/dev/weir WEIR_CHROMIUM=chromium python3 tests/serve/test_browser.py

WEIR_SHOTS=FOLDER keeps pictures, light, dark and narrow, to look at."""

import base64
import html
import http.server
import json
import os
import pathlib
import re
import subprocess
import tempfile
import threading
import time
import unittest
import urllib.request

from server import BASE, PATIENCE_S, Server

FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
         "--disable-background-networking", "--disable-component-update", "--disable-sync",
         "--disable-dev-shm-usage", "--remote-debugging-pipe"]
HOSTILE = "<img src=x onerror=\"document.title='owned'\"> m\u00fcller".encode()
PAGE = pathlib.Path(__file__).parents[2] / "src/server/serve/status.html"
CONFIG = BASE.replace("limiters:\n", """  away: {url: "redis://127.0.0.1:1?timeout=1s", fallback: allow}
limiters:
  keys: {store: main, rule: "quota:1/1d", log_keys: plain}
  lost: {store: away, rule: "quota:1/1d"}
""")


class Chromium:
    """One that shows a page, and is asked by the protocol of its developer tools: JSON, each message ended by a 0."""

    def __init__(self, url, *flags):
        self.folder = tempfile.TemporaryDirectory(prefix="weir-chromium-", ignore_cleanup_errors=True)
        self.said = tempfile.TemporaryFile()
        (theirs, ours), (self.answers, answers) = os.pipe(), os.pipe()
        self.process = subprocess.Popen(
            ["bash", "-c", 'exec "$@" 3<&%d 4>&%d' % (theirs, answers), "bash", os.environ["WEIR_CHROMIUM"], *FLAGS,
             "--user-data-dir=" + self.folder.name, *flags, url],
            stdin=subprocess.DEVNULL, stdout=self.said, stderr=self.said, pass_fds=(theirs, answers))
        os.close(theirs)
        os.close(answers)
        self.requests, self.left, self.number, self.session = ours, b"", 0, {}
        self.watch = threading.Timer(4 * PATIENCE_S, self.process.kill)  # then `read` finds an end
        self.watch.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.close(self.requests)  # it ends, and its helpers with it
        self.process.wait()
        self.watch.cancel()
        os.close(self.answers)
        self.said.close()
        self.folder.cleanup()

    def read(self):
        while b"\0" not in self.left:
            some = os.read(self.answers, 1 << 16)
            if not some:
                self.said.seek(0)
                raise AssertionError("chromium ended: " + self.said.read().decode("utf-8", "replace"))
            self.left += some
        message, _, self.left = self.left.partition(b"\0")
        return json.loads(message)

    def ask(self, method, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params, **self.session}
        os.write(self.requests, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.read()
            if answer.get("id") == self.number:
                return answer.get("result", {})

    def attach(self):
        """To its page, once there is one."""
        while True:
            for target in self.ask("Target.getTargets")["targetInfos"]:
                if target["type"] == "page":
                    attached = self.ask("Target.attachToTarget", targetId=target["targetId"], flatten=True)
                    self.session = {"sessionId": attached["sessionId"]}
                    return
            time.sleep(0.1)

    def dom(self):
        """Nothing between one document and the next."""
        asked = self.ask("Runtime.evaluate", expression="document.documentElement.outerHTML", returnByValue=True)
        return asked.get("result", {}).get("value", "")


def look(url, shown, *flags, shot=None):
    """What the page is as soon as `shown` is true of it; and a picture of it, where one is wanted."""
    with Chromium(url, *flags) as chromium:
        chromium.attach()
        end = time.monotonic() + 3 * PATIENCE_S
        while not shown(dom := chromium.dom()):
            if time.monotonic() > end:
                raise AssertionError("never shown: " + dom)
            time.sleep(0.2)
        if shot is not None:
            pathlib.Path(shot).write_bytes(base64.b64decode(chromium.ask("Page.captureScreenshot")["data"]))
        return dom


def browse(server, shown, *flags, shot=None):
    return look("http://127.0.0.1:%d/status" % server.ports["admin"][0], shown, *flags, shot=shot)


def text_of(dom, name):
    """The text of the element with this id."""
    found = re.search(r'<(\w+)[^>]* id="%s"[^>]*>(.*?)</\1>' % name, dom, re.DOTALL)
    return html.unescape(re.sub(r"<[^>]+>", " ", found.group(2))) if found else ""


# Parts that are wider than their frame, once there are figures; and cells that lost their heads.
MEASURE = """<script>
setInterval(() => {
  const all = [document.documentElement, ...document.querySelectorAll(".wide")].filter(one => one.clientWidth > 0);
  const wide = all.filter(one => one.scrollWidth > one.clientWidth);
  const bare = [...document.querySelectorAll("tbody td:not([colspan]):not([data-label])")];
  const shown = document.querySelectorAll("#limiters td[data-label]").length > 0;
  document.title = !shown ? "no figures" : wide.length + bare.length > 0
    ? "not " + [...wide.map(one => one.scrollWidth), ...bare.map(one => one.outerHTML)].join(" ")
    : `fits ${all.length - 1} tables`;
}, 100);
</script>"""


def serve_pages(test, pages):
    """Pages by path, from another origin; the rest is that of "/"."""
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Type", "application/json" if self.path.endswith("json") else "text/html")
            self.end_headers()
            self.wfile.write(pages.get(self.path, pages["/"]))

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    test.addCleanup(thread.join)
    test.addCleanup(server.server_close)
    test.addCleanup(server.shutdown)
    return "http://127.0.0.1:%d/" % server.server_address[1]


class Load:
    """Somebody who asks all the time."""

    def __init__(self, server):
        self.client = server.connect()
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.run)

    def ask(self):
        for limiter in ("keys", "lost", "watched", "big"):
            self.client.ask("WEIR.TAKE", limiter, HOSTILE)

    def run(self):
        while not self.over.wait(0.005):
            self.ask()

    def __enter__(self):
        for _ in range(3):  # what the page shows is there before it looks
            self.ask()
        self.thread.start()

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()
        self.client.close()


class Page(unittest.TestCase):
    def test_figures_are_shown(self):
        def shown(dom):  # two polls at least
            return "a store is away</title>" in dom and re.search(r"Decisions\s+[\d.,]+\s+a second", text_of(dom, "tiles"))
        with Server(CONFIG) as server, Load(server):
            dom = browse(server, shown)
            for name, flags in (("light", []), ("dark", ["--blink-settings=preferredColorScheme=0"]),
                                ("narrow", ["--window-size=500,1400"])):
                if "WEIR_SHOTS" in os.environ:
                    browse(server, shown, "--window-size=1200,1250", *flags,
                           shot="%s/%s.png" % (os.environ["WEIR_SHOTS"], name))
        self.assertIn("<title>weir: serving, a store is away</title>", dom)
        self.assertIn("in this process", text_of(dom, "stores"))
        self.assertRegex(text_of(dom, "stores"), r"127\.0\.0\.1:1\s+away\s+(away|being tried)")
        for name in ("keys", "lost", "big", "on demand", "shadow", "quota:1/1d"):
            self.assertIn(name, text_of(dom, "limiters"))
        self.assertIn(HOSTILE.decode(), text_of(dom, "keys"))
        self.assertNotIn("<img", dom)
        self.assertRegex(dom, r'<polyline points="[\d.]+,[\d.]+ ')

    def test_classes_and_tenants_are_shown(self):
        with Server(BASE.replace("resp: {", "resp: {says: [class, tenant], ", 1).replace("limiters:\n", """limiters:
  jobs: {store: main, rule: "quota:9/1d,classes=batch:5"}
  pool: {store: main, rule: "shared-window:2480/1h,weights=north:1", log_keys: plain}
""")) as server:
            client = server.connect()
            client.ask("WEIR.TAKE", "jobs", "k", "CLASS", "batch")
            client.ask("WEIR.TAKE", "pool", "the pool", "TENANT", "north")
            client.close()
            dom = browse(server, lambda dom: "north" in text_of(dom, "tenants"))
        self.assertIn("batch: 1 allowed, 0 denied", text_of(dom, "limiters"))
        self.assertRegex(text_of(dom, "tenants"), r"north\s+the pool\s+pool\s")
        self.assertIn("none", text_of(dom, "stopped"))
        self.assertNotRegex(dom, r'id="tenants-card"[^>]* hidden')

    def test_a_narrow_screen_shows_all_columns(self):
        """The page with the figures of a server, from a page server, as a page's own policy lets nobody measure."""
        with Server(CONFIG) as server, Load(server):
            told = urllib.request.urlopen("http://127.0.0.1:%d/status.json" % server.ports["admin"][0]).read()
        text = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", PAGE.read_text(encoding="utf-8"))
        base = serve_pages(self, {"/": (text + MEASURE).encode(), "/status.json": told})
        dom = look(base, re.compile(r"<title>(fits|not) ").search, "--window-size=500,1400")
        self.assertRegex(re.search(r"<title>(\w+ [^<]*)</title>", dom).group(1), r"\Afits \d+ tables\Z")

    def test_a_token_is_asked_for(self):
        admin = 'admin: {address: "127.0.0.1:0"'
        with Server(BASE.replace(admin, admin + ', auth: "s3cret-token"')) as server:
            dom = browse(server, lambda dom: "<title>weir: a token" in dom)
        self.assertIn('<title>weir: a token is needed</title>', dom)
        self.assertNotRegex(dom, r'<form id="login"[^>]* hidden')
        self.assertRegex(dom, r'<div id="figures" hidden')


# All the ways in which a page may send, without asking, what another origin has not agreed to; and two
# that ask first.
FOREIGN = """<!doctype html><title>waits</title><iframe name=frame></iframe>
<iframe id=status src="http://127.0.0.1:ADMIN/status"></iframe>
<form id=form method=post enctype="text/plain" target=frame action="http://127.0.0.1:HTTP/take">
<input name='{"limiter":"api","key":"victim","x' value='":1}'></form>
<script>
const web = "http://127.0.0.1:HTTP", admin = "http://127.0.0.1:ADMIN";
const take = JSON.stringify({limiter: "api", key: "victim"});
const told = [];
async function ask(what, url, options) {
  try {
    const answer = await fetch(url, options);
    told.push(what + " " + (answer.type == "opaque" ? "opaque" : await answer.text()));
  } catch (error) {
    told.push(what + " refused");
  }
}
async function all() {
  for (const path of ["/take", "/reset"]) {
    await ask("text", web + path, {method: "POST", mode: "no-cors", body: take});
    await ask("form", web + path, {method: "POST", mode: "no-cors", body: new URLSearchParams({[take]: ""})});
    await ask("blob", web + path, {method: "POST", mode: "no-cors", body: new Blob([take])});
    await ask("name", web.replace("127.0.0.1", "localhost") + path, {method: "POST", mode: "no-cors", body: take});
    await ask("json", web + path, {method: "POST", headers: {"Content-Type": "application/json"}, body: take});
    navigator.sendBeacon(web + path, take);
  }
  await ask("read", admin + "/status.json", {});
  await ask("blind", admin + "/status.json", {mode: "no-cors"});
  document.getElementById("form").submit();
  setTimeout(() => { document.title = "done"; document.body.append(told.join("; ")); }, 2000);
}
all();
</script>"""


class Foreign(unittest.TestCase):
    """A page of another origin, at another port of loopback."""

    def test_a_page_of_another_origin_changes_nothing(self):
        with Server(BASE) as server:
            client = server.connect()
            client.ask("WEIR.TAKE", "api", "victim")
            page = FOREIGN.replace("HTTP", str(server.ports["http"][0])).replace("ADMIN", str(server.ports["admin"][0]))
            dom = look(serve_pages(self, {"/": page.encode()}), lambda dom: "<title>done</title>" in dom)
            left = client.ask("WEIR.PEEK", "api", "victim")
            self.assertEqual(left[left.index("remaining") + 1], 2, dom)
            client.close()
            self.assertLessEqual(8, server.metric("weir_serve_foreign_total"), dom)  # they did arrive
            self.assertEqual(server.metric('weir_serve_answers_total{decision="allowed"}'), 2)
            self.assertNotIn("limiters", dom.split("</script>")[-1])


if __name__ == "__main__":
    unittest.main()
