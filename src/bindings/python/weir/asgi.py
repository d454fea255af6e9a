"""For ASGI: Starlette, FastAPI, Quart, Django behind uvicorn.

    app = weir.asgi.Limit(app, "memcached://localhost?namespace=shop", "100/1m")
    app.add_middleware(weir.asgi.Limit, store=store, rule="100/1m", key=lambda scope: ...)

Functions are given the scope; header(scope, "x-user") reads one of its fields. on_denied(scope, refusal)
answers with another ASGI application, as every response of Starlette is one. weir.web has all that can
be said. A WebSocket that is denied is closed before it opens.
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Any, Optional, Union

from .store import Store
from .web import Gate, Rule, Seen

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .web import Options

__all__ = ["Limit", "header"]


def header(scope: Any, name: str) -> Optional[str]:
    """A request's field; several of them joined by commas."""
    wanted = name.lower().encode()
    found = [value.decode("latin-1") for each, value in scope["headers"] if each.lower() == wanted]
    return ", ".join(found) if found else None


def seen_of(scope: Any, request: Any) -> Seen:
    client = scope.get("client")
    return Seen(request, scope.get("method", ""), client[0] if client else None, header(scope, "x-forwarded-for"),
                header(scope, "accept") or "")


class Limit:
    def __init__(self, app: Any, store: Union[Store, str], rule: Rule, **options: Unpack[Options]):
        self.app = app
        self.gate = Gate(store, rule, **options)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] not in ("http", "websocket"):
            return await self.app(scope, receive, send)  # type: ignore[no-any-return]
        passed = await self.gate.ask_later(seen_of(scope, scope))
        if passed is None:
            return await self.app(scope, receive, send)  # type: ignore[no-any-return]
        lines = [(name.lower().encode(), value.encode()) for name, value in passed.fields.items()]

        async def send_with_fields(message: Any) -> None:
            if message["type"] in ("http.response.start", "websocket.accept"):
                message = {**message, "headers": [*message.get("headers", ()), *lines]}
                await self.gate.finish_later(passed, message.get("status", 101))
            await send(message)

        refusal = passed.refusal
        if refusal is None:
            try:
                return await self.app(scope, receive, send_with_fields)  # type: ignore[no-any-return]
            except Exception:
                await self.gate.finish_later(passed, 500)
                raise
        if scope["type"] == "websocket":
            await receive()
            return await send({"type": "websocket.close", "code": 1013})  # type: ignore[no-any-return]  # try later
        if self.gate.on_denied is not None:
            answer = self.gate.on_denied(scope, refusal)
            return await answer(scope, receive, send_with_fields)  # type: ignore[no-any-return]
        await send_with_fields({"type": "http.response.start", "status": refusal.status, "headers": [
            (b"content-type", refusal.content_type.encode()), (b"content-length", b"%d" % len(refusal.body))]})
        await send({"type": "http.response.body", "body": refusal.body})
