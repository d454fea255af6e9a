"""nginx by its recipe, docs/serve/nginx.md."""

import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

import hostile_forms
from recipe import ALL_PATHS, KEYED, MORTAL_MASTER, THREE, Behind, Proxy, blocks, replace
from server import PATIENCE_S, PROGRAM, Client, Store, await_that, hold_port

# As Debian's /etc/nginx/nginx.conf does around conf.d, for a user without rights.
AROUND = """
daemon off;
worker_processes 2;
pid FOLDER/pid;
error_log stderr;
events {}
http {
  access_log off;
  client_body_temp_path FOLDER/body;
  proxy_temp_path FOLDER/proxy;
  fastcgi_temp_path FOLDER/fastcgi;
  uwsgi_temp_path FOLDER/uwsgi;
  scgi_temp_path FOLDER/scgi;
  include FOLDER/limited.conf;
}
"""


KEY, BYTES, PLACES = 1, 2, 3  # which of the page's recipes


def unread(port):
    """The bytes that were sent to a port, by IPv4, and that its program has not read."""
    with open("/proc/net/tcp", encoding="ascii") as file:
        rows = [line.split() for line in file][1:]
    return sum(int(row[4].split(":")[1], 16) for row in rows if row[1].endswith(":%04X" % port) and row[3] == "01")


class Nginx(Behind):
    page = "serve/nginx.md"

    def start(self, *changes, recipe=0, around=AROUND):
        """By the page's recipe of that number; those after the first use the upstream of the first."""
        all_of_them = blocks(self.page, "nginx")
        limited = all_of_them[recipe]
        if recipe > 0:
            limited = re.match(r"upstream.*?^}\n", all_of_them[0], re.DOTALL | re.MULTILINE).group() + limited
        limited = replace(limited, ("127.0.0.1:8080", self.weir), ("_timeout 1s", "_timeout 60s"),
                          ("listen 80;", "listen 127.0.0.1:PORT reuseport;"), *changes)
        limited = limited.replace("127.0.0.1:3000", self.behind)
        nginx = Proxy({"nginx.conf": around, "limited.conf": limited, "index.html": "index\n"},
                      "nginx", "-p", "FOLDER", "-e", "stderr", "-c", "FOLDER/nginx.conf")
        self.addCleanup(nginx.end)
        return nginx

    def leave_while_the_server_is_stopped(self, nginx):
        """Clients that leave while nginx asks for them. The server hears of each before this is over."""
        os.kill(self.server.process.pid, signal.SIGSTOP)
        for _ in range(2):
            client = Client(("127.0.0.1", nginx.port), source="127.0.0.2")
            client.send("GET /held/200 HTTP/1.1\r\nHost: localhost\r\n\r\n")
            time.sleep(0.1)
            client.close()
        time.sleep(0.1)
        os.kill(self.server.process.pid, signal.SIGCONT)
        self.held("downloads")

    def test_a_client_is_limited_and_told(self):
        nginx = self.start()
        self.assert_limits(nginx)
        self.assertEqual(nginx.get("/_limit")[0], 404, "the check can be asked from outside")

    def test_what_is_not_asked_and_what_asks_twice(self):
        nginx = self.start(("  location = /_limit", """
  location /returns { auth_request /_limit; return 200 "bypassed"; }
  location /index { auth_request /_limit; alias FOLDER/; index index.html; }
  location = /_limit"""))
        for _ in range(5):
            self.assertEqual(nginx.get("/returns")[0::2], (200, b"bypassed"))
        self.assertEqual(nginx.get("/index/")[0::2], (200, b"index\n"))
        self.assertRegex(nginx.get()[1]["RateLimit"], r'^"api";r=0;')

    def test_hostile_forms(self):
        self.assert_addresses_hold(self.start, ["as it was", "20 KB of cookies", "X-Forwarded-For, no address", "UTF-8 in a field"])

    def test_hostile_keys(self):
        """nginx takes the first of several fields, and the application sees no other."""
        self.assert_keys_hold(lambda: self.start(recipe=KEY), hostile_forms.BOUNDED | {
            "another before it", "another, in small letters", "50 of them", "its own by underscores"})

    def test_no_connection_is_left(self):
        """A limited client holds connections until nginx has none for the check, and says 500 by itself."""
        nginx = self.start(("keepalive 32;", ""), ("proxy_pass http://127.0.0.1:3000;", "root FOLDER;"), around=replace(
            AROUND, ("worker_processes 2", "worker_processes 1"), ("events {}", "events { worker_connections 24; }")))
        told = [nginx.get("/index.html")[0] for _ in range(4)]
        self.assertEqual(told, [200] * 3 + [429])
        for _ in range(30):
            held = Client(("127.0.0.1", nginx.port), source="127.0.0.2")
            self.addCleanup(held.close)
            held.send("GET /index.html HTTP/1.1\r\n")
            await_that(lambda: unread(nginx.port) == 0, "nginx to read it")  # else it may take that connection back
            told.append(hostile_forms.send(nginx.port, hostile_forms.fields(first="GET /index.html HTTP/1.1")))
        self.assertEqual(set(told[4:]), {429, 500, None})

    def test_no_decision(self):
        """fallback: none closes, whatever the page lets pass."""
        self.change((self.store.url + '?timeout=10s"', 'memcached://127.0.0.1:1?timeout=1s", fallback: none'))
        self.assertEqual(self.start().get()[0], 500)

    def test_what_others_have(self):
        """Rows of the page's table."""
        self.change(("rule: \"quota:3/1d\", key: \"header:X-Api-Key\"", 'rule: "token-bucket:1/1h,burst=2", '
                    'key: "header:X-Api-Key", allow: [staff]'), ('  api: {', '  api: {shadow: true, '))
        by_cookie = self.start(("map $http_x_api_key", "map $cookie_account"), ("$http_x_api_key;", "$cookie_account;"),
                               ("return 429;", 'return 429 "slowly, please";'), recipe=KEY)
        told = [by_cookie.get(fields={"Cookie": "a=b; account=alice"}) for _ in range(3)]
        self.assertEqual([status for status, _, _ in told], [200, 200, 429])
        self.assertEqual(told[2][2], b"slowly, please")
        self.assertLess(3000, int(told[2][1]["Retry-After"]))
        self.assertEqual({by_cookie.get(fields={"Cookie": "account=staff"})[0] for _ in range(5)}, {200})
        self.assertEqual(by_cookie.get()[0], 400)
        shadow = self.start()
        self.assertEqual({shadow.get()[0] for _ in range(5)}, {200})

    def test_a_burst_and_a_rate_of_nginx(self):
        self.change((THREE, 'rule: "token-bucket:1/2s,burst=2"'))
        nginx = self.start(("proxy_pass http://127.0.0.1:3000;", "limit_rate 40k;\n    root FOLDER;"))
        with open(os.path.join(nginx.folder.name, "slow"), "wb") as file:
            file.truncate(120000)
        self.assertGreaterEqual(self.assert_comes_again(nginx, path="/index.html"), 2)
        began = time.monotonic()
        self.assertEqual(len(nginx.get("/slow", source="127.0.0.3")[2]), 120000)
        self.assertLess(1, time.monotonic() - began)

    def test_a_group(self):
        """By the address and by the account."""
        self.change((KEYED, 'rule: "quota:2/1d", key'), more="groups: {both: [api, by_key]}\n")
        nginx = self.start(("/check/by_key;", "/check/both;\n    proxy_set_header X-Forwarded-For $remote_addr;"), recipe=KEY)
        self.assert_group(nginx, fields={"X-Api-Key": "alice"})
        self.assertEqual([nginx.get(fields={"X-Api-Key": "bob"})[0] for _ in range(2)], [200, 429])

    def kilobytes(self):
        """That of the client of most requests here."""
        return self.charged("kilobytes", "127.0.0.2", 1000000)

    def await_charged(self, accepted):
        await_that(lambda: self.kilobytes() in accepted, "a charge of %s" % accepted)

    def test_bytes_of_a_download(self):
        nginx = self.start(("root /srv/downloads;", "root FOLDER; location /held/ { proxy_pass http://127.0.0.1:3000; }"),
                           recipe=BYTES)
        for name, size in (("small", 5000), ("large", 30000000)):
            with open(os.path.join(nginx.folder.name, name), "wb") as file:
                file.truncate(size)
        self.assertEqual(len(nginx.get("/small")[2]), 5000)
        self.await_charged([5])
        self.assertEqual(len(nginx.get("/large")[2]), 30000000)
        self.await_charged([30005])
        os.mkdir(os.path.join(nginx.folder.name, "folder"))
        for path, fields, status in (("/none", {}, 404), ("/folder/", {}, 403), ("/small", {"Range": "bytes=0-9"}, 206)):
            self.assertEqual(nginx.get(path, fields=fields)[0], status)
        self.await_charged([30008])

        client, _ = nginx.begin("/held/100000")
        self.await_charged([31008])  # the estimate, while it is under way
        client.close()
        self.await_charged(range(30010, 30100))
        before = self.kilobytes()
        client, _ = nginx.begin("/large")
        client.close()  # the kernel had some more of it
        self.await_charged(set(range(before + 2, before + 30000)) - {before + 1000})
        before = self.kilobytes()
        self.leave_while_the_server_is_stopped(nginx)
        self.await_charged(range(before, before + 200))  # at most what the application sent, and no estimate

    def test_places(self):
        nginx = self.start(recipe=PLACES)
        self.assert_places(nginx, "downloads")
        self.leave_while_the_server_is_stopped(nginx)
        await_that(lambda: self.held("downloads") == 0, "the places of clients that left early")

    def test_places_that_leak(self):
        nginx = self.start(("proxy_pass http://127.0.0.1:3000;", "root FOLDER; index index.html;"), recipe=PLACES)
        self.assertEqual(nginx.get("/index.html")[0], 200)
        await_that(lambda: self.held("downloads") == 0, "the place of a file")
        os.mkdir(os.path.join(nginx.folder.name, "folder"))
        self.assertEqual(nginx.get("/folder/")[0], 403)
        await_that(lambda: self.held("downloads") == 0, "the place of a folder")
        self.assertEqual(nginx.get("/")[0], 200)
        time.sleep(0.2)
        self.assertEqual(self.held("downloads"), 1)

    def test_while_the_server_is_away(self):
        self.server.end()
        self.assertEqual(self.start().get()[0], 200)
        closed = self.start(("proxy_intercept_errors on;", ""), ("error_page 502 504 = @unlimited;", ""))
        self.assertEqual(closed.get()[0], 500)


class FiveMinutes(unittest.TestCase):
    """docs/serve.md: the whole way, by a shell. A user of Debian finds nothing in /usr/sbin by itself."""

    def test_as_it_is_printed(self):
        store = Store("memcached")
        self.addCleanup(store.end)
        ports = [hold_port() for _ in range(2)]
        for port in ports:
            self.addCleanup(port.close)
        weir, nginx = ("127.0.0.1:%d" % port.getsockname()[1] for port in ports)
        way = blocks("serve.md", "sh")[-1]
        way = replace(way, ("listen 127.0.0.1:8000;", "listen %s reuseport;" % nginx), ("127.0.0.1:8000", nginx),
                      ("127.0.0.1:8080", weir), ("memcached://127.0.0.1:11211", store.url + "?timeout=10s"),
                      ("/usr/sbin/nginx ", "sbin/nginx "))
        with tempfile.TemporaryDirectory(prefix="weir-five-") as folder:
            os.chmod(folder, 0o755)
            for name, program in (("bin/weir", PROGRAM), ("sbin/nginx", shutil.which("nginx", path=ALL_PATHS))):
                path = os.path.join(folder, name)
                os.mkdir(os.path.dirname(path))
                with open(path, "w", encoding="utf-8") as file:
                    file.write('#!/bin/sh\nexec %s %s "$@"\n' % (" ".join(MORTAL_MASTER), program))
                os.chmod(path, 0o755)
            result = subprocess.run(["bash", "-em"], input=way + "kill %1 %2\nwait\n", cwd=folder, capture_output=True, text=True,
                                    env=dict(os.environ, PATH=folder + "/bin:/usr/bin:/bin"),
                                    timeout=PATIENCE_S, check=False)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertRegex(result.stdout, r"good:.*\n(200 \n){3}(429 \d+\n){2}\Z", result.stderr)


if __name__ == "__main__":
    unittest.main()
