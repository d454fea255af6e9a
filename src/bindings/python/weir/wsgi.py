"""For WSGI: any application that gunicorn or uWSGI serves.

    app = weir.wsgi.Limit(app, "memcached://localhost?namespace=shop", "100/1m", key=lambda environ: ...)

Functions are given the environ. on_denied(environ, refusal) answers with another WSGI application.
weir.web has all that can be said.
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Iterable, Iterator, Union

from .store import Store
from .web import Gate, Passed, Rule, Seen

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .web import Options

__all__ = ["Limit"]
REASONS = {400: "Bad Request", 429: "Too Many Requests", 503: "Service Unavailable"}


def seen_of(environ: Any) -> Seen:
    return Seen(environ, environ.get("REQUEST_METHOD", ""), environ.get("REMOTE_ADDR"),
                environ.get("HTTP_X_FORWARDED_FOR"), environ.get("HTTP_ACCEPT", ""))


class _BegunLater:
    """What an application answers that says its status with its first bytes, as a generator does."""

    def __init__(self, body: Iterable[bytes], gate: Gate, passed: Passed):
        self.body, self.gate, self.passed = body, gate, passed

    def __iter__(self) -> Iterator[bytes]:
        try:
            yield from self.body
        except Exception:
            self.gate.finish(self.passed, 500)
            raise

    def close(self) -> None:
        if hasattr(self.body, "close"):
            self.body.close()


class Limit:
    def __init__(self, app: Callable[..., Iterable[bytes]], store: Union[Store, str], rule: Rule,
                 **options: Unpack[Options]):
        self.app = app
        self.gate = Gate(store, rule, **options)

    def __call__(self, environ: Any, start_response: Callable[..., Any]) -> Iterable[bytes]:
        passed = self.gate.ask(seen_of(environ))
        if passed is None:
            return self.app(environ, start_response)

        def start(status: str, lines: Any, *error: Any) -> Any:
            self.gate.finish(passed, int(status.split(" ", 1)[0]))
            return start_response(status, [*lines, *passed.fields.items()], *error)

        refusal = passed.refusal
        if refusal is None:
            try:
                body = self.app(environ, start)
            except Exception:
                self.gate.finish(passed, 500)
                raise
            return body if passed.is_finished else _BegunLater(body, self.gate, passed)
        if self.gate.on_denied is not None:
            answer: Iterable[bytes] = self.gate.on_denied(environ, refusal)(environ, start)
            return answer
        start(f"{refusal.status} {REASONS[refusal.status]}",
              [("Content-Type", refusal.content_type), ("Content-Length", str(len(refusal.body)))])
        return [refusal.body]
