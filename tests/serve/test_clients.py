"""Clients of Redis, and curl, by docs/serve/clients.md."""

import http.client
import json
import os
import re
import socket
import subprocess
import tempfile
import unittest

from recipe import blocks, on_free_ports, replace
from server import PATIENCE_S, Server, Store, await_that, hold_port

PAGE = "serve/clients.md"
DEBIAN_PYTHON = "/usr/bin/python3"  # which python3-redis is for


def patient(text):
    """A program that waits for an answer as long as a busy machine takes: an answer that is late is asked for
    again by redis-rb, and counts twice."""
    return text.replace("timeout: 0.1", "timeout: 10").replace(", 0.1", ", 10").replace(" 100L", " 10000L")


class Programs(unittest.TestCase):
    """The server of the page, and its programs."""

    @classmethod
    def setUpClass(cls):
        cls.store = Store("memcached")
        cls.addClassCleanup(cls.store.end)
        config, = blocks(PAGE, "yaml")
        cls.server = Server(replace(on_free_ports(config), (
            "memcached://127.0.0.1:11211", cls.store.url + "?timeout=10s")))
        cls.addClassCleanup(cls.server.end)

    def block(self, language, number=0):
        return self.on_ports(blocks(PAGE, language)[number])

    def on_ports(self, text):
        text = patient(text.replace("6380", str(self.server.ports["resp"][0])))
        return text.replace("127.0.0.1:8080", "127.0.0.1:%d" % self.server.ports["http"][0])

    def run_it(self, *command, **options):
        result = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False, **options)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout


class Clients(Programs):
    def test_shell(self):
        told = self.run_it("sh", "-e", input=self.block("sh")).split("\n")
        self.assertEqual(told[:5], ["0", "16", "15", "-1", "2"])
        self.assertEqual(told[5:11], ["allowed", "1", "limit", "3", "remaining", "1"])
        rest = "\n".join(told[11:])
        answer, status = re.search(r"(\{.*\})\s*(\d+)\s*\Z", rest).groups()
        self.assertEqual((json.loads(answer)["allowed"], json.loads(answer)["remaining"], status), (True, 0, "429"))

    def test_python(self):
        self.assertEqual(self.run_it(DEBIAN_PYTHON, "-c", self.block("python")), "0 16 15 -1 2\n1 2\n[0, 0]\n")

    def test_python_with_a_transaction(self):
        """As a pipeline of redis-py is, unless told: it is an error, and nothing of it is charged."""
        program = self.on_ports("""
import redis
limits = redis.Redis(port=6380)
pipeline = limits.pipeline()
for _ in range(2):
    pipeline.execute_command("CL.THROTTLE", "transaction", 15, 1, 86400)
try:
    print(pipeline.execute())
except redis.exceptions.ExecAbortError as error:
    print(str(error).split(":")[0], limits.execute_command("CL.THROTTLE", "transaction", 15, 1, 86400)[2])
""")
        self.assertEqual(self.run_it(DEBIAN_PYTHON, "-c", program), "Transaction discarded 15\n")

    def test_python_with_many_threads(self):
        """A client of Python is a pool: each thread at work has a connection."""
        program = self.on_ports("""
import redis, threading
limits, allowed = redis.Redis(port=6380), []
def work():
    for _ in range(10):
        with limits.pipeline(transaction=False) as pipeline:
            pipeline.execute_command("CL.THROTTLE", "threads", 15, 1, 86400)
            pipeline.execute_command("PING")
            allowed.append(pipeline.execute()[0][0] == 0)
threads = [threading.Thread(target=work) for _ in range(8)]
[thread.start() for thread in threads], [thread.join() for thread in threads]
print(len(allowed), sum(allowed))
""")
        self.assertEqual(self.run_it(DEBIAN_PYTHON, "-c", program), "80 16\n")

    def test_settling(self):
        told = self.run_it("sh", "-e", input=self.block("sh", 1)).split("\n")
        self.assertEqual(told[:6], ["allowed", "1", "limit", "3", "remaining", "2"])
        self.assertEqual(told[told.index("source") + 1], "settled")

    def test_a_login(self):
        told = self.run_it("sh", "-e", input=self.block("sh", 2)).strip().split("\n")
        self.assertEqual((told[1], told[5], told[-1]), ("1", "1", "by_account"))
        answers = [json.loads(line) for line in told if line.startswith("{")]
        self.assertEqual((answers[0]["allowed"], answers[0]["remaining"], answers[1]["detail"]), (True, 0, "by_account"))

    def test_places(self):
        program = self.block("python", 1)
        self.assertEqual(self.run_it(DEBIAN_PYTHON, "-c", program), "at work\n{'held': 1, 'store': 'OK'}\n")
        # One that dies at work leaves its place: there are two.
        dies = replace(program, ('print("at work")', "import os; os.abort()"))
        for _ in range(3):
            self.assertLess(subprocess.run([DEBIAN_PYTHON, "-c", dies], check=False).returncode, 0)
            await_that(lambda: self.server.metric('weir_places_held{limiter="jobs"}') == 0, "the place of the dead")

    def test_node(self):
        told = self.run_it("/usr/bin/node", "-e", self.block("js"), env=dict(os.environ, NODE_PATH="/usr/share/nodejs"))
        self.assertEqual(told, "0 16 15\n")

    def test_hiredis(self):
        with tempfile.TemporaryDirectory(prefix="weir-hiredis-") as folder:
            program = os.path.join(folder, "limited")
            self.run_it("cc", "-x", "c", "-Wall", "-Werror", "-o", program, "-", "-lhiredis", input=self.block("c"))
            self.assertEqual(self.run_it(program), "0, 15 remain\n")

    def test_libcurl(self):
        with tempfile.TemporaryDirectory(prefix="weir-libcurl-") as folder:
            program = os.path.join(folder, "asked")

            def build(text):
                self.run_it("cc", "-x", "c", "-Wall", "-Wextra", "-Werror", "-o", program, "-", "-lcurl", input=text)

            text = self.block("c", 1)
            build(text)
            self.assertRegex(self.run_it(program), r"\A(go on\n){3}429, again in [1-9]\d* s\n\Z")
            with hold_port() as held:
                build(replace(text, (":%d/" % self.server.ports["http"][0], ":%d/" % held.getsockname()[1])))
                self.assertEqual(self.run_it(program), "no limits, go on\n" * 4)

    def away(self, text):
        """The program, where nothing listens."""
        with hold_port() as held:
            return replace(text, (str(self.server.ports["resp"][0]), str(held.getsockname()[1])))

    @staticmethod
    def listens(port):
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    def serve_php(self, program):
        """Where a page is served."""
        with hold_port() as held:
            port = held.getsockname()[1]  # PHP listens at none that is held
        page = tempfile.NamedTemporaryFile("w", suffix=".php")
        self.addCleanup(page.close)
        page.write(program)
        page.flush()
        php = subprocess.Popen(["php", "-S", f"127.0.0.1:{port}", page.name], stderr=subprocess.DEVNULL)
        self.addCleanup(php.wait)
        self.addCleanup(php.terminate)
        await_that(lambda: self.listens(port), "php")
        return port

    def test_php_without_limits(self):
        port = self.serve_php(self.away(self.block("php")))
        self.assertEqual([self.get(port) for _ in "12"], [(200, None, None, "hello\n")] * 2)

    def impatient(self):
        """A server that ends a connection which rests for a second."""
        config, = blocks(PAGE, "yaml")
        server = Server(replace(on_free_ports(config), ("memcached://127.0.0.1:11211", "memory:")) +
                        "limits: {idle: 1s}\n")
        self.addCleanup(server.end)
        return server

    def test_php_keeps_its_connection_and_makes_another(self):
        server = self.impatient()
        port = self.serve_php(replace(blocks(PAGE, "php")[0], ("6380", str(server.ports["resp"][0]))))
        for left in (15, 14):
            self.assertTrue(self.get(port)[2].startswith('"default";r=%d;' % left))
            self.assertEqual(server.metric("weir_serve_connections"), 1)
        await_that(lambda: server.metric("weir_serve_connections") == 0, "the connection's end")
        self.assertEqual(self.get(port)[0], 200)
        self.assertEqual(server.metric("weir_serve_connections"), 1)

    def test_php(self):
        port = self.serve_php(self.block("php"))
        told = [self.get(port) for _ in range(18)]
        self.assertEqual(told[0][:1] + told[0][2:], (200, '"default";r=15;t=2', "hello\n"))
        self.assertEqual([status for status, *_ in told], [200] * 16 + [429] * 2)
        self.assertGreater(int(told[-1][1]), 0)

    @staticmethod
    def get(port):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
        connection.request("GET", "/")
        response = connection.getresponse()
        return (response.status, response.getheader("Retry-After"), response.getheader("RateLimit"),
                response.read().decode())

    def test_ruby(self):
        service = self.block("ruby") + """
limited = Limit.new(->(env) { [200, { "Content-Type" => "text/plain" }, ["hello"]] })
18.times { p limited.call("REMOTE_ADDR" => "192.0.2.77") }
"""
        told = self.run_it("ruby", "-W0", "-e", service).splitlines()
        self.assertIn('[200, {"Content-Type"=>"text/plain", "RateLimit"=>"\\"default\\";r=15;t=2"}, ["hello"]]', told[0])
        self.assertEqual([each[1:4] for each in told], ["200"] * 16 + ["429"] * 2)
        self.assertRegex(told[-1], r'"Retry-After"=>"\d+"')

    def test_ruby_without_limits(self):
        program = self.away(self.block("ruby")) + """
p Limit.new(->(env) { [200, {}, ["hello"]] }).call("REMOTE_ADDR" => "192.0.2.77")
"""
        self.assertEqual(self.run_it("ruby", "-W0", "-e", program), '[200, {}, ["hello"]]\n')

    def test_ruby_with_threads_and_a_connection_that_ended(self):
        server = self.impatient()
        program = patient(replace(blocks(PAGE, "ruby")[0], ("6380", str(server.ports["resp"][0])))) + """
limited = Limit.new(->(env) { [200, {}, []] })
told = 8.times.map { Thread.new { 10.times.map { limited.call("REMOTE_ADDR" => "192.0.2.77")[0] } } }.flat_map(&:value)
sleep 2.5
p told.count(200).between?(16, 20), told.count(429).between?(60, 64), limited.call("REMOTE_ADDR" => "192.0.2.78")[1]
"""
        self.assertEqual(self.run_it("ruby", "-W0", "-e", program),
                         'true\ntrue\n{"RateLimit"=>"\\"default\\";r=15;t=2"}\n')


if __name__ == "__main__":
    unittest.main()
