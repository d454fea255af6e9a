"""For Django. In the settings:

    WEIR = {"store": "memcached://localhost", "trusted": "10.0.0.0/8", "rule": "1000/1m"}
    MIDDLEWARE = [..., "weir.django.Middleware"]   # limits all; behind authentication, where key reads it

and for single views, with the middleware or without it:

    @limit("5/1m", key=lambda request: request.user.pk)
    def search(request): ...

Functions are given the request; in the settings they may be named: "app.limits.key". Every view has
counts of its own, unless name= is the same; @exempt leaves one out of the middleware's limit. weir.web
has all that can be said.
"""
from __future__ import annotations

import asyncio
import functools
import threading

from django.conf import settings
from django.http import HttpResponse
from django.urls import Resolver404, resolve
from django.utils.module_loading import import_string

from .web import Gate, name_of, opened, refusal

__all__ = ["Middleware", "exempt", "limit"]

_lock = threading.Lock()
_stores = {}


def _gate(rule, options) -> Gate:
    """With what the settings say of all limits."""
    options = {**{name: value for name, value in settings.WEIR.items() if name != "rule"}, **options}
    for name in ("key", "exempt", "cost"):
        if isinstance(options.get(name), str):
            options[name] = import_string(options[name])
    store = options.pop("store")
    with _lock:
        if isinstance(store, str):
            store = _stores[store] = _stores.get(store) or opened(store)
    return Gate(store, rule, **options)


def _asked(request):
    return request, request.META.get("REMOTE_ADDR"), request.META.get("HTTP_X_FORWARDED_FOR")


def _tell(gate: Gate, decision, response):
    """The response, or in place of a missing one the refusal, with the fields."""
    if decision is None:
        return response
    fields = gate.fields(decision)
    if response is None:
        response = HttpResponse(refusal(fields), status=429, content_type="text/plain; charset=utf-8")
    for name, value in fields.items():
        response[name] = value if name not in response or name == "Retry-After" else f"{response[name]}, {value}"
    return response


def limit(rule: str, **options):
    def limited(view):
        made = functools.lru_cache(None)(lambda: _gate(rule, {"name": name_of(view), **options}))

        @functools.wraps(view)
        async def later(request, *args, **given):
            decision = await made().ask_later(*_asked(request))
            allowed = decision is None or decision.allowed
            return _tell(made(), decision, await view(request, *args, **given) if allowed else None)

        @functools.wraps(view)
        def now(request, *args, **given):
            decision = made().ask(*_asked(request))
            allowed = decision is None or decision.allowed
            return _tell(made(), decision, view(request, *args, **given) if allowed else None)

        return later if asyncio.iscoroutinefunction(view) else now
    return limited


def exempt(view):
    view.weir_exempt = True
    return view


class Middleware:
    """Limits every view, by WEIR["rule"]."""

    def __init__(self, get_response):
        self.get_response = get_response
        self.gate = _gate(settings.WEIR["rule"], {})

    def __call__(self, request):
        if self._exempts(request):
            return self.get_response(request)
        decision = self.gate.ask(*_asked(request))
        allowed = decision is None or decision.allowed
        return _tell(self.gate, decision, self.get_response(request) if allowed else None)

    @staticmethod
    def _exempts(request) -> bool:
        try:
            view = resolve(request.path_info).func
        except Resolver404:  # limited as any other
            return False
        return getattr(view, "weir_exempt", False)
