"""Rate limits on memcached or Redis, decided by libweir.

    import weir
    with weir.Store("memcached://localhost") as store:
        limiter = weir.Limiter(store, "sliding-window:100/1m")
        decision = limiter.take("alice")
        if not decision.allowed:
            print("again in", decision.retry_after, "s")

A denied request is a decision; weir.Error is raised where there is none. Times are seconds. A key is
text (its UTF-8), bytes, or a whole number (its decimal text). All objects may be used by any number
of threads, and after a fork as well: a child opens its stores anew. weir.aio is for asyncio;
weir.asgi, weir.wsgi, weir.flask and weir.django limit services.
"""
from .http import Networks, client_key
from .limiter import Joint, Limiter, Place, Reservation, decide_all, decide_together
from .monitor import Event, Watch, metrics
from .native import library_version
from .store import ServerState, Store
from .values import ClosedError, Decision, Error, NoPlace, PlaceLost, Request
from .version import VERSION as __version__

__all__ = ["ClosedError", "Decision", "Error", "Event", "Joint", "Limiter", "Networks", "NoPlace", "Place", "PlaceLost",
           "Request", "Reservation", "ServerState", "Store", "Watch", "client_key", "decide_all", "decide_together",
           "library_version", "metrics", "__version__"]
