"""Certificates that end, and files of TLS that are renewed in place: of listeners and of stores."""

import os
import signal
import socket
import subprocess
import tempfile
import unittest

from server import MORTAL, PROGRAM, Server, await_that, http

CONFIG = """listen:
  resp: {address: "127.0.0.1:0"%s}
  admin: {address: "127.0.0.1:0"}
stores:
  main: {url: "rediss://127.0.0.1:%d?tls-ca=DIR/ca.pem&tls-cert=DIR/client.pem&tls-key=DIR/client.key"}
limiters:
  one: {store: main, rule: "quota:1000000/1d"}
"""


DECIDED = 'weir_serve_decisions_total{limiter="one",protocol="resp",decision="allowed",source="store"}'
KEY = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]


def openssl(folder, *words):
    subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)


def make_ca(folder):
    openssl(folder, "req", "-x509", *KEY, "-days", "30", "-subj", "/CN=ca",
            "-keyout", "ca.key", "-out", "ca.pem")


def make(folder, name, days):
    """Takes the place of what was there, as those do who renew certificates."""
    with open(os.path.join(folder, "names"), "w", encoding="ascii") as names:
        names.write("subjectAltName=IP:127.0.0.1\n")
    openssl(folder, "req", *KEY, "-subj", "/CN=" + name, "-keyout", name + ".key",
            "-out", name + ".csr")
    openssl(folder, "x509", "-req", "-in", name + ".csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial",
            "-days", str(days), "-extfile", "names", "-out", name + ".pem")


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Redis:
    """One that wants certificates of its clients, signed by the CA that it read when it began."""

    def __init__(self, folder, port):
        self.process = subprocess.Popen(
            [*MORTAL, "redis-server", "--port", "0", "--tls-port", str(port), "--tls-ca-cert-file", "ca.pem",
             "--tls-cert-file", "server.pem", "--tls-key-file", "server.key", "--save", ""],
            cwd=folder, stdout=subprocess.DEVNULL)

    def end(self):
        self.process.kill()
        self.process.wait()


class Certificates(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="weir-certificates-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.port = free_port()
        make_ca(self.folder)
        make(self.folder, "server", 20)
        make(self.folder, "client", 20)

    def config(self, listener=""):
        return (CONFIG % (listener, self.port)).replace("DIR", self.folder)

    def start(self, config):
        server = Server(config)
        self.addCleanup(server.end)
        return server

    def check(self, config):
        file = os.path.join(self.folder, "weir.yaml")
        with open(file, "w", encoding="utf-8") as out:
            out.write(config.replace("127.0.0.1:0", "127.0.0.1:6390", 1).replace("127.0.0.1:0", "127.0.0.1:6391"))
        result = subprocess.run([PROGRAM, "check", file], capture_output=True, text=True, check=False)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stderr

    def await_answers(self, server):
        def answered():
            client = server.connect()
            client.ask("WEIR.TAKE", "one", "key")
            client.close()
            return server.metric(DECIDED)
        before = answered()
        await_that(lambda: answered() > before, "an answer of the store")

    def test_a_reload_opens_the_files_of_a_store_anew(self):
        redis = Redis(self.folder, self.port)
        server = self.start(self.config())
        self.await_answers(server)
        redis.end()
        # Another CA, and all that it signs, in the files of the same names.
        make_ca(self.folder)
        make(self.folder, "server", 20)
        make(self.folder, "client", 20)
        redis = Redis(self.folder, self.port)
        self.addCleanup(redis.end)
        server.process.send_signal(signal.SIGHUP)
        server.await_log("is in use now")
        self.await_answers(server)

    def test_files_that_cannot_be_used_leave_all_as_it_was(self):
        server = self.start(self.config())
        with open(os.path.join(self.folder, "client.pem"), "w", encoding="ascii") as file:
            file.write("none\n")
        server.process.send_signal(signal.SIGHUP)
        server.await_log("store main: store URL: tls-cert=")
        server.await_log("is not used: the configuration stays as it was")

    def test_files_of_one_store_that_cannot_be_used_leave_those_of_all_as_they_were(self):
        for name in ("a", "c"):
            make(self.folder, name, 20)
        line = next(each for each in self.config().splitlines() if each.startswith("  main:"))
        others = "".join("\n" + line.replace("main", name).replace("client", name) for name in ("a", "c"))
        server = self.start(self.config().replace(line, line + others))
        ends = ['weir_serve_certificate_end_seconds{of="store",name="%s"}' % name for name in ("main", "a", "c")]
        before = [server.metric(name) for name in ends]
        for name, days in (("client", 40), ("a", 41), ("c", 42)):
            make(self.folder, name, days)
        with open(os.path.join(self.folder, "a.pem"), encoding="ascii") as file:
            good = file.read()
        with open(os.path.join(self.folder, "a.pem"), "w", encoding="ascii") as file:
            file.write("none\n")
        server.process.send_signal(signal.SIGHUP)
        server.await_log("is not used: the configuration stays as it was")
        self.assertEqual([server.metric(name) for name in ends], before)
        with open(os.path.join(self.folder, "a.pem"), "w", encoding="ascii") as file:
            file.write(good)
        server.process.send_signal(signal.SIGHUP)
        server.await_log("is in use now")
        self.assertEqual([round((server.metric(name) - was) / 86400) for name, was in zip(ends, before)], [20, 21, 22])

    def test_what_ends_soon_is_told(self):
        tls = ", tls: {certificate: DIR/server.pem, key: DIR/server.key}"
        self.assertEqual(self.check(self.config(tls)), "")
        make(self.folder, "server", 3)
        make(self.folder, "client", 0)
        said = self.check(self.config(tls))
        self.assertRegex(said, r"warning: listener 127\.0\.0\.1:6390: its certificate ends in [23] days, at ....-..-.. ..:..:.. UTC\n")
        self.assertRegex(said, r"warning: store main: its certificate has ended, at ")
        server = self.start(self.config(tls))
        server.await_log("listener 127.0.0.1:%d: its certificate ends in " % server.ports["resp"][0])
        server.await_log("store main: its certificate has ended, at ")
        ends = subprocess.run(["date", "-u", "+%s", "-d", subprocess.run(
            ["openssl", "x509", "-in", "client.pem", "-noout", "-enddate"], cwd=self.folder, capture_output=True,
            text=True, check=True).stdout.split("=")[1].strip()], capture_output=True, text=True, check=True).stdout
        self.assertEqual(server.metric('weir_serve_certificate_end_seconds{of="store",name="main"}'), float(ends))
        make(self.folder, "client", 20)
        server.process.send_signal(signal.SIGHUP)
        server.await_log("is in use now")
        self.assertGreater(server.metric('weir_serve_certificate_end_seconds{of="store",name="main"}'), float(ends))

    def test_the_name_of_a_listener_does_not_end_its_label(self):
        path = os.path.join(self.folder, "\"quoted\".sock")
        listener = "  http: {address: 'unix:%s', tls: {certificate: DIR/server.pem, key: DIR/server.key}}" % path
        config = self.config().replace("  admin:", listener.replace("DIR", self.folder) + "\n  admin:")
        client = self.start(config).connect("admin")
        page = http(client, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")[1]
        client.close()
        self.assertIn('{of="listener",name="unix:%s"} ' % path.replace('"', '\\"'), page)


if __name__ == "__main__":
    unittest.main()
