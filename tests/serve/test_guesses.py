"""Those who guess passwords and tokens, and those of the same address who know them."""

import signal
import time
import unittest

from h2 import HEADERS, Raw, call
from server import BASE, PATIENCE_S, Client, Server, await_that, command, http

GET = "GET /check/big?key=k HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n\r\n"
LOCKED = '{address: "127.0.0.1:0", auth: secret}'
CONFIG = BASE.replace('resp: {address: "127.0.0.1:0"}', "resp: " + LOCKED).replace(
    'http: {address: "127.0.0.1:0"}', f"http: {LOCKED}\n  grpc: {LOCKED}")
HEALTH = {":path": "/grpc.health.v1.Health/Check"}
PROTOCOLS = ("resp", "http", "grpc")
AT_ONCE = 1000  # different ones of an address; then one in ten seconds
ADDRESS = "127.0.0.2"


class Guesses(unittest.TestCase):
    def open(self, server, protocol, address=ADDRESS):
        if protocol == "grpc":
            client = Raw(server.ports["grpc"][0], source=address)
        else:
            client = server.connect(protocol, source=address)
        self.addCleanup(client.close)
        return client

    def show(self, client, protocol, secret):
        client.send(command("AUTH", secret) if protocol == "resp" else GET % secret if protocol == "http"
                    else call(1, b"", authorization="Bearer " + secret, **HEALTH))

    def is_let_in(self, client, protocol):
        """The answer, when it comes."""
        if protocol == "resp":
            return client.reply() == "+OK"
        if protocol == "http":
            return " 200 " in client.line()
        return client.until(HEADERS, 1)[1] & 1 == 0  # a refusal has no message: its head is its end

    def log_in(self, server, protocol, address=ADDRESS, secret="secret"):
        """Whether it is let in; how long that took."""
        client = self.open(server, protocol, address)
        began = time.monotonic()
        self.show(client, protocol, secret)
        is_in = self.is_let_in(client, protocol)
        took = time.monotonic() - began
        client.close()
        return is_in, took

    def count(self, server):
        return server.metric("weir_serve_unauthorized_total")

    def guess(self, server, count, name):
        """On connections of their own, which are gone before they hear."""
        before = self.count(server)
        for i in range(count):
            client = Client(("127.0.0.1", server.ports["resp"][0]), source=ADDRESS)
            client.send(command("AUTH", name % i if "%" in name else name))
            client.close()
        await_that(lambda: server.metric("weir_serve_connections") <= 1, "all of them to be gone")
        return self.count(server) - before

    def count_told(self, server, protocol):
        """How many of a thousand on each of two connections are refused in 0.6 s."""
        one = command("AUTH", "wrong") if protocol == "resp" else (GET % "wrong").encode()
        clients = [self.open(server, protocol) for _ in range(2)]
        for client in clients:
            client.send(one * 1000)
        time.sleep(0.6)
        answers = b""
        for client in clients:
            while not client.is_quiet() and client.fill():
                pass
            answers += client.buffer
        return answers.count(b"-WRONGPASS" if protocol == "resp" else b" 401 ")

    def test_each_refusal_of_an_address_waits_longer(self):
        for protocol in ("resp", "http"):
            with self.subTest(protocol=protocol), Server(CONFIG + "loops: 2\n") as server:
                told = self.count_told(server, protocol)
                self.assertIn(told, range(3, 8 + 2))  # 10, 20, 40 ... 320 ms, on either connection
                self.assertLess(0, server.metric("weir_serve_guesses_held_total"))
                self.assertIn(self.count(server) - told, range(5))  # those that are not told yet

    def test_the_right_one_waits_for_no_wrong_one(self):
        """Fifty wrong ones of its address, the same or all different, on each protocol and on all."""
        for name in ("wrong", "wrong-%d"):
            with self.subTest(name=name), Server(CONFIG + "loops: 2\n") as server:
                self.guess(server, 12, "wrong")  # from here on a refusal waits for ten seconds
                wrong = []
                for protocol in PROTOCOLS:
                    for i in range(50):
                        wrong.append(self.open(server, protocol))
                        self.show(wrong[-1], protocol, name % i if "%" in name else name)
                    for right in PROTOCOLS:
                        took = [self.log_in(server, right) for _ in range(3)]
                        self.assertTrue(all(is_in for is_in, _ in took))
                        self.assertLess(min(seconds for _, seconds in took), 0.1)
                await_that(lambda: self.count(server) == 12 + 150, "all of them to be looked at")
                self.assertTrue(all(client.is_quiet() for client in wrong if not isinstance(client, Raw)))
                for client in wrong:
                    client.close()

    def test_one_that_knows_no_better_holds_up_nobody(self):
        """The same wrong one, more often than there may be different ones."""
        with Server(CONFIG + "limits: {connections_per_address: 5000}\n") as server:
            self.assertEqual(self.guess(server, AT_ONCE + 200, "wrong"), AT_ONCE + 200)
            self.assertTrue(min(self.log_in(server, "resp") for _ in range(3))[1] < 0.1)

    def test_different_ones_are_few(self):
        """Whether their clients wait for the answer or not; and only their address has to wait, right ones too."""
        with Server(CONFIG + "limits: {connections_per_address: 5000}\n") as server:
            inside = self.open(server, "resp")
            self.show(inside, "resp", "secret")
            self.assertTrue(self.is_let_in(inside, "resp"))
            seen = self.guess(server, AT_ONCE + 200, "wrong-%d")
            self.assertIn(seen, range(AT_ONCE, AT_ONCE + 10))
            late = self.open(server, "http")
            self.show(late, "http", "secret")
            self.assertTrue(self.log_in(server, "http", "127.0.0.3")[0])
            self.assertEqual(inside.ask("PING"), "+PONG")
            self.assertTrue(late.is_quiet())

    def test_who_has_gone_takes_nobody_s_place(self):
        with Server(CONFIG + "limits: {connections_per_address: 20}\n") as server:
            self.assertEqual(self.guess(server, 18, "wrong"), 18)
            self.assertTrue(self.log_in(server, "resp")[0])

    def test_who_is_held_is_let_go_at_the_end(self):
        with Server(CONFIG + "limits: {drain: 10m, first_bytes: 1s}\n") as server:
            client = self.open(server, "resp")
            client.send(command("AUTH", "wrong") * 100)
            for _ in range(8):
                self.assertRegex(client.reply(), "^-WRONGPASS")
            self.assertEqual(server.metric("weir_serve_timeouts_total"), 0)
            gone = self.open(server, "resp")  # one that does not wait for it
            gone.send(command("AUTH", "wrong"))
            gone.close()
            server.process.send_signal(signal.SIGTERM)
            began = time.monotonic()
            self.assertEqual(server.process.wait(PATIENCE_S), 0)
            self.assertLess(time.monotonic() - began, 5)


if __name__ == "__main__":
    unittest.main()
