"""Read by mypy --strict, and never run: what users may write, and, where a line says so, what they may not."""
import weir
import weir.asgi
import weir.wsgi
from weir import aio

store = weir.Store("memory:")
limiter = weir.Limiter(store, "quota:9/1h", fallback="deny", deadline=0.02)
decision: weir.Decision = limiter.take("alice")
left: int | None = decision.remaining
why: str = decision.message
with weir.Limiter(store, "in-flight:1/10s").hold("a", wait=1) as place:
    status: str = place.release()
with limiter.reserve("a") as reserved:
    charged: list[int] = reserved.settle(1)
try:
    limiter.wait("a", longest_wait=1.5)
except weir.NoPlace as none:
    known: weir.Error = none
    print(none.decision.limit)


def plan(environ: object) -> str:
    return "100/1m"


weir.wsgi.Limit(lambda environ, start: [b""], store, plan, methods=["GET"], skip_failed=True, fallback="none")
weir.asgi.Limit(None, store, "100/1m", name="api", message=lambda refusal: refusal.text)
weir.wsgi.Limit(lambda environ, start: [b""], store, "100/1m", nme="api")  # refused: no such option
weir.asgi.Limit(None, store, 5)  # refused: no rule
weir.Limiter(store, "quota:9/1h", deadline="20ms")  # refused: seconds


async def main() -> None:
    async with aio.Store("memory:") as far:
        later = aio.Limiter(far, "in-flight:1/10s", fallback="allow")
        taken: weir.Decision = await later.take("a")
        async with later.hold("a", wait=1) as entered:
            released: str = await entered.release()
        print(taken, released)
        aio.Limiter(far, "quota:9/1h", falback="deny")  # refused: no such option
