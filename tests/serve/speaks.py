"""Tests that ask a server over RESP and over HTTP what it answers by fields."""

import json
import unittest

from server import Server, http
from test_http import post


class Speaks(unittest.TestCase):
    """A class with a CONFIG has one server for all its tests; others start their own and speak to it."""

    CONFIG = None

    @classmethod
    def setUpClass(cls):
        if cls.CONFIG is not None:
            cls.server = Server(cls.CONFIG)
            cls.addClassCleanup(cls.server.end)

    def setUp(self):
        if self.CONFIG is not None:
            self.speak(self.server)

    def speak(self, server):
        self.client, self.web = server.connect(), server.connect("http")
        self.addCleanup(self.client.close)
        self.addCleanup(self.web.close)

    def fields(self, *words, client=None):
        flat = (client or self.client).ask(*words)
        self.assertIsInstance(flat, list, flat)
        return dict(zip(flat[::2], flat[1::2]))

    def told(self, path, body):
        status, text, _ = http(self.web, post(path, body))
        return status, json.loads(text)
