"""A server with descriptor files, and what it is asked."""

import json
import os
import tempfile
import unittest

from recipe import DOCS
from server import Server, http
from test_http import post

LISTEN = """
listen:
  resp: {address: "127.0.0.1:0"}
  http: {address: "127.0.0.1:0"}
  admin: {address: "127.0.0.1:0"}
"""
STORES = 'stores: {main: {url: "memory:?timeout=10s"}}\n'
YEAR_S = 365 * 86400
UNLIMITED = 2**32 - 1


def page_text(page):
    with open(os.path.join(DOCS, page), encoding="utf-8") as file:
        return file.read()


def per_year(requests, more=""):
    """A limit whose window does not end while a test runs."""
    return "rate_limit: {unit: year, requests_per_unit: %d%s}" % (requests, more)


def entries(text):
    """KEY=VALUE/KEY=VALUE"""
    pairs = [pair.partition("=") for pair in text.split("/")]
    return [{"key": key, "value": value} for key, _, value in pairs]


def question(domain, *descriptors, **more):
    return {"domain": domain, "descriptors": [d if isinstance(d, dict) else {"entries": entries(d)}
                                              for d in descriptors], **more}


class Served(unittest.TestCase):
    listen = LISTEN

    def start(self, files, envoy="", rest="", stores=STORES, **options):
        """A server with these descriptor files; `envoy`: what else is said there."""
        kept = tempfile.TemporaryDirectory(prefix="weir-envoy-")
        self.addCleanup(kept.cleanup)
        folder = kept.name
        for name, text in files.items():
            self.write(folder, name, text)
        server = Server(self.listen + stores + "envoy: {files: %s/*.yaml%s}\n" % (folder, envoy) + rest, **options)
        self.addCleanup(server.end)
        server.files = folder
        return server

    @staticmethod
    def write(folder, name, text):
        """As editors do; one that must be seen as another even within a clock's tick has another size."""
        with open(os.path.join(folder, name + ".new"), "w", encoding="utf-8") as file:
            file.write(text)
        os.rename(os.path.join(folder, name + ".new"), os.path.join(folder, name))

    def ask(self, server, *args, **more):
        """(status, answer)"""
        client = server.connect("http")
        status, body, fields = http(client, post("/json", question(*args, **more)))
        client.close()
        self.assertEqual(fields["content-type"], "application/json", body)
        told = json.loads(body)
        self.assertEqual(status, 429 if told["overallCode"] == "OVER_LIMIT" else 200)
        return told

    def codes(self, server, *args, **more):
        """As "+" and "-": the whole, and each descriptor."""
        told = self.ask(server, *args, **more)
        marks = {"OK": "+", "OVER_LIMIT": "-"}
        return marks[told["overallCode"]] + " " + "".join(marks[s["code"]] for s in told["statuses"])
