"""A Starlette service with limits: uvicorn starlette_service:app

Everybody has 100 requests a minute for the whole service, and a user, or who has no name an address,
5 searches a minute. Behind a proxy on this machine.
"""
import os

import weir
import weir.asgi
import weir.starlette
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import PlainTextResponse
from starlette.routing import Route

store = weir.Store(os.environ.get("WEIR_STORE", "memcached://localhost"))
limit = weir.starlette.Limits(store, trusted="127.0.0.1")


async def index(request):
    return PlainTextResponse("hello\n")


@limit("5/1m", key=lambda request: request.headers.get("x-user"))
async def search(request):
    return PlainTextResponse("found\n")


def health(request):
    return PlainTextResponse("ok\n")


app = Starlette(
    routes=[Route("/", index), Route("/search", search), Route("/health", health)],
    middleware=[Middleware(weir.asgi.Limit, store=store, rule="100/1m", trusted="127.0.0.1",
                           exempt=lambda scope: scope["path"] == "/health")])
