"""The page /status in Chromium, which is to be had from Debian. Its clock is virtual, so that the
page has polled a few times when its state is written down.

    WEIR_PROGRAM=build/dev/weir WEIR_CHROMIUM=chromium python3 tests/serve/test_browser.py

WEIR_SHOTS=FOLDER keeps pictures, light, dark and narrow, to look at."""

import html
import os
import re
import subprocess
import tempfile
import threading
import unittest

from server import BASE, PATIENCE_S, Server

FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
         "--disable-background-networking", "--disable-component-update", "--disable-sync",
         "--disable-dev-shm-usage", "--virtual-time-budget=8000"]
HOSTILE = b"<img src=x onerror=\"document.title='owned'\">"
CONFIG = BASE.replace("limiters:\n", """  away: {url: "redis://127.0.0.1:1?timeout=1s", fallback: allow}
limiters:
  keys: {store: main, rule: "quota:1/1d", log_keys: plain}
  lost: {store: away, rule: "quota:1/1d"}
""")


def browse(server, *flags):
    with tempfile.TemporaryDirectory(prefix="weir-chromium-", ignore_cleanup_errors=True) as folder:
        told = subprocess.run([os.environ["WEIR_CHROMIUM"], *FLAGS, "--user-data-dir=" + folder, *flags,
                               "http://127.0.0.1:%d/status" % server.ports["admin"][0]],
                              capture_output=True, timeout=2 * PATIENCE_S)
    if told.returncode != 0:
        raise AssertionError(told.stderr.decode("utf-8", "replace"))
    return told.stdout.decode("utf-8")


def text_of(dom, name):
    """What the element with this id says."""
    found = re.search(r'<(\w+)[^>]* id="%s"[^>]*>(.*?)</\1>' % name, dom, re.DOTALL)
    return html.unescape(re.sub(r"<[^>]+>", " ", found.group(2)))


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
        with Server(CONFIG) as server, Load(server):
            dom = browse(server, "--dump-dom")
            for name, flags in (("light", []), ("dark", ["--blink-settings=preferredColorScheme=0"]),
                                ("narrow", ["--window-size=500,1400"])):
                if "WEIR_SHOTS" in os.environ:
                    browse(server, "--screenshot=%s/%s.png" % (os.environ["WEIR_SHOTS"], name),
                           "--window-size=1200,1250", *flags)
        self.assertIn("<title>weir: serving, a store is away</title>", dom)
        self.assertIn("in this process", text_of(dom, "stores"))
        self.assertRegex(text_of(dom, "stores"), r"127\.0\.0\.1:1\s+away\s+(away|being tried)")
        for name in ("keys", "lost", "big", "on demand", "shadow", "quota:1/1d"):
            self.assertIn(name, text_of(dom, "limiters"))
        self.assertIn(HOSTILE.decode().replace('"', "\\x22"), text_of(dom, "keys"))
        self.assertNotIn("<img", dom)
        self.assertRegex(text_of(dom, "tiles"), r"Decisions\s+[\d.,]+\s+a second")  # two polls at least
        self.assertRegex(dom, r'<polyline points="[\d.]+,[\d.]+ ')

    def test_a_token_is_asked_for(self):
        admin = 'admin: {address: "127.0.0.1:0"'
        with Server(BASE.replace(admin, admin + ', auth: "s3cret-token"')) as server:
            dom = browse(server, "--dump-dom")
        self.assertIn('<title>weir: a token is needed</title>', dom)
        self.assertNotRegex(dom, r'<form id="login"[^>]* hidden')
        self.assertRegex(dom, r'<div id="figures" hidden')


if __name__ == "__main__":
    unittest.main()
