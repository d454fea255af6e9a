"""Clients of Redis, and curl, by docs/serve/clients.md."""

import json
import os
import re
import subprocess
import tempfile
import unittest

from recipe import blocks, on_free_ports, replace
from server import PATIENCE_S, Server, Store

PAGE = "serve/clients.md"
DEBIAN_PYTHON = "/usr/bin/python3"  # which python3-redis is for


class Clients(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.store = Store("memcached")
        cls.addClassCleanup(cls.store.end)
        config, = blocks(PAGE, "yaml")
        cls.server = Server(replace(on_free_ports(config), (
            "memcached://127.0.0.1:11211", cls.store.url + "?timeout=10s")))
        cls.addClassCleanup(cls.server.end)

    def block(self, language):
        text, = blocks(PAGE, language)
        text = replace(text, ("6380", str(self.server.ports["resp"][0])))
        return text.replace("127.0.0.1:8080", "127.0.0.1:%d" % self.server.ports["http"][0])

    def run_it(self, *command, **options):
        result = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False, **options)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout

    def test_shell(self):
        told = self.run_it("sh", "-e", input=self.block("sh")).split("\n")
        self.assertEqual(told[:5], ["0", "16", "15", "-1", "2"])
        self.assertEqual(told[5:11], ["allowed", "1", "limit", "3", "remaining", "1"])
        rest = "\n".join(told[11:])
        answer, status = re.search(r"(\{.*\})\s*(\d+)\s*\Z", rest).groups()
        self.assertEqual((json.loads(answer)["allowed"], json.loads(answer)["remaining"], status), (True, 0, "429"))

    def test_python(self):
        self.assertEqual(self.run_it(DEBIAN_PYTHON, "-c", self.block("python")), "0 16 15 -1 2\n1 2\n[0, 0]\n")

    def test_node(self):
        told = self.run_it("/usr/bin/node", "-e", self.block("js"), env=dict(os.environ, NODE_PATH="/usr/share/nodejs"))
        self.assertEqual(told, "0 16 15\n")

    def test_hiredis(self):
        with tempfile.TemporaryDirectory(prefix="weir-hiredis-") as folder:
            program = os.path.join(folder, "limited")
            self.run_it("cc", "-x", "c", "-Wall", "-Werror", "-o", program, "-", "-lhiredis", input=self.block("c"))
            self.assertEqual(self.run_it(program), "0, 15 remain\n")


if __name__ == "__main__":
    unittest.main()
