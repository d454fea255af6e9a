"""Limits around any WSGI application: gunicorn --preload -w 4 wsgi_service:app

100 requests a minute for a user, or for the address of who has no name, and 5 of those to /search.
Behind a proxy on this machine.
"""
import os

import weir
import weir.wsgi


def service(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [{"/search": b"found\n", "/health": b"ok\n"}.get(environ["PATH_INFO"], b"hello\n")]


store = weir.Store(os.environ.get("WEIR_STORE", "memcached://localhost"))
app = weir.wsgi.Limit(service, store, "5/1m", name="search", trusted="127.0.0.1",
                      key=lambda environ: environ.get("HTTP_X_USER"),
                      exempt=lambda environ: environ["PATH_INFO"] != "/search")
app = weir.wsgi.Limit(app, store, "100/1m", trusted="127.0.0.1",
                      exempt=lambda environ: environ["PATH_INFO"] == "/health")
