"""For functions of Starlette and FastAPI; weir.asgi.Limit is for a whole application.

    limit = weir.starlette.Limits("memcached://localhost?namespace=shop")

    @app.post("/login")
    @limit("5/1m", key=lambda request: request.headers.get("x-user"))
    async def login(): ...

Every function has counts of its own, unless name= is the same. It needs no parameter for the request: of
FastAPI the decorator asks for it, and for the response whose fields it sets, beside those of the function.
on_denied(request, refusal) answers a refusal, or raises: RateLimited(refusal) is an HTTPException, which
exception handlers see. A dependency of FastAPI raises it, as nobody sends what a dependency answers. A
WebSocket that is denied is closed before it opens. weir.web has all that can be said.
"""
from __future__ import annotations

import functools
import inspect
import typing
from typing import TYPE_CHECKING, Any, Callable, List, Optional, Tuple, Union

from starlette.exceptions import HTTPException, WebSocketException
from starlette.requests import HTTPConnection
from starlette.responses import Response
from starlette.websockets import WebSocket

from .asgi import seen_of
from .store import Store
from .web import Gate, Passed, Refusal, Rule, is_async, name_of, opened, plain

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .web import Options

__all__ = ["Limits", "RateLimited"]
# Parameters that FastAPI fills, where the function has none of the kind: it fills one of each.
ADDED = {"weir_request": HTTPConnection, "weir_response": Response}


class RateLimited(HTTPException):
    """`refusal` says why, and `refusal.decision` what is known."""

    def __init__(self, refusal: Refusal):
        super().__init__(refusal.status, refusal.text.strip(), dict(refusal.fields))
        self.refusal = refusal


def _with_fields(kept: Any, passed: Optional[Passed]) -> Any:
    """A response, or an error, with the fields: a copy, as applications keep both to answer them again."""
    if passed is None:
        return kept
    made = type(kept).__new__(type(kept))
    vars(made).update(vars(kept))
    if isinstance(made, Response):
        vars(made).pop("_headers", None)  # they are read from these
        made.raw_headers = list(kept.raw_headers)
        _add_fields(made, passed)
    else:
        made.args, said = kept.args, dict(kept.headers or {})
        made.headers = {**said, **{name: f"{said[name]}, {value}" if name in said else value
                                   for name, value in passed.fields.items()}}
    return made


def _add_fields(response: Response, passed: Passed) -> None:
    for name, value in passed.fields.items():
        if value not in response.headers.getlist(name):  # as on_denied may have said it
            response.headers.append(name, value)


def _is_endpoint(scope: Any, made: Any) -> bool:
    """Whether what it answers is sent. It is not where FastAPI, which tells its route, asks it as a dependency."""
    called = getattr(scope.get("route"), "endpoint", made)
    while called is not None:
        called = plain(called)
        if getattr(called, "__func__", called) is made:
            return True
        called = getattr(called, "__wrapped__", None)
    return False


def _of_kind(kind: type, args: Any, given: Any) -> Any:
    return next((each for each in (*args, *given.values()) if isinstance(each, kind)), None)


def _called_with(args: Any, given: Any, added: Any) -> Any:
    """The request, as Starlette gives it first and FastAPI by a parameter; and of FastAPI the response. What was
    added for them goes no further."""
    request, response = _of_kind(HTTPConnection, args, given), _of_kind(Response, args, given)
    for name in added:
        given.pop(name, None)
    if request is not None:
        return request, response
    raise TypeError("a limited function was called without a request: @limit stands below the decorator of the "
                    "route, on what Starlette or FastAPI calls")


def _signature_of(function: Any) -> Tuple[Optional[inspect.Signature], List[str]]:
    """The function's own, with what is added, and the names of that. Its types are read here, where its module is
    known. None: nothing can be said of it."""
    inner = plain(function)
    try:
        own = inspect.signature(function)
        kinds = typing.get_type_hints(inner if inspect.isroutine(inner) else inner.__call__, include_extras=True)
    except (TypeError, ValueError, NameError):
        return None, []
    parameters = [each.replace(annotation=kinds.get(each.name, each.annotation)) for each in own.parameters.values()]
    rest = [each for each in parameters if each.kind is inspect.Parameter.VAR_KEYWORD]
    own_kinds = [each.annotation for each in parameters if isinstance(each.annotation, type)]
    added = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=kind)
             for name, kind in ADDED.items() if not any(issubclass(each, kind) for each in own_kinds)]
    return own.replace(parameters=[*(each for each in parameters if each not in rest), *added, *rest],
                       return_annotation=kinds.get("return", own.return_annotation)), [each.name for each in added]


class Limits:
    def __init__(self, store: Union[Store, str], **options: Unpack[Options]):
        self.store, self.options = opened(store), options

    def __call__(self, rule: Rule, **options: Unpack[Options]) -> Callable[[Any], Any]:
        def limited(function: Any) -> Any:
            gate = Gate(self.store, rule, derived=name_of(function),
                        purpose=getattr(plain(function), "__code__", None) or type(function),
                        **{**self.options, **options})
            signature, added = _signature_of(function)

            def told(passed: Optional[Passed], answer: Any, response: Optional[Response]) -> Any:
                """The fields go to the answer, or to the response that FastAPI makes of it."""
                if isinstance(answer, Response):
                    return _with_fields(answer, passed)
                if passed is not None and response is not None:
                    _add_fields(response, passed)
                return answer

            def denied(request: Any, passed: Passed) -> Any:
                refusal = passed.refusal
                assert refusal is not None
                if isinstance(request, WebSocket):
                    raise WebSocketException(1013)  # try later
                answer = (gate.on_denied(request, refusal) if gate.on_denied is not None else
                          Response(refusal.body, refusal.status, {"Content-Type": refusal.content_type}))
                if not _is_endpoint(request.scope, made):
                    raise RateLimited(refusal)
                return told(passed, answer, None)

            def status_of(answer: Any, response: Optional[Response]) -> int:
                return getattr(answer, "status_code", None) or getattr(response, "status_code", None) or 200

            @functools.wraps(function)
            async def later(*args: Any, **given: Any) -> Any:
                request, response = _called_with(args, given, added)
                passed = await gate.ask_later(seen_of(request.scope, request))
                if passed is not None and passed.refusal is not None:
                    return denied(request, passed)
                try:
                    answer = await function(*args, **given)
                except HTTPException as error:
                    await gate.finish_later(passed, error.status_code)
                    if passed is None:
                        raise
                    raise _with_fields(error, passed) from error
                except Exception:
                    await gate.finish_later(passed, 500)
                    raise
                await gate.finish_later(passed, status_of(answer, response))
                return told(passed, answer, response)

            @functools.wraps(function)
            def now(*args: Any, **given: Any) -> Any:  # in a thread of Starlette's
                request, response = _called_with(args, given, added)
                passed = gate.ask(seen_of(request.scope, request))
                if passed is not None and passed.refusal is not None:
                    return denied(request, passed)
                try:
                    answer = function(*args, **given)
                except HTTPException as error:
                    gate.finish(passed, error.status_code)
                    if passed is None:
                        raise
                    raise _with_fields(error, passed) from error
                except Exception:
                    gate.finish(passed, 500)
                    raise
                gate.finish(passed, status_of(answer, response))
                return told(passed, answer, response)

            made: Any = later if is_async(function) else now
            if signature is not None:
                made.__signature__ = signature
            return made
        return limited
