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

said: weir.Decision = limiter.take("alice", 2, class_="batch", limit=50, tenant=b"north")
limiter.set_limits({"alice": 500, "mallory": "blocked"}, ttl=3600)
limiter.set_limits({7: 500})
limit_now: int | str | None = limiter.get_limit("alice")
names: tuple[str, ...] = weir.Limiter(store, "quota:9/1h,most=99", limits_every=1, absent="deny").classes
limiter.take("alice", class_=7)  # refused: a name
limiter.take("alice", limit="7")  # refused: a number


def plan(environ: object) -> str:
    return "100/1m"


weir.wsgi.Limit(lambda environ, start: [b""], store, plan, methods=["GET"], skip_failed=True, fallback="none")
weir.asgi.Limit(None, store, "100/1m", name="api", message=lambda refusal: refusal.text)
weir.wsgi.Limit(lambda environ, start: [b""], store, "100/1m", nme="api")  # refused: no such option
weir.asgi.Limit(None, store, "100/1m,classes=batch:60%,most=999", class_=lambda scope: "batch", limit=lambda scope: 500)
weir.asgi.Limit(None, store, "100/1m,classes=batch:60%", class_="batch")
weir.asgi.Limit(None, store, "100/1m", class_=5)  # refused: no name
weir.asgi.Limit(None, store, 5)  # refused: no rule
weir.Limiter(store, "quota:9/1h", deadline="20ms")  # refused: seconds


async def main() -> None:
    async with aio.Store("memory:") as far:
        later = aio.Limiter(far, "in-flight:1/10s", fallback="allow")
        taken: weir.Decision = await later.take("a")
        async with later.hold("a", wait=1, class_="batch") as entered:
            released: str = await entered.release()
        print(taken, released, await later.get_limit("a"))
        aio.Limiter(far, "quota:9/1h", falback="deny")  # refused: no such option
