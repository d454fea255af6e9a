"""Sockets that systemd hands over, by docs/serve/systemd.md, and the configuration that the package brings;
house/debian looks at the units."""

import os
import pathlib
import re
import signal
import socket
import subprocess
import tempfile
import unittest

from recipe import blocks, on_free_ports, replace
from server import MORTAL, PATIENCE_S, PROGRAM, Client, Server, Store, await_that, http
from test_http import get

PACKAGED = pathlib.Path(__file__).parents[2] / "src/server/serve/systemd/weir.yaml"


def connect(path):
    """To a socket that is there before somebody listens."""
    connected = []

    def try_to():
        try:
            connected.append(Client(path, socket.AF_UNIX))
        except ConnectionRefusedError:
            return False
        return True

    await_that(try_to, path)
    return connected[0]


class Packaged(unittest.TestCase):
    def test_the_configuration_that_comes_along_serves(self):
        """At ports of its own: those of the file may be taken here."""
        text = PACKAGED.read_text(encoding="utf-8")
        addresses = re.findall(r'address: "([^"]*)"', text)
        self.assertEqual([one.rsplit(":", 1)[0] for one in addresses], ["127.0.0.1"] * 3)
        with Server(re.sub(r'address: "127\.0\.0\.1:\d+"', 'address: "127.0.0.1:0"', text)) as server:
            for protocol, path in (("http", "/check/api?key=alice"), ("admin", "/")):
                client = server.connect(protocol)
                self.assertEqual(http(client, get(path))[0], 200)
                client.close()
            client = server.connect()
            told = client.ask("WEIR.TAKE", "api", "alice")
            client.close()
            self.assertEqual(told[told.index("remaining") + 1], 98)


class Activation(unittest.TestCase):
    def start(self, command, folder, log):
        return subprocess.Popen([*MORTAL, "sh", "-c", "exec " + command], cwd=folder, stdin=subprocess.DEVNULL,
                                stdout=log, stderr=log,
                                env=dict(os.environ, PATH=os.path.dirname(PROGRAM) + ":" + os.environ["PATH"]))

    def test_both_protocols_come_by_systemd(self):
        store = Store("memcached")
        self.addCleanup(store.end)
        config, = blocks("serve/systemd.md", "yaml")
        command = blocks("serve/systemd.md", "sh")[-1]
        with tempfile.TemporaryDirectory(prefix="weir-systemd-") as folder:
            with open(folder + "/weir.yaml", "w", encoding="utf-8") as file:
                file.write(replace(on_free_ports(config), ("memcached://127.0.0.1:11211", store.url + "?timeout=10s")))
            paths = [folder + "/resp", folder + "/http"]
            command = replace(command, ("127.0.0.1:6380", paths[0]), ("127.0.0.1:8080", paths[1]))
            with open(folder + "/log", "w+", encoding="ascii") as log:
                process = self.start(command, folder, log)
                try:
                    await_that(lambda: all(map(os.path.exists, paths)), "the sockets")
                    web = connect(paths[1])  # this one starts the server
                    text = "GET /check/api?key=k HTTP/1.1\r\nHost: localhost\r\n\r\n"
                    self.assertEqual([http(web, text)[0] for _ in range(4)], [200, 200, 200, 403])
                    resp = connect(paths[0])
                    self.assertEqual(resp.ask("WEIR.TAKE", "api", "k")[1], 0)
                    self.assertEqual(resp.ask("CL.THROTTLE", "t", 15, 30, 60), [0, 16, 15, -1, 2])
                    for client in (web, resp):
                        client.close()
                    process.send_signal(signal.SIGTERM)
                    self.assertEqual(process.wait(PATIENCE_S), 0)
                    for path in paths:
                        self.assertTrue(os.path.exists(path), "the socket is systemd's, and stays")
                finally:
                    process.kill()
                    process.wait()


if __name__ == "__main__":
    unittest.main()
