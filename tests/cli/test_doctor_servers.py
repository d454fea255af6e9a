"""The doctor's findings about one kind of server: memcached, a proxy, Redis, and who may reach them."""

import contextlib
import socket
import socketserver
import subprocess
import tempfile
import threading
import unittest

from doctor import MORTAL, PATIENT, DoctorTest, Proxy, Server, change, eventually, user
from program import NO_DECISION, RULE, run, store_that_is_away

PROXY = ["hash: fnv1a_64", "auto_eject_hosts: false"]
TAG, ONE_CONNECTION = 'hash_tag: "{}"', "server_connections: 1"


class Memcached(DoctorTest):
    def fill(self, server, items, length):
        value = b"x" * length
        with server.connect() as client:
            for i in range(items):
                client.sendall(b"set fill:%d 0 0 %d noreply\r\n%s\r\n" % (i, length, value))
            client.sendall(b"mn\r\n")
            client.recv(100)

    def test_one_that_has_evicted(self):
        with Server("memcached", "-m", "1", "-I", "512k") as server:
            self.fill(server, 20000, 500)
            found = self.inspect(server.url_with())
        self.assert_found(found, "warning", "eviction", "items since it started")

    def test_one_that_may_not_evict(self):
        with Server("memcached", "-M") as server:
            found = self.inspect(server.url_with())
        self.assert_faults(found)
        self.assert_found(found, "warning", "eviction", "switched off (-M)")

    def test_one_that_may_not_evict_and_is_full(self):
        with Server("memcached", "-m", "1", "-I", "512k", "-M") as server:
            self.fill(server, 20000, 40)
            found = self.inspect(server.url_with())
        self.assert_found(found, "fault", "operations", "ut of memory")

    def test_one_whose_slabs_hold_other_sizes(self):
        with Server("memcached", "-m", "3", "-I", "512k", "-o", "slab_automove=0") as server:
            self.fill(server, 1000, 4000)
            with server.connect() as client:
                client.sendall(b"".join(b"delete fill:%d noreply\r\n" % i for i in range(1000)))
                client.sendall(b"mn\r\n")
                client.recv(100)
            self.fill(server, 40000, 2)
            found = self.inspect(server.url_with())
        self.assert_found(found, "warning", "eviction", "calcification")

    def hold_all(self, server):
        """Every connection that the server gives. One that was closed, as the fixture's, is freed a moment later."""
        held = []

        def attempt():
            while True:
                held.append(server.connect())
                held[-1].sendall(b"version\r\n")
                if not held[-1].recv(100).startswith(b"VERSION"):
                    break
            held.pop().close()
            held[0].sendall(b"stats\r\n")
            told = b""
            while not told.endswith(b"END\r\n"):
                told += held[0].recv(1 << 16)
            self.assertIn(b"STAT curr_connections %d\r\n" % len(held), told)
        eventually(attempt, 100)
        return held

    def test_one_at_its_connection_limit_is_told_as_it_says(self):
        with Server("memcached", "-c", "20", "-t", "1") as server:
            held = self.hold_all(server)
            try:
                took = run("take", "--store", server.url_with("timeout=500ms"), "--rule", RULE, "k")
                found = self.inspect(server.url_with("timeout=500ms"))
            finally:
                for each in held:
                    each.close()
        self.assert_found(found, "fault", "connection", "ERROR Too many open connections")
        self.assertEqual(took.returncode, NO_DECISION)
        self.assertIn(b"ERROR Too many open connections", took.stderr)

    def test_one_that_speaks_the_binary_protocol_alone(self):
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        server = subprocess.Popen([*MORTAL, "memcached", "-l", "127.0.0.1", "-p", str(port), "-B", "binary",
                                   "-u", "root"])
        try:
            eventually(lambda: self.assertEqual(self.reach(port), 0), 100)
            for credentials in ("", "app:s3cret@"):
                found = self.inspect("memcached://%s127.0.0.1:%d?timeout=200ms" % (credentials, port))
                self.assert_found(found, "fault", "connection", "binary protocol alone")
        finally:
            server.kill()
            server.wait()

    def test_one_that_tells_little_of_itself(self):
        """As others that speak memcached's protocol. All but its statistics is a memcached's."""
        with Server("memcached") as server:
            class Handler(socketserver.StreamRequestHandler):
                def handle(self):
                    with server.connect() as behind:
                        threading.Thread(target=self.pass_back, args=(behind,)).start()
                        for line in self.rfile:
                            if line.startswith(b"stats"):
                                self.wfile.write(b"STAT version 9.9\r\nSTAT uptime 5\r\nEND\r\n")
                            else:
                                behind.sendall(line)
                        behind.shutdown(socket.SHUT_RDWR)

                def pass_back(self, behind):
                    with contextlib.suppress(OSError):
                        while data := behind.recv(1 << 16):
                            self.wfile.write(data)
            with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as between:
                between.daemon_threads = True
                threading.Thread(target=between.serve_forever, args=(0.02,)).start()
                found = self.inspect("memcached://127.0.0.1:%d?timeout=10s" % between.server_address[1])
                between.shutdown()
        self.assert_found(found, "fact", "server", "memcached 9.9")
        self.assert_found(found, "warning", "memory", "does not tell how much of it is used")
        self.assertNotIn("none so far", str(found))

    def reach(self, port):
        with socket.socket() as client:
            return client.connect_ex(("127.0.0.1", port))

    def test_classic_commands_where_meta_are_known(self):
        with Server("memcached") as server:
            found = self.inspect(server.url_with("protocol=classic&" + PATIENT))
        self.assert_found(found, "warning", "dialect", "so leave it out")

    def test_a_server_without_meta_commands(self):
        with Server("memcached") as server, Proxy(server, change(b"mn ", b"xx ")) as proxy:
            found = self.inspect(proxy.url())
        self.assert_faults(found)
        self.assert_found(found, "warning", "dialect", "a memcached from 1.6 on knows better")

    def test_credentials_that_nobody_asked_for(self):
        with Server("memcached") as server:
            found = self.inspect(server.url_with(credentials="app:s3cret@"))
        self.assert_found(found, "warning", "access", "the server takes anybody")


class Proxies(DoctorTest):
    def test_a_balancer_without_servers(self):
        ports = []
        for _ in range(2):
            with socket.create_server(("127.0.0.1", 0)) as free:
                ports.append(free.getsockname()[1])
        with tempfile.NamedTemporaryFile("w", suffix=".cfg") as file:
            file.write("defaults\n timeout connect 1s\n timeout client 9s\n timeout server 9s\n"
                       "listen tcp\n mode tcp\n bind 127.0.0.1:%d\n"
                       "listen http\n mode http\n bind 127.0.0.1:%d\n" % tuple(ports))
            file.flush()
            proxy = subprocess.Popen([*MORTAL, "haproxy", "-q", "-db", "-f", file.name],
                                     stderr=subprocess.DEVNULL)
            try:
                for scheme in ("memcached", "redis"):
                    for port, part in zip(ports, ("a proxy", " 400 Bad request")):
                        url = "%s://127.0.0.1:%d?timeout=500ms" % (scheme, port)
                        eventually(lambda url=url, part=part: self.assert_found(
                            self.inspect(url), "fault", "connection", part), 20)
            finally:
                proxy.kill()
                proxy.wait()

    def test_a_good_one_is_only_in_the_way(self):
        for kind in ("memcached-proxy", "redis-proxy"):
            with Server(kind, TAG, ONE_CONNECTION, *PROXY) as proxy:
                found = self.inspect(proxy.url_with())
            self.assert_faults(found)
            self.assert_warnings(found, "proxy")
            self.assert_found(found, "warning", "proxy", "keys do stay together")

    def test_one_without_a_hash_tag(self):
        for kind in ("memcached-proxy", "redis-proxy"):
            with Server(kind, ONE_CONNECTION, *PROXY) as proxy:
                found = self.inspect(proxy.url_with())
            self.assert_found(found, "fault", "proxy", 'it needs hash_tag: "{}"')

    def test_one_with_several_connections_to_each_server(self):
        def attempt():
            with Server(kind, TAG, "server_connections: 8", *PROXY) as proxy:
                self.assert_found(self.inspect(proxy.url_with()), "fault", "order",
                                  "needs server_connections: 1")
        for kind in ("memcached-proxy", "redis-proxy"):
            eventually(attempt)

    def test_one_that_does_not_know_a_command(self):
        def cut(said):
            if b"\r\nPEXPIRE\r\n" in said or b"INFO" in said:
                raise Proxy.Cut
            return said
        with Server("redis") as server, Proxy(server, cut) as proxy:
            found = self.inspect(proxy.url())
        self.assert_found(found, "fault", "access", "pexpire: the server hung up on it")


class Closer:
    """A listener that hangs up on whoever comes: at once, or once it has heard something."""

    def __init__(self, hears):
        class Handler(socketserver.BaseRequestHandler):
            def handle(self):
                if hears:
                    self.request.recv(1 << 16)
        self.server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.02,))

    def __enter__(self):
        self.thread.start()
        return self.server.server_address[1]

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


class Endings(DoctorTest):
    def test_a_listener_that_closes_is_told_with_what_it_may_be(self):
        for scheme, path, parts in (
                ("redis://", "", ('instead of answering "ping"', "a proxy may not know it", "write rediss://")),
                ("redis://", "/3", ('instead of answering "select"', "write rediss://")),
                ("redis://app:s3cret@", "", ('instead of answering "auth"', "write rediss://")),
                ("memcached://", "", ("during the greeting", "write memcacheds://", "-B binary", "without servers")),
                ("rediss://", "", ("during the TLS handshake", "does not speak TLS")),
                ("memcacheds://", "", ("during the TLS handshake", "does not speak TLS"))):
            for hears in (False, True):
                with self.subTest(scheme=scheme, path=path, hears=hears), Closer(hears) as port:
                    found = self.inspect("%s127.0.0.1:%d%s?%s" % (scheme, port, path, PATIENT))
                    self.assert_found(found, "fault", "connection", "the server hung up", *parts)
                    self.assertEqual(len([f for f in found if f["level"] == "fault"]), 1, found)
                    self.assertNotIn("s3cret", str(found))

    def test_a_server_that_hangs_up_on_increx(self):
        def cut(said):
            if b"\r\nINCREX\r\n" in said.upper():
                raise Proxy.Cut
            return said
        with Server("redis") as server, Proxy(server, cut) as proxy:
            found = self.inspect(proxy.url())
        self.assert_faults(found)
        self.assert_found(found, "fact", "sums", "as INCREX is not to be had",
                          "increx: the server hung up on it; a proxy may not know it")


class Redis(DoctorTest):
    def test_a_user_without_a_command_is_told_which_to_let(self):
        told = "%s: the user may not run this command: let it with ACL SETUSER <user> +%s"
        for command, path, level, topic in (("ping", "", "fault", "connection"),
                                            ("select", "/3", "fault", "connection"),
                                            ("info", "", "warning", "server"),
                                            ("incrby", "", "fault", "access"),
                                            ("get", "", "fault", "access")):
            with Server("redis", *user("+@all -" + command)) as server:
                url = "redis://app:s3cret@127.0.0.1:%d%s?%s" % (server.port, path, PATIENT)
                found = self.inspect(url)
            self.assert_found(found, level, topic, told % (command, command))
            others = [f for f in found if "may not run" in f["text"] and command not in f["text"]]
            self.assertEqual(others, [])

    def test_users_who_may_do_all(self):
        for commands, refused in (
                ("+@all -@scripting -@transaction -@dangerous -@admin", True),
                ("+@all", False),
                ("+set +incrby +decrby +pexpire +pttl +zadd +zscore +get +mget +bitfield +del +time +ping",
                 True)):
            with Server("redis", *user(commands)) as server:
                found = self.inspect(server.url_with(credentials="app:s3cret@"))
            self.assert_faults(found)
            self.assert_warnings(found, *(["server"] if refused else []))
            self.assert_found(found, "fact", "access", "user app may run all that is needed")
            self.assert_found(found, "fact", "ACL", "ACL SETUSER app reset on >PASSWORD ~weir:* ")

    def test_a_user_with_the_line_that_is_told_may_do_all(self):
        for rule in (None, RULE, "token-bucket:5/1s", "sliding-log:5/1s", "quota:5/1m"):
            options = [] if rule is None else ["--rule", rule]
            with Server("redis") as server:
                found = self.inspect(server.url_with(), *options)
                line = [f["text"] for f in found if f["topic"] == "ACL"][0]
                with server.connect() as client:
                    client.sendall(line.replace("PASSWORD", "s3cret").encode() + b"\r\n")
                    self.assertEqual(client.recv(100), b"+OK\r\n")
                found = self.inspect(server.url_with(credentials="limiter:s3cret@"), *options)
            self.assert_faults(found)
            self.assert_warnings(found, "server")
            self.assert_found(found, "warning", "server", "INFO is refused", "+info")

    def test_the_line_for_a_database_lets_it_be_selected(self):
        with Server("redis") as server:
            found = self.inspect("redis://127.0.0.1:%d/3?%s" % (server.port, PATIENT))
        self.assert_faults(found)
        self.assert_found(found, "fact", "ACL", "+ping +select +set ")

    def test_a_user_who_may_not_do_enough(self):
        with Server("redis", *user("+@all -incrby -zadd")) as server:
            found = self.inspect(server.url_with(credentials="app:s3cret@"))
            self.assert_faults(found, "access", "operations")
            for command in ("incrby", "zadd"):
                self.assert_found(found, "fault", "access", "+" + command)
            self.assert_found(found, "fault", "operations", "ADD: refused")
            found = self.inspect(server.url_with(credentials="app:s3cret@"), "--rule", RULE)
            self.assertNotIn("+zadd", str([f for f in found if f["level"] == "fault"]))

    def test_a_user_who_may_do_enough_for_some_rules(self):
        with Server("redis", *user("+ping +info +zadd +zscore +pexpire")) as server:
            url = server.url_with(credentials="app:s3cret@")
            found = self.inspect(url, "--rule", "token-bucket:5/1s")
            self.assert_faults(found)
            self.assert_found(found, "warning", "access", "+del", "only a reset needs it")
            self.assert_faults(self.inspect(url, "--rule", RULE), "access", "operations")

    def test_a_user_of_other_keys(self):
        with Server("redis", *user("+@all", keys="~other:*")) as server:
            found = self.inspect(server.url_with(credentials="app:s3cret@"))
        self.assert_found(found, "fault", "access", "may not touch this key", "~weir:*")

    def test_memory_that_is_bounded(self):
        for policy, level, part in (("noeviction", "warning", "never (noeviction)"),
                                    ("allkeys-lru", "warning", "allowed at maxmemory (allkeys")):
            with Server("redis", "--maxmemory", "64mb", "--maxmemory-policy", policy) as server:
                found = self.inspect(server.url_with())
            self.assert_faults(found)
            self.assert_found(found, level, "eviction", part)
            self.assert_found(found, "fact", "memory", "maxmemory 64.0 MB")

    def test_one_that_may_evict_counters_alone(self):
        with Server("redis", "--maxmemory", "64mb", "--maxmemory-policy", "volatile-lru") as server:
            self.assert_found(self.inspect(server.url_with()), "warning", "eviction",
                              "allowed at maxmemory (volatile-lru)")
            with server.connect() as client:
                client.sendall(b"SET other 1\r\n")
                self.assertEqual(client.recv(100), b"+OK\r\n")
            found = self.inspect(server.url_with())
        self.assert_faults(found)
        self.assert_found(found, "warning", "eviction", "0 of 1", "where nothing is left to evict")

    def test_one_whose_writes_are_paused(self):
        with Server("redis") as server:
            with server.connect() as client:
                client.sendall(b"CLIENT PAUSE 60000 WRITE\r\n")
                self.assertEqual(client.recv(100), b"+OK\r\n")
                found = self.inspect(server.url_with("timeout=100ms"))
                client.sendall(b"CLIENT UNPAUSE\r\n")
        self.assert_found(found, "fault", "questions", "writes hang", "CLIENT UNPAUSE")

    def test_one_in_protected_mode_says_so_in_short(self):
        with Server("redis") as server:
            # To Redis 127.0.0.1 alone is this machine.
            server.connect = lambda: socket.create_connection(("127.0.0.1", server.port),
                                                              source_address=("127.0.0.5", 0))
            with Proxy(server) as proxy:
                found = self.inspect(proxy.url("timeout=500ms"))
        self.assert_found(found, "fault", "connection", "protected mode", "give it a password")

    def test_one_that_has_evicted(self):
        with Server("redis", "--maxmemory", "3mb", "--maxmemory-policy", "allkeys-lru") as server:
            with server.connect() as client:
                for i in range(4000):
                    client.sendall(b"SET fill:%d %s\r\n" % (i, b"x" * 1000))
                    client.recv(100)
            found = self.inspect(server.url_with())
        self.assert_found(found, "warning", "eviction", "keys since it started")

    def test_a_replica(self):
        away = store_that_is_away().rsplit(":", 1)[1].split("?")[0]
        with Server("redis", "--replicaof", "127.0.0.1", away) as server:
            found = self.inspect(server.url_with())
        self.assert_found(found, "fault", "role", "a replica")
        self.assert_found(found, "fault", "operations", "read-only replica")

    def test_a_node_of_a_cluster_that_owns_nothing(self):
        with Server("redis", "--cluster-enabled", "yes") as server:
            found = self.inspect(server.url_with())
        self.assert_found(found, "fact", "cluster", "owns 0 of 16384 slots")
        self.assert_found(found, "fault", "operations", "the cluster is down")


class Security(DoctorTest):
    def test_certificates_that_are_not_verified(self):
        with Server("memcached-tls") as server:
            self.assert_warnings(self.inspect(server.url_with()))
            bare = server.url.split("?")[0]
            found = self.inspect("%s?tls-verify=none&%s" % (bare, PATIENT))
            self.assert_found(found, "warning", "security", "verifies nothing")
            self.assert_found(self.inspect("%s?%s" % (bare, PATIENT)), "fault", "connection",
                              "the certificate is not accepted")


if __name__ == "__main__":
    unittest.main()
