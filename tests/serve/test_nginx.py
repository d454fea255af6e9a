"""nginx by its recipe, docs/serve/nginx.md."""

import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

from recipe import ALL_PATHS, MORTAL_MASTER, Behind, Proxy, blocks, replace
from server import PATIENCE_S, PROGRAM, Client, Store, await_that, hold_port, http

# What Debian's /etc/nginx/nginx.conf does around conf.d, for a user without rights.
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


class Nginx(Behind):
    page = "serve/nginx.md"

    def start(self, *changes, recipe=0):
        """By the page's recipe of that number; those after the first use the upstream of the first."""
        all_of_them = blocks(self.page, "nginx")
        limited = all_of_them[recipe]
        if recipe > 0:
            limited = re.match(r"upstream.*?^}\n", all_of_them[0], re.DOTALL | re.MULTILINE).group() + limited
        limited = replace(limited, ("127.0.0.1:8080", self.weir), ("_timeout 1s", "_timeout 60s"),
                          ("listen 80;", "listen 127.0.0.1:PORT reuseport;"), *changes)
        limited = limited.replace("127.0.0.1:3000", self.behind)
        nginx = Proxy({"nginx.conf": AROUND, "limited.conf": limited, "index.html": "index\n"},
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

    def test_a_request_without_its_key(self):
        self.server.write(replace(self.server.config, ('rule: "quota:3/1d"', 'rule: "quota:3/1d", key: "header:X-Api-Key"')))
        self.server.await_log("is in use now")
        nginx = self.start()
        self.assertEqual(nginx.get(fields={"X-Api-Key": "alice"})[0], 200)
        self.assertEqual(nginx.get()[0], 500)
        self.assertEqual(nginx.get(fields={"X-Api-Key": ""})[0], 500)
        self.assertEqual(nginx.get(fields={"X-Api-Key": "alice", "X-Other": "\x7f"})[0], 500)

    def charged(self):
        """Kilobytes of the client of most requests here."""
        client = self.server.connect("http")
        body = json.dumps({"limiter": "kilobytes", "key": "127.0.0.2"})
        told = http(client, "POST /peek HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                    "Content-Length: %d\r\n\r\n%s" % (len(body), body))
        client.close()
        return 1000000 - json.loads(told[1])["remaining"]

    def await_charged(self, accepted):
        await_that(lambda: self.charged() in accepted, "a charge of %s" % accepted)

    def test_bytes_of_a_download(self):
        nginx = self.start(("root /srv/downloads;", "root FOLDER; location /held/ { proxy_pass http://127.0.0.1:3000; }"),
                           recipe=1)
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
        before = self.charged()
        client, _ = nginx.begin("/large")
        client.close()  # the kernel had some more of it
        self.await_charged(set(range(before + 2, before + 30000)) - {before + 1000})
        before = self.charged()
        self.leave_while_the_server_is_stopped(nginx)
        self.await_charged(range(before, before + 200))  # at most what the application sent, and no estimate

    def test_places(self):
        nginx = self.start(recipe=2)
        self.assert_places(nginx, "downloads")
        self.leave_while_the_server_is_stopped(nginx)
        await_that(lambda: self.held("downloads") == 0, "the places of clients that left early")

    def test_places_that_leak(self):
        nginx = self.start(("proxy_pass http://127.0.0.1:3000;", "root FOLDER; index index.html;"), recipe=2)
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
        closed = self.start(("proxy_intercept_errors on;", ""), ("error_page 500 502 503 504 = @unlimited;", ""))
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
        way, = blocks("serve.md", "sh")
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
