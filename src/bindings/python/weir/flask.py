"""For Flask.

    limit = weir.flask.Limits("memcached://localhost")

    @app.get("/search")
    @limit("100/1m", key=lambda: request.headers.get("X-User"))
    def search(): ...

    limit.all(app, "1000/1m")     # every view, but those of @limit.exempt

Functions are called without arguments, within the request. Every view has counts of its own, unless
name= is the same. weir.web has all that can be said.
"""
from __future__ import annotations

import functools

from flask import Response, after_this_request, current_app, request

from .web import Gate, name_of, opened, refusal

__all__ = ["Limits"]


def without_request(function):
    return None if function is None else lambda _request: function()


class Limits:
    def __init__(self, store, **options):
        self.store, self.options, self._exempt = opened(store), options, set()

    def _gate(self, rule: str, options) -> Gate:
        options = {**self.options, **options}
        for name in ("key", "exempt", "cost"):
            if callable(options.get(name)):
                options[name] = without_request(options[name])
        return Gate(self.store, rule, **options)

    def __call__(self, rule: str, **options):
        def limited(function):
            gate = self._gate(rule, {"name": name_of(function), **options})

            @functools.wraps(function)
            def view(*args, **given):
                denied = self._ask(gate)
                return current_app.ensure_sync(function)(*args, **given) if denied is None else denied
            return view
        return limited

    def all(self, app, rule: str, **options) -> None:
        """Limits every view of an application or a blueprint."""
        gate = self._gate(rule, options)

        @app.before_request
        def before():
            view = current_app.view_functions.get(request.endpoint)
            return None if view in self._exempt else self._ask(gate)

    def exempt(self, function):
        """Of what all() limits."""
        self._exempt.add(function)
        return function

    @staticmethod
    def _ask(gate: Gate):
        """The answer to a request that is denied."""
        decision = gate.ask(None, request.remote_addr, request.headers.get("X-Forwarded-For"))
        if decision is None:
            return None
        fields = gate.fields(decision)

        @after_this_request
        def tell(response):
            for name, value in fields.items():
                response.headers.add(name, value)
            return response
        return None if decision.allowed else Response(refusal(fields), 429, mimetype="text/plain")
