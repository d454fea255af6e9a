"""nginx by its recipe, docs/serve/nginx.md."""

import unittest

from recipe import Application, Proxy, blocks, on_free_ports, replace
from server import Server, Store

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


class Nginx(unittest.TestCase):
    def setUp(self):
        self.store = Store("memcached")
        self.addCleanup(self.store.end)
        self.application = Application()
        self.addCleanup(self.application.end)
        config, = blocks("serve/nginx.md", "yaml")
        self.server = Server(replace(on_free_ports(config), (
            "memcached://127.0.0.1:11211", self.store.url + "?timeout=10s")))
        self.addCleanup(self.server.end)
        self.limited, = blocks("serve/nginx.md", "nginx")

    def start(self, *changes):
        limited = replace(self.limited, ("127.0.0.1:8080", "127.0.0.1:%d" % self.server.ports["http"][0]),
                          ("listen 80;", "listen 127.0.0.1:PORT reuseport;"), ("_timeout 1s", "_timeout 60s"),
                          ("127.0.0.1:3000", "127.0.0.1:%d" % self.application.port), *changes)
        nginx = Proxy({"nginx.conf": AROUND, "limited.conf": limited, "index.html": "index\n"},
                      "nginx", "-p", "FOLDER", "-e", "stderr", "-c", "FOLDER/nginx.conf")
        self.addCleanup(nginx.end)
        return nginx

    def test_a_client_is_limited_and_told(self):
        nginx = self.start()
        for left in (2, 1, 0):
            status, fields, body = nginx.get()
            self.assertEqual((status, body), (200, b"hello\n"))
            self.assertEqual(fields["RateLimit-Policy"], '"api";q=3;w=86400')
            self.assertRegex(fields["RateLimit"], r'^"api";r=%d;t=\d+$' % left)
            self.assertNotIn("Retry-After", fields)
        status, fields, _ = nginx.get(body="x" * 100000)
        self.assertEqual(status, 429)
        self.assertRegex(fields["RateLimit"], r'^"api";r=0;t=\d+$')
        self.assertLess(86000, int(fields["Retry-After"]))
        self.assertEqual(nginx.get(fields={"X-Forwarded-For": "192.0.2.1"})[0], 429, "a client chose its key")
        self.assertEqual(nginx.get("/_limit")[0], 404, "the check can be asked from outside")
        self.assertEqual(self.application.asked, 3)
        self.assertEqual(nginx.get(source="127.0.0.3", body="x" * 100000)[0], 200)
        self.assertEqual(nginx.get("/forbidden", source="127.0.0.3")[0], 403)

    def test_what_is_not_asked_and_what_asks_twice(self):
        nginx = self.start(("  location = /_limit", """
  location /returns { auth_request /_limit; return 200 "bypassed"; }
  location /index { auth_request /_limit; alias FOLDER/; index index.html; }
  location = /_limit"""))
        for _ in range(5):
            self.assertEqual(nginx.get("/returns")[0::2], (200, b"bypassed"))
        self.assertEqual(nginx.get("/index/")[0::2], (200, b"index\n"))
        self.assertRegex(nginx.get()[1]["RateLimit"], r'^"api";r=0;')

    def test_while_the_server_is_away(self):
        self.server.end()
        self.assertEqual(self.start().get()[0], 200)
        closed = self.start(("proxy_intercept_errors on;", ""), ("error_page 500 502 503 504 = @unlimited;", ""))
        self.assertEqual(closed.get()[0], 500)


if __name__ == "__main__":
    unittest.main()
