"""For functions of Starlette and FastAPI; weir.asgi.Limit is for a whole application.

    limit = weir.starlette.Limits("memcached://localhost")

    @limit("5/1m", key=lambda request: request.headers.get("x-user"))
    async def login(request): ...

Every function has counts of its own, unless name= is the same. A FastAPI function needs a parameter
`request: Request`. weir.web has all that can be said.
"""
from __future__ import annotations

import asyncio
import functools

from starlette.requests import Request
from starlette.responses import PlainTextResponse

from .asgi import header
from .web import Gate, name_of, opened, refusal

__all__ = ["Limits"]


class Limits:
    def __init__(self, store, **options):
        self.store, self.options = opened(store), options

    def __call__(self, rule: str, **options):
        def limited(function):
            gate = Gate(self.store, rule, **{"name": name_of(function), **self.options, **options})

            def told(decision, response):
                if decision is not None and hasattr(response, "headers"):
                    for name, value in gate.fields(decision).items():
                        response.headers.append(name, value)
                return response

            def asked(args, given):
                request = next(each for each in (*args, *given.values()) if isinstance(each, Request))
                return request, request.client and request.client.host, header(request.scope, "x-forwarded-for")

            def denied(decision):
                return told(decision, PlainTextResponse(refusal(gate.fields(decision)), 429))

            @functools.wraps(function)
            async def later(*args, **given):
                decision = await gate.ask_later(*asked(args, given))
                if decision is not None and not decision.allowed:
                    return denied(decision)
                return told(decision, await function(*args, **given))

            @functools.wraps(function)
            def now(*args, **given):  # in a thread of Starlette's
                decision = gate.ask(*asked(args, given))
                if decision is not None and not decision.allowed:
                    return denied(decision)
                return told(decision, function(*args, **given))

            return later if asyncio.iscoroutinefunction(function) else now
        return limited
