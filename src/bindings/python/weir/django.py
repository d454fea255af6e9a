"""For Django. In the settings:

    WEIR = {"store": "memcached://localhost?namespace=shop", "trusted": "10.0.0.0/8", "rule": "1000/1m"}
    MIDDLEWARE = [..., "weir.django.Middleware"]   # limits all; behind authentication, where key reads it

and for single views, with the middleware or without it:

    @limit("5/1m", key=lambda request: request.user.pk)
    def search(request): ...

    @method_decorator(limit("5/1m"), name="dispatch")
    class Search(View): ...

Functions are given the request; in the settings they may be named: "app.limits.key". Every view has
counts of its own, and so has every class, unless name= is the same; @exempt leaves one out of the
middleware's limit. on_denied(request, refusal) answers a refusal; "weir.django.raise_ratelimited" raises
Ratelimited there, which handler403 and middleware see. weir.web has all that can be said.
"""
from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Callable, Dict, NoReturn, Optional

from django.conf import settings
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpResponse
from django.urls import Resolver404, resolve
from django.utils.module_loading import import_string

from .store import Store
from .web import Gate, Passed, Refusal, Rule, Seen, is_async, name_of, plain

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .web import Options

__all__ = ["Middleware", "Ratelimited", "exempt", "limit", "raise_ratelimited"]

_stores: Dict[str, Store] = {}


class Ratelimited(PermissionDenied):  # type: ignore[misc]
    """`refusal` says why, and `refusal.decision` what is known."""

    def __init__(self, refusal: Refusal):
        super().__init__(refusal.text)
        self.refusal = refusal


def raise_ratelimited(_request: Any, refusal: Refusal) -> NoReturn:
    raise Ratelimited(refusal)


def _is_path(value: Any) -> bool:
    """Whether it names something of a module: a message has its spaces, or ends in a dot."""
    return isinstance(value, str) and "." in value and all(each.isidentifier() for each in value.split("."))


def _gate(rule: Rule, options: Any, derived: Optional[str], purpose: Any) -> Gate:
    """With what the settings say of all limits."""
    options = {**{name: value for name, value in settings.WEIR.items() if name != "rule"}, **options}
    for name in ("key", "exempt", "cost", "class_", "limit", "tenant", "enabled", "on_denied", "message"):
        if _is_path(options.get(name)):
            options[name] = import_string(options[name])
    store = options.pop("store")
    if isinstance(store, str):
        store = _stores.get(store) or _stores.setdefault(store, Store(store))
    return Gate(store, rule, derived=derived, purpose=purpose, **options)


def _seen(request: Any) -> Seen:
    meta = request.META
    return Seen(request, request.method or "", meta.get("REMOTE_ADDR"), meta.get("HTTP_X_FORWARDED_FOR"),
                meta.get("HTTP_ACCEPT", ""))


def _tell(gate: Gate, passed: Optional[Passed], request: Any, response: Any) -> Any:
    """The response, or in place of a missing one the refusal, with the fields."""
    if passed is None:
        return response
    if response is None and passed.refusal is not None:
        refusal = passed.refusal
        response = (gate.on_denied(request, refusal) if gate.on_denied is not None else
                    HttpResponse(refusal.body, status=refusal.status, content_type=refusal.content_type))
    for name, value in passed.fields.items():
        said = response[name] if name in response else value  # as on_denied may have said it
        response[name] = value if name == "Retry-After" or said == value else f"{said}, {value}"
    return response


def _status_of(error: BaseException) -> int:
    return 404 if isinstance(error, Http404) else 403 if isinstance(error, PermissionDenied) else 500


class _Gates:
    """Those of one decorator: method_decorator makes what it decorates anew at each request, so a gate is found
    by what it is for."""

    def __init__(self, rule: Rule, options: Any):
        self.rule, self.options = rule, options
        self.by_name: Dict[str, Gate] = {}

    def of(self, view: Any) -> Gate:
        name = name_of(view)
        gate = self.by_name.get(name)
        if gate is None:
            inner = plain(view)
            purpose = (name, getattr(inner, "__code__", None) or type(inner))
            gate = self.by_name.setdefault(name, _gate(self.rule, self.options, name, purpose))
        return gate


def limit(rule: Rule, **options: Unpack[Options]) -> Callable[[Any], Any]:
    gates = _Gates(rule, options)

    def limited(view: Any) -> Any:
        async def later(request: Any, *args: Any, **given: Any) -> Any:
            gate = gates.of(view)
            passed = await gate.ask_later(_seen(request))
            if passed is not None and passed.refusal is not None:
                return _tell(gate, passed, request, None)
            try:
                response = await view(request, *args, **given)
            except Exception as error:
                await gate.finish_later(passed, _status_of(error))
                raise
            await gate.finish_later(passed, response.status_code)
            return _tell(gate, passed, request, response)

        def now(request: Any, *args: Any, **given: Any) -> Any:
            gate = gates.of(view)
            passed = gate.ask(_seen(request))
            if passed is not None and passed.refusal is not None:
                return _tell(gate, passed, request, None)
            try:
                response = view(request, *args, **given)
            except Exception as error:
                gate.finish(passed, _status_of(error))
                raise
            gate.finish(passed, response.status_code)
            return _tell(gate, passed, request, response)

        made = later if is_async(view) else now
        return functools.update_wrapper(made, view)
    return limited


def exempt(view: Any) -> Any:
    view.weir_exempt = True
    return view


class Middleware:
    """Limits every view, by WEIR["rule"]."""

    def __init__(self, get_response: Callable[[Any], Any]):
        self.get_response = get_response
        self.gate = _gate(settings.WEIR["rule"], {}, None, settings.ROOT_URLCONF)

    def __call__(self, request: Any) -> Any:
        passed = None if self._exempts(request) else self.gate.ask(_seen(request))
        if passed is not None and passed.refusal is not None:
            return _tell(self.gate, passed, request, None)
        response = self.get_response(request)
        self.gate.finish(passed, response.status_code)
        return _tell(self.gate, passed, request, response)

    @staticmethod
    def _exempts(request: Any) -> bool:
        try:
            view = resolve(request.path_info, getattr(request, "urlconf", None)).func
        except Resolver404:  # limited as any other
            return False
        return bool(getattr(view, "weir_exempt", False))
