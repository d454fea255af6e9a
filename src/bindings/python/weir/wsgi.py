"""For WSGI: any application that gunicorn or uWSGI serves.

    app = weir.wsgi.Limit(app, "memcached://localhost", "100/1m", key=lambda environ: ...)

Functions are given the environ. weir.web has all that can be said.
"""
from __future__ import annotations

from .web import Gate, refusal

__all__ = ["Limit"]


class Limit:
    def __init__(self, app, store, rule: str, **options):
        self.app = app
        self.gate = Gate(store, rule, **options)

    def __call__(self, environ, start_response):
        decision = self.gate.ask(environ, environ.get("REMOTE_ADDR"), environ.get("HTTP_X_FORWARDED_FOR"))
        if decision is None:
            return self.app(environ, start_response)
        fields = self.gate.fields(decision)
        if decision.allowed:
            return self.app(environ, lambda status, lines, *error:
                            start_response(status, [*lines, *fields.items()], *error))
        body = refusal(fields).encode()
        start_response("429 Too Many Requests", [*fields.items(), ("Content-Type", "text/plain; charset=utf-8"),
                                                 ("Content-Length", str(len(body)))])
        return [body]
