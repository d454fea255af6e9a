"""Outsiders' attempts: to send without reading, to take all descriptors, to signal at the wrong time.
Each has broken the server once, or a server like it."""

import os
import random
import signal
import socket
import stat
import tempfile
import time
import unittest

import server as serving
from server import BASE, PATIENCE_S, SANITIZED, Server, await_that, command, http

HEAD = " HTTP/1.1\r\nHost: localhost\r\n\r\n"


def processor_s(server):
    with open(f"/proc/{server.process.pid}/stat", encoding="ascii") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def rests(server):
    before = processor_s(server)
    time.sleep(1)
    return processor_s(server) - before < 0.2


def most_kib(server):
    with open(f"/proc/{server.process.pid}/status", encoding="ascii") as file:
        return int(next(line for line in file if line.startswith("VmHWM")).split()[1])


def is_well(server):
    for protocol in ("resp", "http", "admin"):
        client = server.connect(protocol)
        if protocol == "resp":
            assert client.ask("PING") == "+PONG"
        else:
            path = "/check/big?key=k" if protocol == "http" else "/metrics"
            assert http(client, "GET " + path + HEAD)[0] == 200
        client.close()


class Clients(unittest.TestCase):
    def test_who_does_not_read_costs_no_time(self):
        """Short requests: more of them come at once than fit a turn."""
        with Server(BASE) as server:
            client = server.connect()
            client.socket.setblocking(False)
            text = b"PING\r\n" * 1000
            sent, quiet_since = 0, time.monotonic()
            while time.monotonic() - quiet_since < 0.5:
                try:
                    sent += client.socket.send(text[sent % len(text):])
                    quiet_since = time.monotonic()
                except BlockingIOError:
                    time.sleep(0.01)
            await_that(lambda: rests(server), "a second in which it has nothing to do")
            client.socket.settimeout(PATIENCE_S)
            answers = sent // 6
            self.assertEqual(client.take(7 * answers), b"+PONG\r\n" * answers)
            client.send(text[sent % len(text):])
            self.assertEqual(client.reply(), "+PONG")
            client.close()

    def test_admin_pages_come_one_after_another(self):
        limiters = "".join(f'  n{i}: {{store: main, rule: "fixed-window:{i + 1}/1d"}}\n'
                           for i in range(500))
        with Server(BASE.replace("limiters:\n", "limiters:\n" + limiters)) as server:
            greedy = server.connect("admin")
            greedy.send(("GET /metrics" + HEAD) * 500)
            other = server.connect("admin")
            self.assertEqual(http(other, "GET /healthz" + HEAD)[0], 200)
            if not SANITIZED:
                self.assertLess(most_kib(server), 128 * 1024)
            other.close()
            greedy.close()

    def test_whatever_bytes_they_are(self):
        """Requests that are nearly right, cut anywhere, end in an answer or an end, and soon."""
        whole = [command("WEIR.TAKE", "big", "k"), command("CL.THROTTLE", "a", "1", "2", "3"),
                 b"GET /check/big?key=a HTTP/1.1\r\nHost: localhost\r\n\r\n",
                 b"POST /take HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 27\r\n\r\n"
                 b'{"limiter":"big","key":"a"}', b"GET /status.json HTTP/1.1\r\nHost: localhost\r\n\r\n"]
        odd = [b"\r\n", b"\0", b"-1", b"99999999999", b"*1\r\n", b"$-1\r\n", b"{", b"\xff" * 9, b"%",
               b"Content-Length: 5\r\n", b"Transfer-Encoding: chunked\r\n"]
        chance = random.Random(1)
        with Server(BASE) as server:
            for _ in range(500):
                text = bytearray(b"".join(chance.choices(whole, k=chance.randrange(1, 4))))
                for _ in range(chance.randrange(6)):
                    at = chance.randrange(len(text) - 9)
                    text[at:at + chance.randrange(9)] = chance.choice(odd)
                client = server.connect(chance.choice(["resp", "http", "admin"]))
                cut = chance.randrange(len(text))
                try:
                    client.send(bytes(text[:cut]))
                    client.send(bytes(text[cut:]))
                    client.socket.shutdown(socket.SHUT_WR)
                except OSError:
                    pass  # it has ended already
                client.rest()
                client.close()
            is_well(server)

    def test_no_descriptors_are_left(self):
        with tempfile.TemporaryDirectory() as folder:
            program = os.path.join(folder, "weir")
            with open(program, "w", encoding="utf-8") as file:
                file.write(f'#!/bin/sh\nulimit -n 64\nexec {serving.PROGRAM} "$@"\n')
            os.chmod(program, stat.S_IRWXU)
            before, serving.PROGRAM = serving.PROGRAM, program
            try:
                server = Server(BASE)
            finally:
                serving.PROGRAM = before
        with server:
            clients = [server.connect(protocol) for protocol in ("resp", "http", "admin") * 40]
            time.sleep(1.2)  # a sweep tries to accept again
            server.process.send_signal(signal.SIGHUP)
            for client in clients:
                client.close()
            is_well(server)
            times = server.log().count("is in use now")
            server.process.send_signal(signal.SIGHUP)
            server.await_log("is in use now", times + 1)


class Signals(unittest.TestCase):
    def test_all_at_once_at_the_end(self):
        """Which end finds them is chance: a few."""
        for _ in range(4):
            with Server(BASE) as server:
                server.process.send_signal(signal.SIGHUP)
                while server.process.poll() is None:
                    for one in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
                        server.process.send_signal(one)

    def test_those_that_mean_nothing_are_ignored(self):
        with Server(BASE) as server:
            for name in ("SIGUSR1", "SIGUSR2"):
                server.process.send_signal(getattr(signal, name))
                server.await_log(name + " means nothing here and is ignored")
                self.assertEqual(server.log().count(name), 1)
            is_well(server)

    def test_a_reload_that_comes_before_the_start(self):
        tiers = "".join(f'      t{i}: "fixed-window:{i + 1}/1d"\n' for i in range(5000))
        config = BASE.replace("limiters:\n", "limiters:\n  many:\n    store: main\n"
                              '    rule: "fixed-window:3/1d"\n    tiers:\n' + tiers)
        server = Server(config, wait=False)
        await_that(lambda: is_weir(server), "the program")
        for _ in range(20):
            server.process.send_signal(signal.SIGHUP)
            time.sleep(0.002)
        server.await_start(config)
        server.end()

    def test_the_file_is_a_pipe(self):
        with Server(BASE) as server:
            os.unlink(server.file)
            os.mkfifo(server.file)
            server.process.send_signal(signal.SIGHUP)
            server.await_log("is not used")
            is_well(server)


def is_weir(server):
    """Not the shell's and not setpriv's time, whose own signals these would be."""
    with open(f"/proc/{server.process.pid}/status", encoding="ascii") as file:
        fields = dict(line.split(":\t", 1) for line in file)
    held = int(fields["SigBlk"], 16) | int(fields["SigCgt"], 16)
    return fields["Name"] == "weir\n" and held & 1 << (signal.SIGHUP - 1)


if __name__ == "__main__":
    unittest.main()
