"""Limiters: a rule applied to keys."""
from __future__ import annotations

import ctypes
import math
import os
import random
import re
import struct
import threading
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterable, List, NamedTuple, Optional, Tuple, TypeVar, Union

from . import http, native
from .store import LimiterHandle, Store, log, refuse_to_pickle
from .values import (ASKED_STORE, COST_MOST, ClosedError, Cost, Decision, Error, Key, NoPlace, PlaceLost, Request, Said, check, count_between,
                     key_bytes, messages, microseconds, one_cost, one_limit, one_of, said_of, saying, text_bytes)

if TYPE_CHECKING:
    from typing import TypedDict

    class LimiterOptions(TypedDict, total=False):
        """The arguments of Limiter, for the type checker, where others pass them on."""

        fallback: str
        deadline: Optional[float]
        clock_error: Optional[float]
        processes: Optional[int]
        memo_keys: Optional[int]
        memo_age: Optional[float]
        local_denial: Optional[float]
        least_ttl: Optional[float]
        longest_wait: Optional[float]
        peers: Optional[int]
        limits_every: Optional[float]
        absent: str
        cached_cells: bool
        local_denials: bool
        combining: bool
        leases: bool
        clock: Optional[Callable[[], float]]

INT64_MOST = 2**63 - 1
FALLBACKS = ("local", "deny", "allow", "none")
ABSENT = ("rule", "deny")
LIMIT_KINDS = (None, "none", "number", "blocked", "unlimited")  # enum weir_limit_kind
LIMIT_WORDS = ("none", "blocked", "unlimited")
Limit = Union[int, str]
CALLER = native.WEIR_CLASS_CALLER
SIZE = ctypes.sizeof(native.weir_request)
DECISION_SIZE = ctypes.sizeof(native.weir_decision)
STILL = "what was admitted while the store was away still counts for this key"
SLICE_US = 100_000  # that the main thread waits for a place in one call
INPUT = struct.Struct("@PnqPqI")  # weir_request up to its flags
EXTRA = struct.Struct("@nPqPn")  # weir_extra
ADDRESS = struct.Struct("@P")

# Bound here, as the way of a take is short.
_take, _decision, _byref = native.weir_limiter_take, native.weir_decision, ctypes.byref
LOCAL = native.WEIR_SOURCE_LOCAL


class Rule(NamedTuple):
    """One rule of a limiter."""

    text: str
    algorithm: str
    name: str
    limit: int
    period: float
    capacity: int


class Wanted(NamedTuple):
    """A request as the library takes it."""

    key: bytes
    cost: int
    costs: Optional[ctypes.Array]
    longest_wait_us: int
    flags: int
    said: Optional[Said] = None


def wanted_of(request: Union[Request, Key, Tuple]) -> Wanted:
    """Reads a key, a tuple as Request has them, or a Request."""
    if not isinstance(request, tuple):
        request = (request,)
    key, cost, longest_wait, up_to, peek, class_, limit, tenant = Request(*request)
    costs = None
    if isinstance(cost, (list, tuple)):
        costs = (ctypes.c_int64 * max(len(cost), 1))(*[one_cost(each) for each in cost])
        cost = len(cost)
    else:
        cost = one_cost(cost)
    flags = native.WEIR_REQUEST_PEEK * bool(peek) | native.WEIR_REQUEST_UP_TO * bool(up_to)
    wait_us = microseconds("longest_wait", longest_wait, 0) if longest_wait else 0
    return Wanted(key_bytes(key), cost, costs, wait_us, flags, said_of(class_, limit, tenant))


def address_of(text: bytes) -> Any:
    return ctypes.cast(ctypes.c_char_p(text), ctypes.c_void_p).value


def fill(limiters: List["Limiter"], wanted: List[Wanted]):
    """Makes the library's requests of them, and tells what must live meanwhile."""
    text = b"".join([each.key for each in wanted])
    at = address_of(text)
    requests = (native.weir_request * len(wanted))()
    offset = 0
    for limiter, (key, cost, costs, wait_us, flags, _) in zip(limiters, wanted):
        address = 0
        if costs is not None:
            if cost != limiter.rule_count:
                raise ValueError(f"a cost for each rule: {limiter.rule_count} are needed, {cost} given")
            address, cost = ctypes.addressof(costs), 0
        INPUT.pack_into(requests, offset, at, len(key), cost, address, wait_us, flags)
        at += len(key)
        offset += SIZE
    return requests, text


def fill_extras(wanted: List[Wanted]):
    """Makes the library's extras of what requests say of themselves, None where none does, and tells what must
    live meanwhile."""
    said = [each.said for each in wanted]
    if said.count(None) == len(said):
        return None, None
    text = b"".join([each.class_name + (each.tenant or b"") for each in said if each is not None])
    extras = (native.weir_extra * len(said))()
    pointers = (ctypes.POINTER(native.weir_extra) * len(said))()
    at, first = address_of(text), ctypes.addressof(extras)
    for index, each in enumerate(said):
        if each is None:
            continue
        name, limit, tenant = each
        tenant_at, length = at + len(name), len(tenant or b"")
        EXTRA.pack_into(extras, index * EXTRA.size, EXTRA.size, at if name else 0, limit, 0 if tenant is None else tenant_at, length)
        ADDRESS.pack_into(pointers, index * ADDRESS.size, first + index * EXTRA.size)
        at = tenant_at + length
    return pointers, (extras, text)


def decide_batch(limiters: List["Limiter"], wanted: List[Wanted]) -> List[Union[Decision, Error]]:
    """Decides at most WEIR_BATCH_MOST."""
    handles = [limiter._use() for limiter in limiters]
    requests, kept = fill(limiters, wanted)
    extras, kept_too = fill_extras(wanted)
    first = handles[0]
    message = native.weir_message()
    if extras is None and all([each is first for each in handles]):
        status = native.weir_limiter_decide(first, requests, len(requests), _byref(message))
    else:
        array = (ctypes.c_void_p * len(handles))(*[each.value for each in handles])
        status = native.weir_decide_extra(array, requests, extras, len(requests), _byref(message))
    copy = _decision.from_buffer_copy
    if status == native.WEIR_OK and extras is None:
        return [limiter._decided(copy(requests, end - DECISION_SIZE), message)
                for limiter, end in zip(limiters, range(SIZE, SIZE * len(requests) + 1, SIZE))]
    del kept, kept_too
    return [saying(wanted[i].said, limiters[i]._decided(copy(each.decision), message)) if each.status == native.WEIR_OK
            else error_of(limiters[i], wanted[i], each.status, i, message.text.decode())
            for i, each in enumerate(requests)]


def error_of(limiter: "Limiter", wanted: Wanted, status: int, index: int, text: str) -> Error:
    """A batch has one message, of its first fault. Faults in the arguments of the others are told
    when each is asked alone, which changes no count; a store has one reason for all."""
    prefix = f"requests[{index}]: "
    if text.startswith(prefix):
        return Error(status, text[len(prefix):])
    if native.weir_status_classify(status) == CALLER:
        asked = Asking(limiter, wanted)
        if asked.ask(native.weir_decide_extra) == status:
            return asked.error(status)
    return Error(status, "" if text.startswith("requests[") else text)


class Asking:
    """One request as the library takes it, as often as it is asked."""

    def __init__(self, limiter: "Limiter", wanted: Wanted):
        self.handle = limiter._use()
        self.requests, kept = fill([limiter], [wanted])
        self.extras, kept_too = fill_extras([wanted])
        self.kept = wanted, kept, kept_too
        self.message = native.weir_message()

    def ask(self, function, *more: Any) -> int:
        handles = (ctypes.c_void_p * 1)(self.handle.value)
        return function(handles, self.requests, self.extras, 1, *more, _byref(self.message))

    def reserve(self, wait_us: Optional[int] = None) -> "ReservationHandle":
        """An empty handle where it was denied. The library waits for none that says something of itself."""
        made = ReservationHandle(self.handle)
        self.message.text = b""
        if wait_us is not None and self.extras is None:
            status = native.weir_limiter_reserve_wait(self.handle, self.requests, wait_us, _byref(made), _byref(self.message))
        else:
            status = self.ask(native.weir_reserve_extra, _byref(made))
        if status != native.WEIR_OK:
            raise self.error(status)
        return made

    def error(self, status: int) -> Error:
        """Of a batch that is one request."""
        return Error(status, re.sub(r"^requests\[\d+\]: ", "", self.message.text.decode()))


Asked = Tuple["Limiter", Union[Request, Key, Tuple]]


def pairs_of(requests: Iterable[Asked]) -> Tuple[List["Limiter"], List[Wanted]]:
    """Reads pairs of limiters and requests, keys or (key, cost)."""
    limiters, wanted = [], []
    for limiter, request in requests:
        if not isinstance(limiter, Limiter):
            raise TypeError(f"a limiter is a weir.Limiter, not {type(limiter).__name__}")
        limiters.append(limiter)
        wanted.append(wanted_of(request))
    return limiters, wanted


def decide_together(requests: Iterable[Asked]) -> List[Union[Decision, Error]]:
    """Decides pairs of a limiter and a request, a key or (key, cost): as many round trips for each
    1,024 of them as the slowest needs alone. Each has its decision, or its own Error."""
    limiters, wanted = pairs_of(requests)
    decided = []
    for at in range(0, len(wanted), native.WEIR_BATCH_MOST):
        end = at + native.WEIR_BATCH_MOST
        decided += decide_batch(limiters[at:end], wanted[at:end])
    return decided


class Joint(NamedTuple):
    """Several requests that were decided as one. It is true where all of them are allowed."""

    denied_by: Optional[int]
    """The index of the one that denies longest: its answer is that of the whole. None: none denies."""
    decisions: List[Decision]
    """As after the giving back: one that denies nothing has 0.0 as its retry_after."""

    @property
    def allowed(self) -> bool:
        return self.denied_by is None

    @property
    def retry_after(self) -> Optional[float]:
        """That of the one that denies; 0.0 when allowed. None: it never fits."""
        return 0.0 if self.denied_by is None else self.decisions[self.denied_by].retry_after

    def __bool__(self) -> bool:
        return self.denied_by is None


def decide_all(requests: Iterable[Asked]) -> Joint:
    """Decides up to 16 pairs of a limiter and a request, a key or (key, cost), as one: all of them are
    charged, or none. So a login by its address and by its account. The Error of one is that of the whole."""
    limiters, wanted = pairs_of(requests)
    handles = [limiter._use() for limiter in limiters]
    asked, kept = fill(limiters, wanted)
    extras, kept_too = fill_extras(wanted)
    array = (ctypes.c_void_p * max(len(handles), 1))(*[each.value for each in handles])
    denied_by = ctypes.c_size_t()
    messages.message.text = b""  # what another call has said
    check(native.weir_decide_all_extra(array, asked, extras, len(handles), _byref(denied_by), messages.at))
    del kept, kept_too
    decisions = [saying(said.said, limiter._decided(_decision.from_buffer_copy(each.decision), messages.message))
                 for limiter, said, each in zip(limiters, wanted, asked)]
    return Joint(denied_by.value if denied_by.value < len(handles) else None, decisions)


Self = TypeVar("Self", bound="Reservation")


class Reservation:
    """An admitted request that can be undone exactly. As a context manager it is committed at the end
    of the block, and cancelled where that ends by an exception. A denied one has nothing to undo:
    look at `decision` first."""

    def __init__(self, asked: "Asking", handle, limiter: "Limiter"):
        self._request = request = asked.requests[0]  # the library compares refunds by its decision, where it stands
        request.key = request.costs = None
        self._rules = limiter.rule_count
        self._handles = [handle] if handle else []  # popped once, whichever thread comes first
        self._lock, self._process = threading.Lock(), os.getpid()
        self.decision = limiter._decided(request.decision, asked.message)

    def __bool__(self) -> bool:
        return self.decision.allowed

    def _take_handle(self) -> ReservationHandle:
        if os.getpid() != self._process:
            raise Error(native.WEIR_BAD_ARGUMENT, "what was reserved is the parent's, from before the fork")
        with self._lock:  # nothing asks for it any more
            if self._handles:
                return self._handles.pop()
        raise Error(native.WEIR_BAD_ARGUMENT, "nothing is reserved, or no longer")

    def _ask(self, function, over):
        if os.getpid() != self._process:
            return over
        with self._lock:
            return function(self._handles[0]) if self._handles else over

    def held(self) -> bool:
        """Whether it is open and its place is still one's own: never again, once it is not. A process that
        was stopped, or could not reach the store, has lost it. Asks no store; any thread may ask."""
        return self._ask(native.weir_reservation_held, False)

    def held_until(self) -> float:
        """Until when the place is held for certain, in seconds since 1970: it moves on while it is paid for.
        0.0: it is not held; math.inf: nothing ends it."""
        until_us = self._ask(native.weir_reservation_held_until_us, 0)
        return math.inf if until_us == INT64_MOST else until_us / 1e6

    @property
    def token(self) -> int:
        """Rises from holder to holder of the place; 0 without one, and where it is over. A receiver
        of writes may keep the largest that it has seen, and refuse lower ones."""
        return self._ask(native.weir_reservation_token, 0)

    def _end(self, function) -> None:
        check(function(self._take_handle(), messages.at))

    def commit(self) -> None:
        """It is used, and stays charged."""
        self._end(native.weir_reservation_commit)

    def cancel(self) -> None:
        """Gives back what it was charged."""
        self._end(native.weir_reservation_cancel)

    def settle(self, real: Cost) -> List[int]:
        """`real` is the true cost: one for all rules, or a sequence of one for each. The rest goes back, and
        an excess is charged as far as it fits. Answers what is charged now under each rule.

        After an Error without a place, save one whose outcome is unknown, it may be settled again."""
        each = [one_cost(cost) for cost in real] if isinstance(real, (list, tuple)) else [one_cost(real)] * self._rules
        if len(each) != self._rules:
            raise ValueError(f"a cost for each rule: {self._rules} are needed, {len(each)} given")
        handle, costs = self._take_handle(), (ctypes.c_int64 * self._rules)(*each)
        status = native.weir_reservation_settle(handle, costs, messages.at)
        if status == native.WEIR_BAD_ARGUMENT or (status != native.WEIR_OK and native.weir_reservation_held(handle)):
            self._handles.append(handle)  # it is open as before
        check(status)
        return list(costs)

    __reduce__ = refuse_to_pickle

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        if not self._handles:
            return
        if kind is None:
            self.commit()
            return
        try:
            self.cancel()
        except PlaceLost:  # nothing is charged any more
            pass
        except Error as error:  # what ended the block is what its caller must see
            log.warning("what was reserved stays charged: %s", error)


class Place(Reservation):
    """A place under an in-flight rule, held from then on: `with limiter.hold("alice") as place: ...`
    releases it at the end of the block, however that ends. The charges of other rules stay. A block
    that ended without its place raises PlaceLost, where it raised nothing itself.

    A child after a fork holds nothing: there held() is False, and the end of the block releases nothing."""

    def release(self) -> str:
        """Lets others have it. "OK"; "PLACE_LOST" where it was lost before; or the status that says why the
        store could not be told: then it is free when what was paid is over, within the rule's period."""
        status = native.weir_reservation_commit(self._take_handle(), messages.at)
        if native.weir_status_classify(status) == CALLER:
            check(status)
        return native.weir_status_name(status).decode()

    def __exit__(self, kind: Any, *_: Any) -> None:
        mine = self._handles and os.getpid() == self._process
        if mine and self.release() == "PLACE_LOST" and kind is None:
            raise PlaceLost(native.WEIR_PLACE_LOST)


class ReservationHandle(LimiterHandle):
    free = native.weir_reservation_destroy


class Patience:
    """How a wait goes on: a take with all the time that is left; a pause; and another one, where it can still be
    admitted in time."""

    def __init__(self, wait_us: int, clock: Callable[[], float]):
        self._wait_us, self._clock = wait_us, clock
        self._end = time.monotonic() + wait_us / 1e6

    def begin(self) -> int:
        """The longest delay that the next take may answer with, in microseconds."""
        return min(self._wait_us, max(int((self._end - time.monotonic()) * 1e6), 0))

    def after(self, decision: Decision) -> Tuple[float, bool]:
        """How long to sleep now, and whether to try again."""
        left = max(self._end - time.monotonic(), 0.0)
        if not decision.allowed and decision.retry_after is not None and decision.retry_after <= left:
            return max(decision.retry_after, 0.0005), True
        rest = max(min(decision.at + decision.delay - self._clock(), decision.delay), 0.0)
        return rest if decision.allowed else min(rest, left), False


def limit_rows(limits: List[Tuple[bytes, Limit]], for_us: int = 0, handle: Any = None):
    """Makes the library's limits of them, and tells what must live meanwhile."""
    rows, text = (native.weir_limit * len(limits))(), b"".join([key for key, _ in limits])
    at = address_of(text)
    for row, (key, limit) in zip(rows, limits):
        if isinstance(limit, str):
            if limit in LIMIT_WORDS:
                row.kind = LIMIT_KINDS.index(limit)
            elif not _is_tier(handle, limit, row):
                raise ValueError('a limit is a whole number, "blocked", "unlimited" or "none", or a tier of the rule')
        else:
            row.kind, row.limit = native.WEIR_KEY_LIMIT_NUMBER, one_limit(limit, '; to deny all, say "blocked"')
        row.key, row.key_length, row.for_us = at, len(key), for_us
        at += len(key)
    return rows, text


def _is_tier(handle: Any, name: str, row: Any) -> bool:
    text = name.encode(errors="replace")
    status = native.weir_limiter_parse_limit(handle, text, len(text), _byref(row), None)
    return status == native.WEIR_OK and row.kind == native.WEIR_KEY_LIMIT_TIER


_changes: Dict[int, object] = {}  # refunds and settlements under way, by the decision


class Limiter:
    """A rule applied to keys, with counts in a store: "sliding-window:100/1m", several separated by
    ";". Options are those of <weir/options.h>, times in seconds; what is not given has its default.

    fallback: who decides while the store is away: "local", "deny", "allow"; "none": an Error. clock: a
    function without arguments that answers seconds since 1970, for tests; it must not raise. limits_every:
    keys may have limits of their own in the store, by set_limit(), and what was read of one is believed for so
    many seconds; the rule has most=. absent: what becomes of a key that none was set for: "rule", which it goes
    by, or "deny".

    What a request says of itself is a claim of the caller, and no client's: class_, one of classes= of the
    rule, for which a part of the limit is all; limit, in the place of the rule's, up to its most=; tenant, which
    shares a shared-window with others. `classes` has the names that class_ may be, `has_tenants` says whether each
    request names a tenant.
    """

    def __init__(self, store: Store, rule: str, *, fallback: str = "local", deadline: Optional[float] = None,
                 clock_error: Optional[float] = None, processes: Optional[int] = None,
                 memo_keys: Optional[int] = None, memo_age: Optional[float] = None,
                 local_denial: Optional[float] = None, least_ttl: Optional[float] = None,
                 longest_wait: Optional[float] = None, peers: Optional[int] = None,
                 limits_every: Optional[float] = None, absent: str = "rule", cached_cells: bool = True,
                 local_denials: bool = True, combining: bool = True, leases: bool = True,
                 clock: Optional[Callable[[], float]] = None):
        if not isinstance(store, Store):
            raise TypeError(f"a store is a weir.Store, not {type(store).__name__}")
        options = native.sized(native.weir_limiter_options)
        options.fallback = one_of("fallback", fallback, FALLBACKS)
        for name, value in (("deadline", deadline), ("clock_error", clock_error), ("memo_age", memo_age),
                            ("local_denial", local_denial), ("least_ttl", least_ttl),
                            ("longest_wait", longest_wait)):
            if value is not None:
                setattr(options, name + "_us", microseconds(name, value))
        for name, value in (("processes", processes), ("memo_keys", memo_keys), ("peers", peers)):
            if value is not None:
                setattr(options, name, count_between(name, value))
        for flag, keep in ((native.WEIR_NO_CACHED_CELLS, cached_cells), (native.WEIR_NO_LOCAL_DENIAL, local_denials),
                           (native.WEIR_NO_COMBINING, combining), (native.WEIR_NO_LEASES, leases)):
            if not isinstance(keep, bool):
                raise TypeError("cached_cells, local_denials, combining and leases are True or False")
            options.flags |= 0 if keep else flag
        if limits_every is not None:
            options.limits_us = microseconds("limits_every", limits_every, 1000, 60_000_000)
        if one_of("absent", absent, ABSENT):
            if limits_every is None:
                raise ValueError('absent="deny" is accepted with limits_every=: else no key has a limit of its own')
            options.flags |= native.WEIR_ABSENT_DENIES
        self._clock = clock or time.time
        if clock is not None:
            if not callable(clock):
                raise TypeError(f"a clock is a function, not {type(clock).__name__}")
            kind = dict(native.weir_clock._fields_)["now_us"]
            options.clock.now_us = kind(lambda _context: round(clock() * 1e6))
        self.store = store
        self._rule = text_bytes("a rule", rule)
        self._options = options
        self._wait_us = options.longest_wait_us or 60_000_000
        self._closed = False
        self._handle: Any = None
        self._process = os.getpid()
        self._use()
        self.rule_count: int = native.weir_limiter_rules(self._handle)
        rules = self.rules
        named = re.search(r",classes=([^,;]*)", ";".join(rule.text for rule in rules))
        self.classes: Tuple[str, ...] = tuple(each.partition(":")[0] for each in named.group(1).split("|")) if named else ()
        self.has_tenants: bool = rules[0].algorithm == "shared-window"
        store._limiters.add(self)

    def __repr__(self) -> str:
        return f"Limiter({self._rule.decode()!r}, {self.store!r})"

    __reduce__ = refuse_to_pickle

    def _use(self) -> LimiterHandle:
        """The handle; a new one in a child of the process that made it."""
        if self._handle is None or os.getpid() != self._process:
            self._open()
        return self._handle

    def _open(self) -> None:
        self.store._use()  # which forgets the parent's
        with self.store._lock:
            if self._closed:
                raise ClosedError("limiter")
            if self._handle is None:
                store = self.store._use()
                handle = LimiterHandle(store)
                check(native.weir_limiter_create(store, self._rule, _byref(self._options), _byref(handle),
                                                 messages.at))
                handle.options = self._options  # its clock
                self._handle, self._process = handle, os.getpid()

    def _decided(self, raw: Any, message: Any) -> Decision:
        """With why the store did not decide, where it did not; a batch tells that of one of its requests."""
        if raw.source in ASKED_STORE:
            if self.store._is_away and raw.source == native.WEIR_SOURCE_STORE:
                self.store._note_back()
            return Decision(raw)
        if raw.store_status == native.WEIR_OK:  # the store is back, and the policy's account of this key goes on
            return Decision(raw, STILL)
        why = re.sub(r"^requests\[\d+\]: ", "", message.text.decode())
        why = why or native.weir_status_text(raw.store_status).decode()
        if raw.source == native.WEIR_SOURCE_FALLBACK:
            self.store._note_away(why)
        return Decision(raw, why)

    def take(self, key: Key, cost: Cost = 1, *, longest_wait: float = 0.0, class_: Optional[str] = None,
             limit: Optional[int] = None, tenant: Optional[Key] = None) -> Decision:
        """Decides, and charges what is admitted. cost: one for all rules, or a sequence of one for
        each. longest_wait: the delay that a bucket may answer with, in seconds."""
        handle = self._handle
        if handle is None:
            handle = self._use()
        kind = type(key)
        if kind is str:
            try:
                key = key.encode()
            except UnicodeEncodeError:
                key_bytes(key)
        elif kind is not bytes:
            key = key_bytes(key)
        if (type(cost) is not int or longest_wait or not 0 <= cost <= COST_MOST or class_ is not None or limit is not None
                or tenant is not None):
            return self._ask(Request(key, cost, longest_wait, class_=class_, limit=limit, tenant=tenant))
        raw = _decision()
        thread = messages
        status = _take(handle, key, len(key), cost, _byref(raw), thread.at)
        if status:
            if os.getpid() != self._process:  # a child of a server that forks in C: nothing was asked
                self._use()
                return self.take(key, cost)
            raise Error(status, thread.message.text.decode())
        if raw.source > LOCAL or self.store._is_away:
            return self._decided(raw, thread.message)
        return Decision(raw)

    def take_up_to(self, key: Key, cost: int, *, longest_wait: float = 0.0, class_: Optional[str] = None,
                   limit: Optional[int] = None, tenant: Optional[Key] = None) -> Decision:
        """The same for as much as fits: decision.cost says how much."""
        return self._ask(Request(key, cost, longest_wait, up_to=True, class_=class_, limit=limit, tenant=tenant))

    def peek(self, key: Key, cost: Cost = 1, *, class_: Optional[str] = None,
             limit: Optional[int] = None, tenant: Optional[Key] = None) -> Decision:
        """Tells what take() would decide now; changes nothing."""
        return self._ask(Request(key, cost, peek=True, class_=class_, limit=limit, tenant=tenant))

    def _ask(self, request: Request) -> Decision:
        decided, = decide_batch([self], [wanted_of(request)])
        if isinstance(decided, Error):
            raise decided
        return decided

    def wait(self, key: Key, cost: int = 1, longest_wait: Optional[float] = None, *, class_: Optional[str] = None,
             limit: Optional[int] = None, tenant: Optional[Key] = None) -> Decision:
        """Takes, sleeping as long as it must and may: the caller may act at once. Denied as soon as
        longest_wait, the limiter's option unless it is given, cannot be enough. Ctrl-C ends it."""
        patience = Patience(self._wait_us if longest_wait is None else microseconds("longest_wait", longest_wait, 0),
                            self._clock)
        key, cost, said = key_bytes(key), one_cost(cost), said_of(class_, limit, tenant)
        while True:
            decided, = decide_batch([self], [Wanted(key, cost, None, patience.begin(), 0, said)])
            if isinstance(decided, Error):
                raise decided
            pause, again = patience.after(decided)
            time.sleep(pause)
            if not again:
                return decided

    def decide(self, requests: Iterable[Union[Request, Key, Tuple]]) -> List[Union[Decision, Error]]:
        """Decides many together: keys, (key, cost) or Request. Each has its decision, or its own Error."""
        return decide_together((self, request) for request in requests)

    def reserve(self, key: Key, cost: Cost = 1, *, longest_wait: float = 0.0, up_to: bool = False,
                class_: Optional[str] = None,
                limit: Optional[int] = None, tenant: Optional[Key] = None) -> Reservation:
        """Takes what can be cancelled: with limiter.reserve("alice") as reserved: ..."""
        asking = Asking(self, wanted_of(Request(key, cost, longest_wait, up_to, False, class_, limit, tenant)))
        return Reservation(asking, asking.reserve(), self)

    def hold(self, key: Key, cost: Cost = 1, *, wait: Optional[float] = 0.0, class_: Optional[str] = None,
             limit: Optional[int] = None, tenant: Optional[Key] = None) -> Place:
        """Enters a place under an in-flight rule, and waits for one as long as `wait` says, in seconds: at most
        the limiter's longest_wait, which is what None means, and 60 s by default. `with limiter.hold("alice",
        wait=5) as place: ...`. Raises NoPlace where there is none. A thread of the library pays for it until
        it is released."""
        wait_us = self._wait_us if wait is None else microseconds("wait", wait, 0)
        if wait_us > self._wait_us:
            raise Error(native.WEIR_BAD_ARGUMENT, f"wait is {wait_us / 1e6:g} s: accepted are 0 s to {self._wait_us / 1e6:g}"
                        " s, the limiter's longest_wait")
        end = time.monotonic() + wait_us / 1e6
        asking = Asking(self, wanted_of(Request(key, cost, class_=class_, limit=limit, tenant=tenant)))
        while True:
            # Only between two calls Python looks at Ctrl-C, which the main thread alone is told of.
            slice_us = min(wait_us, SLICE_US) if threading.current_thread() is threading.main_thread() else wait_us
            made = asking.reserve(slice_us)
            if made:
                return Place(asking, made, self)
            denied = self._decided(_decision.from_buffer_copy(asking.requests[0].decision), asking.message)
            wait_us = max(int((end - time.monotonic()) * 1e6), 0)
            pause = self._pause_for_place(denied) if asking.extras is not None else 0.0
            if wait_us == 0 or denied.retry_after is None or pause is None or pause * 1e6 > wait_us:
                raise NoPlace(denied)
            time.sleep(pause)

    def _pause_for_place(self, denied: Decision) -> Optional[float]:
        """Before another try, where the library does not wait. Nothing tells when a place is left; what other rules
        say is known."""
        if denied.source != "fallback" and self.rules[denied.rule].algorithm == "in-flight":
            return denied.retry_after and random.uniform(0.005, 0.05)
        return denied.retry_after

    def refund(self, key: Key, decision: Decision, cost: Optional[int] = None) -> None:
        """Gives back a part, or all, of what an allowed decision of this key has charged."""
        self._change(native.weir_limiter_refund, key, decision, cost)

    def settle(self, key: Key, decision: Decision, real: int) -> None:
        """`real` is the true cost of an allowed decision of this key: the rest goes back, and an excess is
        charged as far as it fits. decision.cost is what is charged then: `real` less what was cut."""
        self._change(native.weir_limiter_settle, key, decision, real)

    def set_limit(self, key: Key, limit: Limit, *, ttl: Optional[float] = None) -> None:
        """Sets a key's own limit in the store, up to most= of the rule, "blocked", "unlimited" or a tier of the rule:
        limiters with limits_every= go by it. It ends after ttl seconds, and after 400 days without it. Setting it again is always fine."""
        self._set_limits([(key, limit)], ttl)

    def set_limits(self, limits: Mapping[Any, Limit], *, ttl: Optional[float] = None) -> None:
        """The same for many keys, in as few round trips as that takes: {"alice": 500, "mallory": "blocked"}. An Error
        names the first key whose limit was not set; where it is of the caller, none was."""
        if not isinstance(limits, Mapping):
            raise TypeError(f"limits are a dictionary by key, not {type(limits).__name__}")
        self._set_limits(list(limits.items()), ttl)

    def unset_limit(self, key: Key) -> None:
        """From now on the key goes by the rule."""
        self._set_limits([(key, "none")], None)

    def get_limit(self, key: Key) -> Optional[Limit]:
        """What the store has for a key: a number, "blocked", "unlimited", a tier, or "none", which is the rule's.
        None: none was ever set, it has ended, or it was lost."""
        rows, kept = limit_rows([(key_bytes(key), "none")])
        handle = self._use()
        check(native.weir_limiter_read_limit(handle, rows, messages.at))
        del kept
        if rows[0].kind < native.WEIR_KEY_LIMIT_TIER:
            return rows[0].limit if rows[0].kind == native.WEIR_KEY_LIMIT_NUMBER else LIMIT_KINDS[rows[0].kind]
        text = ctypes.create_string_buffer(native.WEIR_LIMIT_NAME_BYTES)
        native.weir_limiter_format_limit(handle, rows, text)
        return text.value.decode()

    def _set_limits(self, limits: List[Tuple[Key, Limit]], ttl: Optional[float]) -> None:
        handle, for_us = self._use(), 0 if ttl is None else microseconds("ttl", ttl, 1_000_000, 400 * 86_400_000_000)
        if not limits:
            return
        rows, kept = limit_rows([(key_bytes(key), limit) for key, limit in limits], for_us, handle)
        status = native.weir_limiter_set_limits(handle, rows, len(rows), messages.at)
        del kept
        if status != native.WEIR_OK:
            text = messages.message.text.decode()
            first = next((i for i, row in enumerate(rows) if row.status != native.WEIR_OK), None)
            raise Error(status, text if first is None else f"the limit of {limits[first][0]!r:.80}: {text}")

    def _change(self, function, key: Key, decision: Decision, cost: Optional[int]) -> None:
        if not isinstance(decision, Decision):
            raise TypeError(f"a decision is a weir.Decision, not {type(decision).__name__}")
        handle, key, raw, mine = self._use(), key_bytes(key), decision._raw, object()
        cost = raw.cost if cost is None and function is native.weir_limiter_refund else one_cost(cost)
        if _changes.setdefault(id(raw), mine) is not mine:
            raise Error(native.WEIR_BAD_ARGUMENT, "a refund or a settlement of this decision is under way")
        try:
            if decision.said is None or function is native.weir_limiter_refund:
                check(function(handle, key, len(key), cost, _byref(raw), messages.at))
            else:
                self._settle_as_said(Wanted(key, cost, None, 0, native.WEIR_REQUEST_SETTLE, decision.said), raw)
        finally:
            del _changes[id(raw)]

    def _settle_as_said(self, wanted: Wanted, raw: Any) -> None:
        asking = Asking(self, wanted)
        asking.requests[0].decision = raw
        status = asking.ask(native.weir_decide_extra)
        ctypes.memmove(_byref(raw), _byref(asking.requests[0].decision), DECISION_SIZE)
        if status != native.WEIR_OK:
            raise asking.error(status)

    def reset(self, key: Key) -> None:
        """Forgets what was charged to a key."""
        handle, key = self._use(), key_bytes(key)
        check(native.weir_limiter_reset(handle, key, len(key), messages.at))

    def return_leases(self) -> None:
        """Gives back what lease= has charged ahead: before the process ends."""
        check(native.weir_limiter_return_leases(self._use(), messages.at))

    @property
    def rules(self) -> List[Rule]:
        handle, found = self._use(), []
        for index in range(self.rule_count):
            info = native.sized(native.weir_rule_info)
            if native.weir_limiter_read_rule(handle, index, _byref(info)) != native.WEIR_OK:
                break
            found.append(Rule(info.text.decode(), info.algorithm.decode(), info.name.decode(), info.limit,
                              info.period_us / 1e6, info.capacity))
        return found

    @property
    def warnings(self) -> List[str]:
        """Warnings: what its owner should know of it, and may not have meant."""
        handle, found = self._use(), []
        while True:
            text = native.weir_limiter_warning_at(handle, len(found))
            if text is None:
                return found
            found.append(text.decode())

    def counts(self) -> Dict[str, object]:
        """Counts of what it has done so far: the members of weir_limiter_counts; statuses by name."""
        counts = native.sized(native.weir_limiter_counts)
        native.weir_limiter_read_counts(self._use(), _byref(counts))
        found = {name: getattr(counts, name) for name, *_ in counts._fields_ if name != "size"}
        found["statuses"] = {native.weir_status_name(i).decode(): counts.statuses[i]
                             for i in range(native.WEIR_STATUS_COUNT)}
        found["waits"] = list(counts.waits)
        return found

    def http_fields(self, name: str, decision: Decision, style: str = "draft-10") -> Dict[str, str]:
        """The response fields that tell a client: "draft-10" (RateLimit) or "x-ratelimit"."""
        return http.fields(self._use(), name, decision, style)

    def close(self) -> None:
        """Closing again is fine. Calls that are under way end as they would."""
        with self.store._lock:
            self._closed, self._handle = True, None

    def __enter__(self) -> "Limiter":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()
