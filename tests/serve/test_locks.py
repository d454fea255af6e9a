"""Locks on who may come in: credentials, TLS and its clients' certificates, sockets and where they listen."""

import contextlib
import os
import shutil
import signal
import socket
import ssl
import stat
import subprocess
import tempfile
import time
import unittest
import warnings

from server import BASE, MORTAL, PATIENCE_S, PROGRAM, Client, Server, await_that, command, http

RESP = 'resp: {address: "127.0.0.1:0"}'
GET = "GET /check/%s?key=k HTTP/1.1\r\nHost: localhost\r\n%s\r\n"


class Locks(unittest.TestCase):
    def test_passwords(self):
        config = BASE.replace(RESP, 'resp: {address: "127.0.0.1:0", auth: {default: secret, bob: other}}')
        with Server(config) as server:
            client = server.connect()
            for words in (["PING"], ["WEIR.TAKE", "api", "k"], ["nonsense"], ["INFO"]):
                self.assertRegex(client.ask(*words), "^-NOAUTH")
            for words in (["secreT"], ["secre"], ["secret2"], [""], ["bob", "secret"], ["nobody", "other"]):
                self.assertRegex(client.ask("AUTH", *words), "^-WRONGPASS")
            self.assertRegex(client.ask("HELLO", 2), "^-NOAUTH")
            self.assertRegex(client.ask("HELLO", 3), "^-NOAUTH")
            self.assertEqual(client.ask("AUTH", "secret"), "+OK")
            self.assertEqual(client.ask("PING"), "+PONG")
            client.close()
            client = server.connect()
            self.assertIsInstance(client.ask("HELLO", 2, "AUTH", "bob", "other"), list)
            self.assertEqual(client.ask("PING"), "+PONG")
            self.assertEqual(client.ask("RESET"), "+RESET")
            self.assertRegex(client.ask("PING"), "^-NOAUTH")
            self.assertEqual(client.ask("RESET"), "+RESET")
            self.assertEqual(client.ask("HELLO", 3, "AUTH", "bob", "other", "SETNAME", "me")["proto"], 3)
            self.assertEqual(client.ask("CLIENT", "GETNAME"), "me")
            client.close()
            client = server.connect()
            client.send(b"*1\r\n$9000\r\n")
            self.assertRegex(client.rest().decode(), "too long")
            client.close()
            self.assertEqual(server.metric("weir_serve_unauthorized_total"), 6)

    def test_tokens(self):
        config = BASE.replace('http: {address: "127.0.0.1:0"', 'http: {address: "127.0.0.1:0", auth: [one, two]')
        with Server(config) as server:
            client = server.connect("http")
            for field in ("", "Authorization: Bearer\r\n", "Authorization: Bearer three\r\n",
                          "Authorization: Basic one\r\n"):
                status, _, fields = http(client, GET % ("api", field))
                self.assertEqual((status, fields["www-authenticate"]), (401, "Bearer"))
            self.assertEqual(http(client, GET % ("api", "authorization: bearer two\r\n"))[0], 200)
            client.close()
            self.assertEqual(server.metric("weir_serve_unauthorized_total"), 4)

    def test_nothing_is_open_to_the_world_by_accident(self):
        for protocol in ("resp", "http", "admin"):
            for address in ("0.0.0.0:1", "[::]:1", "192.0.2.1:1"):
                config = BASE.replace(protocol + ': {address: "127.0.0.1:0"', f'{protocol}: {{address: "{address}"')
                with self.assertRaisesRegex(AssertionError, r"listen\.%s: .* open to other hosts" % protocol):
                    Server(config)

    def test_a_unix_socket_is_made_and_goes(self):
        config = BASE.replace(RESP, 'resp: {address: "unix:FOLDER/socket", mode: "0640"}')
        config = "".join(line for line in config.splitlines(True) if "http:" not in line and "admin:" not in line)
        with Server(config) as server:
            path = os.path.join(server.folder.name, "socket")
            self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o640)
            client = Client(path, socket.AF_UNIX)
            self.assertEqual(client.ask("PING"), "+PONG")
            client.close()
            second = subprocess.run([PROGRAM, "serve", server.file],
                                    capture_output=True, timeout=PATIENCE_S, check=False)
            self.assertEqual(second.returncode, 3)
            self.assertIn(b"another server listens there", second.stderr)
            server.process.send_signal(signal.SIGTERM)
            server.process.wait(PATIENCE_S)
            self.assertFalse(os.path.exists(path))
            stale = socket.socket(socket.AF_UNIX)
            stale.bind(path)
            stale.close()
            self.assert_starts(server.file, path)
            with open(path, "w", encoding="ascii") as file:
                file.write("precious")
            refused = subprocess.run([PROGRAM, "serve", server.file],
                                     capture_output=True, timeout=PATIENCE_S, check=False)
            self.assertIn(b"a file that is no socket", refused.stderr)
            self.assertTrue(os.path.exists(path))

    def assert_starts(self, file, path):
        with subprocess.Popen([*MORTAL, PROGRAM, "serve", file],
                              stderr=subprocess.DEVNULL) as process:
            def answers():
                with contextlib.suppress(OSError), contextlib.closing(Client(path, socket.AF_UNIX)) as client:
                    return client.ask("PING") == "+PONG"
                return False
            await_that(answers, "a server in the place of one that is gone")
            process.send_signal(signal.SIGTERM)
            self.assertEqual(process.wait(PATIENCE_S), 0)

    def hand_over(self, listener, path):
        """Starts a server of PATH as systemd does, with a socket that is called "limits"."""
        code = ("import os,sys; os.dup2(%d, 3, inheritable=True); os.environ.update(LISTEN_PID=str(os.getpid()),"
                "LISTEN_FDS='1', LISTEN_FDNAMES='limits'); os.execv(sys.argv[1], sys.argv[1:])")
        return subprocess.Popen([*MORTAL, "python3", "-c", code % listener.fileno(), PROGRAM, "serve", path],
                                pass_fds=[listener.fileno()], stderr=subprocess.PIPE, text=True)

    def listen(self, address, family=socket.AF_INET):
        listener = socket.socket(family)
        self.addCleanup(listener.close)
        listener.bind((address, 0))
        listener.listen()
        return listener

    def write(self, path, more=""):
        text = BASE.replace(RESP, 'resp: {address: "systemd:limits"%s}' % more)
        with open(path + ".new", "w", encoding="utf-8") as file:
            file.writelines(line for line in text.splitlines(True) if "http:" not in line and "admin:" not in line)
        os.rename(path + ".new", path)

    def test_systemd_hands_sockets_over(self):
        listener = self.listen("127.0.0.1")
        with tempfile.TemporaryDirectory(prefix="weir-handed-") as folder:
            self.write(folder + "/f.yaml")
            with self.hand_over(listener, folder + "/f.yaml") as process:
                client = Client(listener.getsockname())
                self.assertEqual(client.ask("PING"), "+PONG")
                client.close()
                process.send_signal(signal.SIGTERM)
                self.assertEqual(process.wait(PATIENCE_S), 0)

    def test_what_systemd_opens_to_others_is_guarded_as_well(self):
        with tempfile.TemporaryDirectory(prefix="weir-handed-") as folder:
            path = folder + "/f.yaml"
            everywhere = [("0.0.0.0", socket.AF_INET), ("::", socket.AF_INET6)]
            for address, family in everywhere[:1 + os.path.exists("/proc/net/if_inet6")]:
                self.write(path)
                with self.hand_over(self.listen(address, family), path) as process:
                    self.assertEqual(process.wait(PATIENCE_S), 3)
                    self.assertIn("systemd:limits is open to other hosts", process.stderr.read())
            self.write(path, ', auth: "secret"')
            with self.hand_over(self.listen("0.0.0.0"), path) as process:
                self.assertIn("listening at systemd:limits", process.stderr.readline())
                self.write(path)  # at a reload it stays what it was
                process.send_signal(signal.SIGHUP)
                self.assertIn("is open to other hosts", process.stderr.readline())
                self.assertIn("is not used", process.stderr.readline())
                process.send_signal(signal.SIGTERM)
                self.assertEqual(process.wait(PATIENCE_S), 0)


class Addresses(unittest.TestCase):
    """A second server at an address, of the same user, who may share it by SO_REUSEPORT."""

    def run_second(self, config, folder):
        """None: it listens; else what it says."""
        path = os.path.join(folder, "second.yaml")
        with open(path, "w", encoding="utf-8") as file:
            file.write(config)
        with subprocess.Popen([*MORTAL, PROGRAM, "serve", path], stderr=subprocess.PIPE, text=True) as process:
            first = process.stderr.readline()
            if "listening at" in first:
                process.terminate()
            rest = process.stderr.read()
            self.assertEqual(process.wait(PATIENCE_S), 0 if "listening at" in first else 3, first + rest)
            return None if "listening at" in first else first + rest

    def test_a_second_server_is_refused_unless_both_share(self):
        for loops in (1, 3):
            for first, second in ((False, False), (False, True), (True, False), (True, True)):
                def config(shares):
                    lines = (BASE + "loops: %d\n" % loops).splitlines(True)
                    text = "".join(line for line in lines if "http:" not in line and "admin:" not in line)
                    return text.replace('"127.0.0.1:0"', '"127.0.0.1:0", reuse_port: %s' % str(shares).lower())
                with self.subTest(loops=loops, first=first, second=second), Server(config(first)) as server:
                    address = "127.0.0.1:%d" % server.ports["resp"][0]
                    told = self.run_second(config(second).replace("127.0.0.1:0", address), server.folder.name)
                    if first and second:
                        self.assertIsNone(told)
                    else:
                        self.assertIn("cannot listen at %s: another program listens there" % address, told)
                    clients = [server.connect() for _ in range(4 * loops)]
                    for client in clients:
                        self.assertEqual(client.ask("PING"), "+PONG")
                        client.close()

    def test_its_loops_share_the_connections(self):
        with Server(BASE + "loops: 4\n") as server:
            clients = [server.connect() for _ in range(64)]
            loops = {int(client.ask("CLIENT", "ID")) >> 48 for client in clients}
            for client in clients:
                client.close()
            self.assertEqual(loops, {0, 1, 2, 3})

    def test_the_next_server_may_begin_while_one_ends(self):
        config = "".join(line for line in BASE.splitlines(True) if "http:" not in line and "admin:" not in line)
        with Server(config + "loops: 2\nlimits: {drain: 10m}\n") as server:
            client = server.connect()
            client.socket.settimeout(0.5)
            with self.assertRaises(TimeoutError):  # answers that nobody takes keep it from its end
                client.send(command("ECHO", "x" * 1000) * 64000)
            address = "127.0.0.1:%d" % server.ports["resp"][0]
            server.process.send_signal(signal.SIGTERM)
            server.await_log("ending")
            with tempfile.TemporaryDirectory(prefix="weir-next-") as folder:
                await_that(lambda: self.run_second(server.config, folder) is None, "the next one at " + address)
            self.assertIsNone(server.process.poll())
            client.close()


class Secrets(unittest.TestCase):
    def test_files_are_read_again(self):
        """A new password and a new token hold after a reload; the old ones do not."""
        config = BASE.replace(RESP, 'resp: {address: "127.0.0.1:0", auth: "${file:password}"}').replace(
            'http: {address: "127.0.0.1:0"', 'http: {address: "127.0.0.1:0", auth: ["${file:token}", fixed]')
        with tempfile.TemporaryDirectory(prefix="weir-secrets-") as folder:
            def write(name, text):
                with open(os.path.join(folder, name + ".new"), "w", encoding="ascii") as file:
                    file.write(text)
                os.rename(os.path.join(folder, name + ".new"), os.path.join(folder, name))

            write("password", "first\n")
            write("token", "first")
            with Server(config.replace("${file:", "${file:" + folder + "/")) as server:
                inside = server.connect()
                self.assertEqual(inside.ask("AUTH", "first"), "+OK")
                write("password", "second\r\n")  # noticed by itself
                await_that(lambda: self.logs_in(server, "second"), "the new password")
                self.assertFalse(self.logs_in(server, "first"))
                self.assertEqual(inside.ask("PING"), "+PONG")  # who is in stays in
                inside.close()
                self.assertEqual([self.shows(server, one) for one in ("first", "second", "fixed")], [200, 401, 200])
                write("token", "second")
                server.process.send_signal(signal.SIGHUP)
                await_that(lambda: self.shows(server, "second") == 200, "the new token")
                self.assertEqual([self.shows(server, one) for one in ("first", "fixed")], [401, 200])
                write("token", "")
                server.await_log('token" is empty')
                self.assertEqual([self.shows(server, one) for one in ("second", "")], [200, 401])
                self.assertNotIn("second", server.log())

    def new_address(self):
        """One that has not guessed yet."""
        self.addresses = getattr(self, "addresses", 0) + 1
        return "127.1.%d.%d" % divmod(self.addresses, 250)

    def logs_in(self, server, password):
        client = server.connect(source=self.new_address())
        told = client.ask("AUTH", password)
        client.close()
        return told == "+OK"

    def shows(self, server, token):
        client = server.connect("http", source=self.new_address())
        status = http(client, GET % ("big", f"Authorization: Bearer {token}\r\n"))[0]
        client.close()
        return status


def make_key(folder, name):
    """NAME.pem, which is its own CA, and NAME.key."""
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                    "-keyout", f"{folder}/{name}.key", "-out", f"{folder}/{name}.pem", "-days", "30",
                    "-subj", "/CN=localhost"], capture_output=True, check=True, timeout=PATIENCE_S)


TLS = "tls: {certificate: DIR/server.pem, key: DIR/server.key%s}"


class Tls(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="weir-tls-")
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        for name in ("server", "other", "client", "stranger"):
            make_key(cls.folder, name)

    def config(self, more=""):
        tls = (TLS % more).replace("DIR", self.folder)
        return BASE.replace('"127.0.0.1:0"}', '"127.0.0.1:0", %s}' % tls, 2)

    def trust(self, name="server", client=None):
        context = ssl.create_default_context(cafile=f"{self.folder}/{name}.pem")
        if client is not None:
            context.load_cert_chain(f"{self.folder}/{client}.pem", f"{self.folder}/{client}.key")
        return context

    def connect(self, server, trust, protocol="resp"):
        client = server.connect(protocol)
        self.addCleanup(client.close)
        client.socket = trust.wrap_socket(client.socket, server_hostname="localhost")
        return client

    def is_let_in(self, server, trust):
        """TLS 1.3 tells a client of its certificate's refusal when it reads."""
        try:
            return self.connect(server, trust).ask("PING") == "+PONG"
        except (OSError, EOFError):
            return False

    def test_both_protocols_speak_it(self):
        with Server(self.config()) as server:
            for cut in (0, 1):
                client = self.connect(server, self.trust())
                self.assertEqual(client.ask("PING"), "+PONG")
                text = command("ECHO", "x" * 60000)
                client.send(text[:30000])
                time.sleep(0.01 * cut)
                client.send(text[30000:] + text * 20)
                for _ in range(21):
                    self.assertEqual(len(client.reply()), 60000)
            web = self.connect(server, self.trust(), "http")
            self.assertEqual(http(web, GET % ("api", ""))[0], 200)
            plain = server.connect()
            plain.send(command("PING"))
            self.assertNotIn(b"PONG", plain.rest())
            plain.close()

    def test_versions_below_1_2_are_refused(self):
        """Also where OpenSSL is configured to let them in."""
        lax = self.folder + "/lax.cnf"
        with open(lax, "w", encoding="ascii") as file:
            file.write("openssl_conf = a\n[a]\nssl_conf = b\n[b]\nsystem_default = c\n"
                       "[c]\nMinProtocol = TLSv1\nCipherString = DEFAULT@SECLEVEL=0\n")
        with Server(self.config(), environment=dict(os.environ, OPENSSL_CONF=lax)) as server:
            for version, goes in ((ssl.TLSVersion.TLSv1_3, True), (ssl.TLSVersion.TLSv1_2, True),
                                  (ssl.TLSVersion.TLSv1_1, False), (ssl.TLSVersion.TLSv1, False)):
                trust = self.trust()
                trust.set_ciphers("DEFAULT:@SECLEVEL=0")
                with warnings.catch_warnings(action="ignore"):  # Python warns of versions that are old
                    trust.minimum_version = ssl.TLSVersion.TLSv1
                    trust.maximum_version = version
                if goes:
                    self.assertEqual(self.connect(server, trust).ask("PING"), "+PONG")
                else:
                    with self.assertRaisesRegex(ssl.SSLError, "(?i)alert protocol version"):
                        self.connect(server, trust)

    def test_clients_show_a_certificate_where_one_is_wanted(self):
        with Server(self.config(", client_ca: DIR/client.pem")) as server:
            self.assertTrue(self.is_let_in(server, self.trust(client="client")))
            for name in (None, "stranger", "server"):
                self.assertFalse(self.is_let_in(server, self.trust(client=name)), name)
            web = self.connect(server, self.trust(client="client"), "http")
            self.assertEqual(http(web, GET % ("api", ""))[0], 200)
            # Another CA at a reload: who had a certificate of the old one has none now.
            shown = self.trust(client="client")
            self.assertTrue(self.is_let_in(server, shown))
            server.write(server.config.replace("client_ca: %s/client" % self.folder, "client_ca: %s/stranger" % self.folder))
            server.await_log("is in use now")
            self.assertFalse(self.is_let_in(server, shown))
            self.assertTrue(self.is_let_in(server, self.trust(client="stranger")))

    def test_certificates_are_read_again(self):
        """As certbot does it: files take the places of others, and then comes SIGHUP, or does not."""
        for name in ("server.pem", "server.key"):
            shutil.copy(f"{self.folder}/{name}", f"{self.folder}/live-{name}")
        config = self.config().replace("/server.", "/live-server.")

        def replace(name, by):
            shutil.copy(f"{self.folder}/{by}", f"{self.folder}/new")
            os.replace(f"{self.folder}/new", f"{self.folder}/live-{name}")

        with Server(config) as server:
            old = self.connect(server, self.trust("server"))
            self.assertEqual(old.ask("PING"), "+PONG")
            replace("server.pem", "other.pem")  # and not its key: nobody may be left without a certificate
            server.await_log("is not used")
            self.assertRegex(server.log(), r"weir\.yaml:\d+:\d+: listen\.resp\.tls: .*live-server\.key.* key values mismatch")
            self.assertTrue(self.is_let_in(server, self.trust("server")))
            replace("server.key", "other.key")
            server.process.send_signal(signal.SIGHUP)
            await_that(lambda: self.is_let_in(server, self.trust("other")), "the new certificate")
            self.assertFalse(self.is_let_in(server, self.trust("server")))
            self.assertEqual(old.ask("PING"), "+PONG")

    def test_what_tls_cannot_use_is_a_fault_with_its_place(self):
        locked = self.folder + "/locked.key"
        subprocess.run(["openssl", "ec", "-in", self.folder + "/server.key", "-aes128", "-passout", "pass:x", "-out",
                        locked], capture_output=True, check=True, timeout=PATIENCE_S)
        for old, new, said in (("/server.key", "/other.key", "key values mismatch"),
                               ("/server.key", "/locked.key", "without a passphrase"),
                               ("/server.pem", "/server.key", "no start line"),
                               ("/server.pem", "/", "cannot be used"), ("/server.pem", "/none", "cannot be read")):
            with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
                file.write(self.config().replace(":0\"", ":7\"", 1).replace(":0\"", ":8\"", 1).replace(
                    ":0\"", ":9\"", 1).replace(old, new, 1))
                file.flush()
                for told in ("check", "serve"):
                    result = subprocess.run([PROGRAM, told, file.name], capture_output=True, text=True,
                                            stdin=subprocess.DEVNULL, timeout=PATIENCE_S, check=False)
                    self.assertEqual(result.returncode, 2, result.stderr)
                    self.assertRegex(result.stderr, r"yaml:3:\d+: listen\.resp\.tls(\.certificate)?: .*" + said)
                    self.assertEqual(result.stderr.count("\n"), 1)


if __name__ == "__main__":
    unittest.main()
