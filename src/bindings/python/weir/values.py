"""Values that go in and come out: keys, costs and times are read strictly, as ctypes would read anything."""
from __future__ import annotations

import ctypes
import math
import operator
import threading
from typing import Any, NamedTuple, Optional, Sequence, Tuple, Union

from . import native

Key = Union[str, bytes, bytearray, memoryview, int]
Cost = Union[int, Sequence[int]]

ASKED_STORE = frozenset((native.WEIR_SOURCE_STORE, native.WEIR_SOURCE_LOCAL, native.WEIR_SOURCE_SETTLED,
                         native.WEIR_SOURCE_UNLIMITED))
SOURCES = ("store", "local", "fallback", "late", "settled", "unlimited")
CLASSES = ("none", "caller", "transient", "store", "bug")
COST_MOST = 2147483648
LIMIT_MOST = 2**53
US_MOST = 2**53  # beyond, a float has no microseconds


class Error(Exception):
    """There is no decision.

    status: the name of it: "BAD_RULE", "UNAVAILABLE". kind: who can do something about it: "caller",
    "transient", "store" or "bug".
    """

    def __init__(self, status: int, text: str = ""):
        super().__init__(text or native.weir_status_text(status).decode())
        self.status = native.weir_status_name(status).decode()
        self.kind = CLASSES[native.weir_status_classify(status)]

    def __reduce__(self):
        return (_error_again, (type(self), self.args, self.__dict__))


def _error_again(kind, args, members):
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(members)
    return error


class PlaceLost(Error):
    """The place was lost before it was left: its process was stopped, or could not pay for it. Others may have
    entered while the work went on."""


class NoPlace(Error):
    """All were taken, for as long as hold() might wait. `decision` says what is known."""

    def __init__(self, decision: "Decision"):
        super().__init__(native.WEIR_OK, f"no place is free: {decision.limit} are held")
        self.status, self.kind, self.decision = "NO_PLACE", "transient", decision


class ClosedError(Error):
    """It was used after close()."""

    def __init__(self, what: str):
        super().__init__(native.WEIR_BAD_ARGUMENT, f"the {what} is closed")


class Messages(threading.local):
    """One for each thread, as a call fills it before the thread makes its next."""

    def __init__(self):
        self.message = native.weir_message()
        self.at = ctypes.byref(self.message)


messages = Messages()


def check(status: int) -> None:
    """Raises for the status of a call that was given messages.at."""
    if status != native.WEIR_OK:
        kind = PlaceLost if status == native.WEIR_PLACE_LOST else Error
        raise kind(status, messages.message.text.decode())


def seconds(microseconds: int) -> Optional[float]:
    return None if microseconds < 0 else microseconds / 1e6


class Decision:
    """A decision. It is true where the request is allowed. Times are seconds from then on."""

    __slots__ = ("_raw", "message", "_said", "__weakref__")

    def __init__(self, raw, message: str = ""):
        self._raw = raw
        self.message = message  # why the store did not decide; "" where it did

    @property
    def said(self) -> Optional[Said]:
        """What its request said of itself: it is settled by the same."""
        return getattr(self, "_said", None)

    allowed: bool = property(lambda self: self._raw.allowed)
    source: str = property(lambda self: SOURCES[self._raw.source],
                           doc="who decided: store, local, fallback (it is away), late; settled: it has been; unlimited: its key is")
    rule: int = property(lambda self: self._raw.rule, doc="whose figures these are: 0 is the first")
    limit: int = property(lambda self: self._raw.limit)
    remaining: Optional[int] = property(lambda self: None if self._raw.remaining < 0 else self._raw.remaining,
                                        doc="None: not known")
    retry_after: Optional[float] = property(lambda self: seconds(self._raw.retry_after_us),
                                            doc="0.0 when allowed; None: its cost never fits")
    reset_after: Optional[float] = property(lambda self: seconds(self._raw.reset_after_us), doc="None: not known")
    delay: float = property(lambda self: self._raw.delay_us / 1e6,
                            doc="allowed: wait so long before acting; denied: hold the refusal so long")
    cost: int = property(lambda self: self._raw.cost, doc="what is charged; asked when denied; 0: one per rule")
    at: float = property(lambda self: self._raw.at_us / 1e6, doc="the time it was decided for")
    store_status: str = property(lambda self: native.weir_status_name(self._raw.store_status).decode(),
                                 doc="why the store did not decide; OK")

    def __bool__(self) -> bool:
        return bool(self._raw.allowed)

    def __reduce__(self) -> Tuple[Any, ...]:
        return (_decision_again, (bytes(self._raw), self.message, self.said))

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in
                          ("allowed", "source", "limit", "remaining", "retry_after", "reset_after", "delay", "cost"))
        return f"Decision({shown})"


def _decision_again(raw: bytes, message: str, said: Optional[Said] = None) -> Decision:
    return saying(said, Decision(native.weir_decision.from_buffer_copy(raw), message))


def saying(said: Optional[Said], decision: Decision) -> Decision:
    if said is not None:
        decision._said = said
    return decision


class Request(NamedTuple):
    """One of a batch. A cost per rule is a sequence of them."""

    key: Key
    cost: Cost = 1
    longest_wait: float = 0.0
    up_to: bool = False
    peek: bool = False
    class_: Optional[str] = None
    limit: Optional[int] = None
    tenant: Optional[Key] = None


class Said(NamedTuple):
    """What a request says of itself, as the library takes it."""

    class_name: bytes  # with its NUL; b"": none
    limit: int  # 0: none
    tenant: Optional[bytes]


def said_of(class_: Optional[str], limit: Optional[int], tenant: Optional[Key]) -> Optional[Said]:
    if class_ is None and limit is None and tenant is None:
        return None
    return Said(b"" if class_ is None else text_bytes("a class", class_) + b"\0", 0 if limit is None else one_limit(limit),
                None if tenant is None else key_bytes(tenant, "a tenant"))


def utf8(what: str, text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{what} has half of a surrogate pair: accepted is text that UTF-8 can tell") from None


def key_bytes(key: Key, what: str = "a key") -> bytes:
    """Text is UTF-8, a whole number its decimal text; anything else that is no bytes is refused."""
    if isinstance(key, str):
        return utf8(what, key)
    if isinstance(key, bytes):
        return key
    if isinstance(key, (bytearray, memoryview)):
        return bytes(key)
    if isinstance(key, int) and not isinstance(key, bool):
        return b"%d" % key
    raise TypeError(f"{what} is str, bytes or int, not {type(key).__name__}")


def text_bytes(what: str, text: str) -> bytes:
    """The bytes of a text that C ends by a NUL."""
    if not isinstance(text, str):
        raise TypeError(f"{what} is str, not {type(text).__name__}")
    if "\0" in text:
        raise ValueError(f"{what} has a NUL in it")
    return utf8(what, text)


def whole(what: str, value: int) -> int:
    if isinstance(value, bool):
        raise TypeError(f"{what} is a whole number, not bool")
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"{what} is a whole number, not {type(value).__name__}") from None


def one_cost(cost: int) -> int:
    cost = whole("a cost", cost)
    if not 0 <= cost <= COST_MOST:
        raise Error(native.WEIR_BAD_COST, f"a cost is 1 to {COST_MOST}")
    return cost


def one_limit(limit: int, more: str = "") -> int:
    """Which of these a rule accepts the library knows."""
    if not 1 <= whole("a limit", limit) <= LIMIT_MOST:
        raise Error(native.WEIR_BAD_ARGUMENT, f"a limit of {limit}: accepted are 1 to most= of the rule{more}")
    return operator.index(limit)


def count_between(what: str, value: int, most: int = 2**32 - 1) -> int:
    if not 1 <= whole(what, value) <= most:
        raise ValueError(f"{what} is 1 to {most}")
    return operator.index(value)


def microseconds(what: str, value: float, least: int = 1, most: Optional[int] = None) -> int:
    """Microseconds of so many seconds."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{what} is a number of seconds, not {type(value).__name__}")
    fits = math.isfinite(value) and abs(value) * 1e6 <= US_MOST and round(value * 1e6) >= least
    if most is not None and not (fits and round(value * 1e6) <= most):
        raise ValueError(f"{what} is {least / 1e6:g} s to {most // 1_000_000} s")
    if not fits:
        raise ValueError(f"{what} is {least / 1e6:g} s or more" if least else f"{what} is 0 s or more")
    return round(value * 1e6)


def one_of(what: str, value: str, accepted: Sequence[str]) -> int:
    if not isinstance(value, str) or value not in accepted:
        raise ValueError(f"{what} is one of {', '.join(accepted)}")
    return list(accepted).index(value)
