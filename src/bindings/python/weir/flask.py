"""For Flask.

    limit = weir.flask.Limits("memcached://localhost?namespace=shop")

    @app.get("/search")
    @limit("100/1m", key=lambda: request.headers.get("X-User"))
    def search(): ...

    limit.all(app, "1000/1m")     # every view, but those of @limit.exempt

Functions are called without arguments, within the request. Every view has counts of its own, unless
name= is the same; so has a blueprint. A refusal is raised, as RateLimited: @app.errorhandler(429) shapes it
(the others are 400 and 503), and on_denied(refusal) answers in its place. weir.web has all that can be said.
"""
from __future__ import annotations

import copy
import functools
from typing import TYPE_CHECKING, Any, Callable, List, Optional, Set, Tuple, Union

from flask import Blueprint, after_this_request, current_app, request
from werkzeug.exceptions import BadRequest, ServiceUnavailable, TooManyRequests

from .store import Store
from .web import Gate, Refusal, Rule, Seen, name_of, opened, refuse_async, short

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .web import Options

__all__ = ["Limits", "NeverFits", "NoDecision", "RateLimited", "WrongClaim"]


class Refused:
    """`refusal` says why, and `refusal.decision` what is known."""

    def __init__(self, refusal: Refusal):
        super().__init__(refusal.text)
        self.refusal = refusal

    def get_body(self, *_: Any) -> str:
        return self.refusal.body.decode()

    def get_headers(self, *_: Any) -> List[Tuple[str, str]]:
        return [("Content-Type", self.refusal.content_type)]


class RateLimited(Refused, TooManyRequests):  # type: ignore[misc]
    pass


class NeverFits(Refused, BadRequest):  # type: ignore[misc]
    pass


class WrongClaim(Refused, BadRequest):  # type: ignore[misc]
    """Of its class, or its tenant."""


class NoDecision(Refused, ServiceUnavailable):  # type: ignore[misc]
    pass


RAISED = {429: RateLimited, 400: NeverFits, 503: NoDecision}


def without_request(function: Any) -> Any:
    return lambda _request, *more: function(*more)


class Limits:
    def __init__(self, store: Union[Store, str], **options: Unpack[Options]):
        self.store, self.options = opened(store), options
        self._exempt: Set[Any] = set()

    def _gate(self, rule: Rule, options: Any, derived: Optional[str], purpose: Any) -> Gate:
        options = {**self.options, **options}
        refuse_async({"rule": rule, **options})
        for name in ("key", "exempt", "cost", "class_", "limit", "tenant", "on_denied"):
            if callable(options.get(name)):
                options[name] = without_request(options[name])
        return Gate(self.store, without_request(rule) if callable(rule) else rule, derived=derived, purpose=purpose,
                    **options)

    def __call__(self, rule: Rule, **options: Unpack[Options]) -> Callable[[Any], Any]:
        def limited(function: Any) -> Any:
            gate = self._gate(rule, options, name_of(function), getattr(function, "__code__", function))

            @functools.wraps(function)
            def view(*args: Any, **given: Any) -> Any:
                refused = self._ask(gate)
                return current_app.ensure_sync(function)(*args, **given) if refused is None else refused
            return view
        return limited

    def all(self, app: Any, rule: Rule, **options: Unpack[Options]) -> None:
        """Limits every view of an application or a blueprint."""
        of_blueprint = isinstance(app, Blueprint)
        gate = self._gate(rule, options, short("blueprint." + app.name) if of_blueprint else None, app.import_name)

        @app.before_request  # type: ignore[untyped-decorator,misc]
        def before() -> Any:
            return None if self._exempts() else self._ask(gate)

    def exempt(self, view: Any) -> Any:
        """Takes a function, a class of views or a blueprint out of what all() limits."""
        self._exempt.add(view)
        return view

    def _exempts(self) -> bool:
        """Whether the view is, or its class, or what other decorators have wrapped; or its blueprint."""
        if not self._exempt:
            return False
        view = current_app.view_functions.get(request.endpoint or "")
        found = {current_app.blueprints[name] for name in request.blueprints}
        while view is not None:
            found |= {view, getattr(view, "view_class", None)}
            view = getattr(view, "__wrapped__", None)
        return not found.isdisjoint(self._exempt)

    @staticmethod
    def _ask(gate: Gate) -> Any:
        """The answer to a request that is denied, where on_denied has one."""
        passed = gate.ask(Seen(None, request.method, request.remote_addr, request.headers.get("X-Forwarded-For"),
                               request.headers.get("Accept", "")))
        if passed is None:
            return None

        @after_this_request
        def tell(response: Any) -> Any:
            response = copy.copy(response)  # an application may keep it, and answer it again
            response.headers = response.headers.copy()
            for name, value in passed.fields.items():
                if value not in response.headers.getlist(name):  # as on_denied may have said it
                    response.headers.add(name, value)
            gate.finish(passed, response.status_code)
            return response
        if passed.refusal is None:
            return None
        if gate.on_denied is not None:
            return gate.on_denied(None, passed.refusal)
        claims = passed.refusal.status == 400 and passed.decision is None
        raise (WrongClaim if claims else RAISED[passed.refusal.status])(passed.refusal)
