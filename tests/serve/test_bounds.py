"""Bounds on the server's time and memory: clients are slow, do not read, come too often or with too much."""

import os
import re
import signal
import socket
import time
import unittest

from server import BASE, PATIENCE_S, SANITIZED, Server, await_that, command, http

GET = "GET /check/%s?key=k HTTP/1.1\r\nHost: localhost\r\n\r\n"


class Clients(unittest.TestCase):
    def test_the_slow_are_closed(self):
        with Server(BASE + "limits: {first_bytes: 3s}\n") as server:
            silent = server.connect()
            half = server.connect()
            half.send("*1\r\n$4\r\nPI")
            header = server.connect("http")
            header.send("GET / HTTP/1.1\r\nHost:")
            for client in (silent, half, header):
                self.assertEqual(client.rest(), b"")
                client.close()
            self.assertEqual(server.metric("weir_serve_timeouts_total"), 3)

    def test_the_idle_are_closed(self):
        with Server(BASE + "limits: {idle: 1s}\n") as server:
            idle = server.connect()
            self.assertEqual(idle.ask("PING"), "+PONG")
            self.assertEqual(idle.rest(), b"")
            idle.close()
            self.assertEqual(server.metric("weir_serve_timeouts_total"), 1)

    def test_a_drip_does_not_hold_a_connection(self):
        with Server(BASE + "limits: {first_bytes: 1s}\n") as server:
            client = server.connect("http")
            until = time.monotonic() + PATIENCE_S
            with self.assertRaises(OSError):
                while time.monotonic() < until:
                    client.send("G")
                    time.sleep(0.05)
            client.close()

    def test_connections_are_counted(self):
        with Server(BASE + "limits: {connections: 4, connections_per_address: 3}\n") as server:
            clients = [server.connect() for _ in range(3)]
            for client in clients:
                self.assertEqual(client.ask("PING"), "+PONG")
            refused = server.connect()
            self.assertEqual(refused.rest(), b"-ERR max number of clients reached\r\n")
            refused.close()
            clients.pop().close()
            await_that(lambda: self.gets_in(server), "a place that is free again")
            for client in clients:
                client.close()

    def test_a_proxy_is_no_client(self):
        """A trusted client has as many connections as there are in all; any other has its own few."""
        config = BASE.replace('http: {', 'http: {trusted: ["127.0.0.9"], ') + "limits: {connections: 40, connections_per_address: 3}\n"
        with Server(config) as server:
            proxied = [server.connect("http", source="127.0.0.9") for _ in range(20)]
            others = [server.connect("http", source="127.0.0.2") for _ in range(3)]
            for client in proxied + others:
                self.assertEqual(http(client, "GET /check/big?key=a HTTP/1.1\r\nHost: localhost\r\n\r\n")[0], 200)
            refused = server.connect("http", source="127.0.0.2")
            self.assertIn(b"HTTP/1.1 503", refused.rest())
            for client in [*proxied, *others, refused]:
                client.close()
            await_that(lambda: self.gets_in(server), "places of all that have gone")
            of_resp = [server.connect(source="127.0.0.9") for _ in range(4)]
            self.assertEqual([client.ask("PING") for client in of_resp[:3]], ["+PONG"] * 3)
            self.assertEqual(of_resp[3].rest(), b"-ERR max number of clients reached\r\n")
            for client in of_resp:
                client.close()

    def gets_in(self, server):
        client = server.connect()
        try:
            return client.ask("PING") == "+PONG"
        except (EOFError, OSError):
            return False
        finally:
            client.close()

    def test_who_does_not_read_is_not_read(self):
        """64 MiB of requests with answers as long; the server keeps but a little of it."""
        with Server(BASE) as server:
            before = server.memory_kib()
            clients = [server.connect() for _ in range(4)]
            text = command("ECHO", "x" * 1000)
            for client in clients:
                client.socket.setblocking(False)
            sent = [0] * len(clients)
            quiet_since = time.monotonic()
            while time.monotonic() - quiet_since < 0.5 and max(sent) < 16 << 20:
                for i, client in enumerate(clients):
                    try:
                        at = sent[i] % len(text)
                        sent[i] += client.socket.send((text * 200)[at:])
                        quiet_since = time.monotonic()
                    except BlockingIOError:
                        time.sleep(0.001)
            self.assertLess(max(sent), 16 << 20, "it was read without an end")
            if not SANITIZED:
                self.assertLess(server.memory_kib() - before, 32 * 1024)
            other = server.connect()
            self.assertEqual(other.ask("PING"), "+PONG")
            other.close()
            for i, client in enumerate(clients):  # and what it did read is answered
                client.socket.settimeout(PATIENCE_S)
                for _ in range(sent[i] // len(text)):
                    self.assertEqual(client.take(len(text) - 14)[:5], b"$1000")
                client.close()

    def test_an_idle_connection_is_small(self):
        with Server(BASE + "limits: {connections_per_address: 2000}\n") as server:
            first = [server.connect() for _ in range(50)]
            for client in first:
                self.assertEqual(client.ask("WEIR.TAKE", "big", "k" * 4000)[1], 1)
            before = server.memory_kib()
            clients = [server.connect() for _ in range(500)]
            for client in clients:
                self.assertEqual(client.ask("WEIR.TAKE", "big", "k" * 4000)[1], 1)
            each = (server.memory_kib() - before) / len(clients)
            for client in first + clients:
                client.close()
            if not SANITIZED:
                self.assertLess(each, 16)

    def test_who_reads_too_slowly_is_closed(self):
        """Answers wait for him no longer than for a request."""
        with Server(BASE + "limits: {idle: 1s}\n") as server:
            client = server.connect()
            client.socket.setblocking(False)
            text = command("ECHO", "x" * 1000)
            sent = 0
            with self.assertRaises(OSError):  # nothing is read from him, then there is nobody
                until = time.monotonic() + PATIENCE_S
                while time.monotonic() < until:
                    try:
                        sent += client.socket.send((text * 100)[sent % len(text):])
                    except BlockingIOError:
                        time.sleep(0.01)
            client.close()
            await_that(lambda: server.metric("weir_serve_timeouts_total") == 1, "the end to be counted")

    def test_half_a_request_and_no_more_is_no_request(self):
        with Server(BASE) as server:
            for protocol, text in (("resp", "*3\r\n$9\r\nWEIR.TAKE\r\n$3\r\nap"), ("http", GET[:40])):
                client = server.connect(protocol)
                client.send(text)
                client.socket.shutdown(socket.SHUT_WR)
                self.assertEqual(client.rest(), b"")
                client.close()
            await_that(lambda: server.metric("weir_serve_connections") == 0, "both to be gone")
            self.assertEqual(server.metric("weir_serve_timeouts_total"), 0)

    def test_as_many_as_are_wanted_get_in(self):
        """Whatever shell it was started from."""
        with Server(BASE + "limits: {connections: 300}\n", under=["prlimit", "--nofile=64:4096"]) as server:
            clients = [server.connect() for _ in range(200)]
            for client in clients:
                self.assertEqual(client.ask("PING"), "+PONG")
                client.close()
            self.assertNotIn("are not to be had", server.log())

    def test_files_run_out_and_come_back(self):
        with Server(BASE + "loops: 1\nlimits: {first_bytes: 10m}\n", under=["prlimit", "--nofile=40:40"]) as server:
            self.assertIn("limits.connections: 10000 and 512 more files are not to be had: 40 are", server.log())
            counted = re.compile(r"^weir_serve_accept_pauses_total (\d+)$", re.MULTILINE)
            admin = server.connect("admin")

            def pauses():
                return int(counted.search(http(admin, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")[1]).group(1))
            self.assertEqual(pauses(), 0)
            clients = [server.connect() for _ in range(60)]
            await_that(lambda: pauses() > 0, "a pause")
            self.assertEqual(clients[0].ask("PING"), "+PONG")
            others = [server.connect("admin") for _ in range(3)]  # some are kept for it
            for other in others:
                self.assertEqual(http(other, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")[0], 200)
                other.close()
            for client in clients[:40]:
                client.close()
            for client in clients[40:]:
                self.assertEqual(client.ask("PING"), "+PONG")
                client.close()
            admin.close()


class Requests(unittest.TestCase):
    def is_stopped(self, pid):
        states = []
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/stat", encoding="ascii", errors="replace") as file:
                states.append(file.read().rpartition(")")[2].split()[0])
        return set(states) == {"T"}

    def send_at_once(self, server, clients, data):
        """The server is stopped while all of it comes: it is one turn of its loop."""
        os.kill(server.process.pid, signal.SIGSTOP)
        await_that(lambda: self.is_stopped(server.process.pid), "all threads to stop")
        for client in clients:
            client.send(data)
        os.kill(server.process.pid, signal.SIGCONT)

    def test_shares_of_a_turn_are_no_more_than_may_wait(self):
        """Whoever brings more than its share waits for the next turn, so that nobody is shed."""
        with Server(BASE + "loops: 1\nlimits: {waiting: 64}\n") as server:
            clients = [server.connect() for _ in range(7)]
            for client in clients:
                self.assertEqual(client.ask("PING"), "+PONG")
            self.send_at_once(server, clients, 40 * command("WEIR.TAKE", "big", "k"))
            for client in clients:
                for _ in range(40):
                    self.assertEqual(client.reply()[1], 1)
                client.close()
            self.assertEqual(server.metric("weir_serve_shed_total"), 0)

    def test_what_is_too_many_in_one_turn_is_shed(self):
        policies = {"allow": 1, "deny": 0, "local": 0, "none": "-ERR TIMEOUT"}
        for fallback, told in policies.items():
            config = BASE.replace('"memory:?timeout=10s"', '"memory:?timeout=10s", fallback: ' + fallback)
            with Server(config + "loops: 1\nlimits: {waiting: 1}\n") as server:
                clients = [server.connect() for _ in range(16)]
                for client in clients:
                    self.assertEqual(client.ask("PING"), "+PONG")
                self.send_at_once(server, clients, command("WEIR.TAKE", "big", "k"))
                answers = [client.reply() for client in clients]
                shed = [one for one in answers if isinstance(one, str) or "late" in one]
                self.assertEqual(len(shed), server.metric("weir_serve_shed_total"))
                self.assertLess(0, len(shed))
                self.assertEqual({one[:len(str(told))] if isinstance(one, str) else one[1] for one in shed}, {told})
                self.assertEqual({one[1] for one in answers if one not in shed}, {1})
                for client in clients:
                    client.close()

    def test_each_bound_is_the_configuration_s(self):
        """Below what it is by default: what fits the default does not fit it."""
        limits = "limits: {resp_arguments: 8, resp_request: 1KiB, key: 10B, http_headers: 1KiB, http_body: 1KiB}\n"
        with Server(BASE + limits) as server:
            def resp(data):
                client = server.connect()
                client.send(data)
                client.socket.shutdown(socket.SHUT_WR)
                told = client.rest().decode()
                client.close()
                return told

            def web(data):
                client = server.connect("http")
                status, body, _ = http(client, data)
                client.close()
                return status, body
            self.assertIn("too many arguments", resp(command(*["COMMAND"] * 9)))
            self.assertIn("too long", resp(command("ECHO", "x" * 1024)))
            self.assertIn("the key has 11 bytes: 1 to 10 are accepted", resp(command("WEIR.PEEK", "api", "k" * 11)))
            self.assertIn("the key is too long", web((GET % "api").replace("=k", "=" + "k" * 11))[1])
            self.assertEqual(web((GET % "api").replace("\r\n\r\n", "\r\nA: %s\r\n\r\n" % ("x" * 1024)))[0], 431)
            self.assertEqual(web("POST /take HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 1025\r\n\r\n")[0], 413)
            self.assertEqual(server.metric("weir_serve_broken_total"), 4)

    def test_bounds_change_with_a_reload(self):
        with Server(BASE + "limits: {connections: 2, key: 10B}\n") as server:
            first, second = server.connect(), server.connect()
            for client in (first, second):
                self.assertEqual(client.ask("PING"), "+PONG")
            server.write(server.config.replace("connections: 2, key: 10B", "connections: 4, key: 20B"))
            await_that(lambda: isinstance(first.ask("WEIR.PEEK", "api", "k" * 20), list), "the reload")
            third = server.connect()
            self.assertEqual(third.ask("PING"), "+PONG")
            for client in (first, second, third):
                client.close()


if __name__ == "__main__":
    unittest.main()
