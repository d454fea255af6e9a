"""For ASGI: Starlette, FastAPI, Quart, Django behind uvicorn.

    app = weir.asgi.Limit(app, "memcached://localhost", "100/1m")
    app.add_middleware(weir.asgi.Limit, store=store, rule="100/1m", key=lambda scope: ...)

Functions are given the scope; header(scope, "x-user") reads one of its fields. weir.web has all that
can be said. A WebSocket that is denied is closed before it opens.
"""
from __future__ import annotations

from typing import Optional

from .web import Gate, refusal

__all__ = ["Limit", "header"]


def header(scope, name: str) -> Optional[str]:
    """A request's field; several of them joined by commas."""
    wanted = name.lower().encode()
    found = [value.decode("latin-1") for each, value in scope["headers"] if each.lower() == wanted]
    return ", ".join(found) if found else None


async def ask(gate: Gate, scope):
    client = scope.get("client")
    return await gate.ask_later(scope, client[0] if client else None, header(scope, "x-forwarded-for"))


class Limit:
    def __init__(self, app, store, rule: str, **options):
        self.app = app
        self.gate = Gate(store, rule, **options)

    async def __call__(self, scope, receive, send):
        if scope["type"] not in ("http", "websocket"):
            return await self.app(scope, receive, send)
        decision = await ask(self.gate, scope)
        if decision is None:
            return await self.app(scope, receive, send)
        fields = self.gate.fields(decision)
        lines = [(name.lower().encode(), value.encode()) for name, value in fields.items()]

        async def send_with_fields(message):
            if message["type"] in ("http.response.start", "websocket.accept"):
                message = {**message, "headers": [*message.get("headers", ()), *lines]}
            await send(message)

        if decision.allowed:
            return await self.app(scope, receive, send_with_fields)
        if scope["type"] == "websocket":
            await receive()
            return await send({"type": "websocket.close", "code": 1013})  # try again later
        body = refusal(fields).encode()
        lines += [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": 429, "headers": lines})
        return await send({"type": "http.response.body", "body": body})
