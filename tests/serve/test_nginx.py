"""nginx by its recipe, docs/serve/nginx.md."""

import os
import shutil
import subprocess
import tempfile
import unittest

from recipe import ALL_PATHS, MORTAL_MASTER, Behind, Proxy, blocks, replace
from server import PATIENCE_S, PROGRAM, Store, hold_port

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

    def start(self, *changes):
        limited, = blocks(self.page, "nginx")
        limited = replace(limited, ("127.0.0.1:8080", self.weir),
                          ("listen 80;", "listen 127.0.0.1:PORT reuseport;"), ("_timeout 1s", "_timeout 60s"),
                          ("127.0.0.1:3000", self.behind), *changes)
        nginx = Proxy({"nginx.conf": AROUND, "limited.conf": limited, "index.html": "index\n"},
                      "nginx", "-p", "FOLDER", "-e", "stderr", "-c", "FOLDER/nginx.conf")
        self.addCleanup(nginx.end)
        return nginx

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
        passes = self.start(("error_page 500 502 503 504", "error_page 400 500 502 503 504"))
        self.assertEqual(passes.get()[0], 200)
        self.assertEqual(passes.get(fields={"X-Api-Key": "alice"})[0], 200)

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
