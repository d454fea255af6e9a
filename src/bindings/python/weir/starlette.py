"""For functions of Starlette and FastAPI; weir.asgi.Limit is for a whole application.

    limit = weir.starlette.Limits("memcached://localhost?namespace=shop")

    @app.post("/login")
    @limit("5/1m", key=lambda request: request.headers.get("x-user"))
    async def login(): ...

Every function has counts of its own, unless name= is the same. It needs no parameter for the request: of
FastAPI the decorator asks for it, and for the response whose fields it sets, beside those of the function.
on_denied(request, refusal) answers a refusal, or raises: RateLimited(refusal) is an HTTPException, which
exception handlers see. weir.web has all that can be said.
"""
from __future__ import annotations

import functools
import inspect
import typing
from typing import TYPE_CHECKING, Any, Callable, Optional, Union

from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection, Request
from starlette.responses import Response

from .asgi import seen_of
from .store import Store
from .web import Gate, Passed, Refusal, Rule, is_async, name_of, opened, plain

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .web import Options

__all__ = ["Limits", "RateLimited"]
# Parameters that FastAPI fills, where the function has none of the kind: it fills one of each.
ADDED = {"weir_request": (Request, HTTPConnection), "weir_response": (Response, Response)}


class RateLimited(HTTPException):
    """`refusal` says why, and `refusal.decision` what is known."""

    def __init__(self, refusal: Refusal):
        super().__init__(refusal.status, refusal.text.strip(), dict(refusal.fields))
        self.refusal = refusal


def _status_of(error: BaseException) -> int:
    return error.status_code if isinstance(error, HTTPException) else 500


def _of_kind(kind: type, args: Any, given: Any) -> Any:
    return next((each for each in (*args, *given.values()) if isinstance(each, kind)), None)


def _called_with(args: Any, given: Any) -> Any:
    """The request, as Starlette gives it first and FastAPI by a parameter; and of FastAPI the response."""
    request, response = _of_kind(HTTPConnection, args, given), _of_kind(Response, args, given)
    for name in ADDED:
        given.pop(name, None)
    if request is not None:
        return request, response
    raise TypeError("a limited function was called without a request: @limit stands below the decorator of the "
                    "route, on what Starlette or FastAPI calls")


def _signature_of(function: Any) -> Optional[inspect.Signature]:
    """The function's own, with what is added. Its types are read here, where its module is known. None: nothing
    can be said of it."""
    inner = plain(function)
    try:
        own = inspect.signature(function)
        kinds = typing.get_type_hints(inner if inspect.isroutine(inner) else inner.__call__, include_extras=True)
    except (TypeError, ValueError, NameError):
        return None
    parameters = [each.replace(annotation=kinds.get(each.name, each.annotation)) for each in own.parameters.values()]
    rest = [each for each in parameters if each.kind is inspect.Parameter.VAR_KEYWORD]
    own_kinds = [each.annotation for each in parameters if isinstance(each.annotation, type)]
    added = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=kind)
             for name, (kind, base) in ADDED.items() if not any(issubclass(each, base) for each in own_kinds)]
    return own.replace(parameters=[*(each for each in parameters if each not in rest), *added, *rest],
                       return_annotation=kinds.get("return", own.return_annotation))


class Limits:
    def __init__(self, store: Union[Store, str], **options: Unpack[Options]):
        self.store, self.options = opened(store), options

    def __call__(self, rule: Rule, **options: Unpack[Options]) -> Callable[[Any], Any]:
        def limited(function: Any) -> Any:
            gate = Gate(self.store, rule, derived=name_of(function),
                        purpose=getattr(plain(function), "__code__", None) or type(function),
                        **{**self.options, **options})

            def told(passed: Optional[Passed], answer: Any, response: Optional[Response]) -> Any:
                """The fields go to the answer, or to the response that FastAPI makes of it."""
                response = answer if isinstance(answer, Response) else response
                if passed is not None and response is not None:
                    for name, value in passed.fields.items():
                        if value not in response.headers.getlist(name):  # as on_denied may have said it
                            response.headers.append(name, value)
                return answer

            def denied(request: Any, passed: Passed) -> Any:
                refusal = passed.refusal
                assert refusal is not None
                answer = (gate.on_denied(request, refusal) if gate.on_denied is not None else
                          Response(refusal.body, refusal.status, {"Content-Type": refusal.content_type}))
                return told(passed, answer, None)

            def status_of(answer: Any, response: Optional[Response]) -> int:
                return getattr(answer, "status_code", None) or getattr(response, "status_code", None) or 200

            @functools.wraps(function)
            async def later(*args: Any, **given: Any) -> Any:
                request, response = _called_with(args, given)
                passed = await gate.ask_later(seen_of(request.scope, request))
                if passed is not None and passed.refusal is not None:
                    return denied(request, passed)
                try:
                    answer = await function(*args, **given)
                except Exception as error:
                    await gate.finish_later(passed, _status_of(error))
                    raise
                await gate.finish_later(passed, status_of(answer, response))
                return told(passed, answer, response)

            @functools.wraps(function)
            def now(*args: Any, **given: Any) -> Any:  # in a thread of Starlette's
                request, response = _called_with(args, given)
                passed = gate.ask(seen_of(request.scope, request))
                if passed is not None and passed.refusal is not None:
                    return denied(request, passed)
                try:
                    answer = function(*args, **given)
                except Exception as error:
                    gate.finish(passed, _status_of(error))
                    raise
                gate.finish(passed, status_of(answer, response))
                return told(passed, answer, response)

            made: Any = later if is_async(function) else now
            signature = _signature_of(function)
            if signature is not None:
                made.__signature__ = signature
            return made
        return limited
