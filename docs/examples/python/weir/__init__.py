"""Rate limits on memcached or Redis, decided by libweir.

    import weir
    with weir.Store("memcached://localhost") as store:
        limiter = weir.Limiter(store, "sliding-window:100/1m")
        decision = limiter.take("alice")
        if not decision.allowed:
            print("again in", decision.retry_after, "s")

A denied request is a decision. weir.Error is raised where there is none. Times are seconds. Objects
may be used by any number of threads; weir.aio is for event loops.
"""
import ctypes
import dataclasses

from . import native

SOURCES = ("store", "local", "fallback", "late")
FALLBACKS = {"local": 0, "deny": 1, "allow": 2, "none": 3}


class Error(Exception):
    """There is no decision. `status` is its name: "BAD_RULE", "UNAVAILABLE"."""

    def __init__(self, status, message):
        super().__init__(message.text.decode() or native.weir_status_text(status).decode())
        self.status = native.weir_status_name(status).decode()


@dataclasses.dataclass(frozen=True)
class Decision:
    allowed: bool
    source: str         # who decided: one of SOURCES
    limit: int
    remaining: int      # None: not known
    retry_after: float  # None: its cost is above the limit
    reset_after: float  # None: not known
    delay: float        # wait so long before acting (leaky-bucket)
    cost: int
    raw: object         # the weir_decision, for Limiter.refund() and http_fields()


def seconds(microseconds):
    return None if microseconds < 0 else microseconds / 1e6


def decision_of(raw):
    return Decision(raw.allowed, SOURCES[raw.source], raw.limit, None if raw.remaining < 0 else raw.remaining,
                    seconds(raw.retry_after_us), seconds(raw.reset_after_us), raw.delay_us / 1e6, raw.cost, raw)


def check(status, message):
    if status != native.WEIR_OK:
        raise Error(status, message)


def key_bytes(key):
    return key.encode() if isinstance(key, str) else bytes(key)


class Store:
    """Where counts live. Must be closed after the limiters on it."""

    def __init__(self, url):
        self.handle = ctypes.c_void_p()
        message = native.weir_message()
        check(native.weir_store_open(url.encode(), ctypes.byref(self.handle), ctypes.byref(message)), message)

    def close(self):
        native.weir_store_close(self.handle)
        self.handle = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Limiter:
    """A rule applied to keys. Options are the members of weir_limiter_options; fallback is one of
    FALLBACKS."""

    def __init__(self, store, rules, *, fallback="local", **options):
        given = native.weir_limiter_options(fallback=FALLBACKS[fallback], **options)
        given.size = ctypes.sizeof(given)
        message = native.weir_message()
        self.store = store
        self.handle = ctypes.c_void_p()
        check(native.weir_limiter_create(store.handle, rules.encode(), ctypes.byref(given),
                                         ctypes.byref(self.handle), ctypes.byref(message)), message)

    def take(self, key, cost=1):
        """Decides, and charges what is admitted."""
        return self._ask(native.weir_limiter_take, key, cost)

    def take_up_to(self, key, cost):
        """The same for as much as fits: decision.cost says how much."""
        return self._ask(native.weir_limiter_take_up_to, key, cost)

    def peek(self, key, cost=1):
        """What take() would decide now; changes nothing."""
        return self._ask(native.weir_limiter_peek, key, cost)

    def _ask(self, function, key, cost):
        key, raw, message = key_bytes(key), native.weir_decision(), native.weir_message()
        check(function(self.handle, key, len(key), cost, ctypes.byref(raw), ctypes.byref(message)), message)
        return decision_of(raw)

    def refund(self, key, decision, cost):
        """Gives back a part of what an allowed decision has charged."""
        key, message = key_bytes(key), native.weir_message()
        check(native.weir_limiter_refund(self.handle, key, len(key), cost, ctypes.byref(decision.raw),
                                         ctypes.byref(message)), message)

    def reset(self, key):
        key, message = key_bytes(key), native.weir_message()
        check(native.weir_limiter_reset(self.handle, key, len(key), ctypes.byref(message)), message)

    def decide(self, wanted):
        """Decides up to 1024 pairs of key and cost together; a Decision or an Error for each."""
        wanted = [(key_bytes(key), cost) for key, cost in wanted]
        requests = (native.weir_request * len(wanted))()
        message = native.weir_message()
        for request, (key, cost) in zip(requests, wanted):
            request.key = ctypes.cast(ctypes.c_char_p(key), ctypes.c_void_p)
            request.key_length, request.cost = len(key), cost
        native.weir_limiter_decide(self.handle, requests, len(requests), ctypes.byref(message))
        return [decision_of(each.decision) if each.status == native.WEIR_OK
                else Error(each.status, native.weir_message()) for each in requests]

    def http_fields(self, name, decision):
        """The response fields that tell a client, as a dictionary."""
        fields = (native.weir_http_field * native.WEIR_HTTP_FIELDS_MOST)()
        count, message = ctypes.c_size_t(), native.weir_message()
        check(native.weir_http_write_fields(self.handle, name.encode(), ctypes.byref(decision.raw),
                                            native.WEIR_HTTP_DRAFT_10, fields, ctypes.byref(count),
                                            ctypes.byref(message)), message)
        return {each.name.decode(): each.value.decode() for each in fields[:count.value]}

    def close(self):
        native.weir_limiter_destroy(self.handle)
        self.handle = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
