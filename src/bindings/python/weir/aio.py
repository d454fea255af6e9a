"""For asyncio: the same names, awaited.

    from weir import aio
    async with aio.Store("memcached://localhost") as store:
        limiter = aio.Limiter(store, "sliding-window:100/1m")
        decision = await limiter.take("alice")

The loop never waits for a store. Requests of one turn leave together, with those that came
while the store was asked before; one thread for each store waits for the answers. A take that is
cancelled may be charged all the same. Objects serve any number of loops, one after another or at
once, in any thread.
"""
from __future__ import annotations

import asyncio
import collections
import queue
import threading
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Callable, Dict, Generator, Iterable, List, Optional, Tuple, TypeVar, Union

from . import limiter as sync
from . import native
from . import store as stores
from .limiter import Joint, Patience, Wanted, decide_batch, wanted_of
from .values import COST_MOST, Cost, Decision, Error, Key, NoPlace, Request, key_bytes, microseconds, one_cost, said_of

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .limiter import Limit, LimiterOptions

MOST = native.WEIR_BATCH_MOST


class Asked:
    """A limiter's requests, in the order they came, and who waits for them."""

    __slots__ = ("future", "limiter", "wanted")

    def __init__(self, future, limiter, wanted):
        self.future, self.limiter, self.wanted = future, limiter, wanted


def decide(batch: List[Asked]) -> list:
    try:
        return decide_batch([each.limiter for each in batch], [each.wanted for each in batch])
    except Exception:  # of one of them, as a limiter that was closed meanwhile: each has its own
        return [decide_one(each) for each in batch]


def decide_one(asked: Asked):
    try:
        return decide_batch([asked.limiter], [asked.wanted])[0]
    except Exception as error:
        return error


def deliver(batch: List[Asked], decided: list) -> None:
    for asked, answer in zip(batch, decided):
        future = asked.future
        if future.done():  # cancelled
            continue
        if isinstance(answer, Exception):
            future.set_exception(answer)
        else:
            future.set_result(answer)


class Line:
    """The requests of a store: of each loop those of this turn, then those that wait for the thread."""

    def __init__(self, store: stores.Store):
        self.immediate = store.immediate
        self.turns = {}  # by loop
        self.queue: queue.SimpleQueue = queue.SimpleQueue()
        self.lock = threading.Lock()
        self.thread: Optional[threading.Thread] = None
        self.ended = False

    def add(self, loop, limiter: sync.Limiter, wanted: Wanted):
        future = loop.create_future()
        turn = self.turns.get(loop)
        if turn is None:
            turn = self.begin(loop)
        turn.append(Asked(future, limiter, wanted))
        return future

    def begin(self, loop) -> list:
        for each in list(self.turns):
            if each.is_closed():  # it ended between a request and its flush
                self.turns.pop(each, None)
        turn = self.turns[loop] = []
        loop.call_soon(self.flush, loop)
        return turn

    def flush(self, loop) -> None:
        turn = [each for each in self.turns.pop(loop, ()) if not each.future.cancelled()]
        for at in range(0, len(turn), MOST):
            batch = turn[at:at + MOST]
            if self.immediate:
                deliver(batch, decide(batch))
            else:
                self.queue.put((loop, batch))
        if turn and not self.immediate:
            self.start()

    def start(self) -> None:
        """A thread, unless there is one. After the end another comes for those who asked before it."""
        with self.lock:
            if self.thread is None:
                self.thread = threading.Thread(target=self.run, name="weir", daemon=True)
                self.thread.start()

    def run(self) -> None:
        while True:
            parts = [self.queue.get()]
            size = len(parts[0][1]) if parts[0] else 0
            while not self.queue.empty() and parts[-1] is not None and size < MOST:
                parts.append(self.queue.get())
                size += len(parts[-1][1]) if parts[-1] else 0
            over = parts[-1] is None
            self.answer([part for part in parts if part is not None])
            if over:
                with self.lock:
                    self.thread = None
                if not self.queue.empty():
                    self.start()
                return

    def answer(self, parts: list) -> None:
        """Each loop gets its own in one call."""
        batch = [asked for _, asked_by in parts for asked in asked_by]
        decided = []
        for at in range(0, len(batch), MOST):
            decided += decide(batch[at:at + MOST])
        loops = collections.defaultdict(lambda: ([], []))
        answers = iter(decided)
        for loop, asked_by in parts:
            loops[loop][0].extend(asked_by)
            loops[loop][1].extend(next(answers) for _ in asked_by)
        for loop, pair in loops.items():
            try:
                loop.call_soon_threadsafe(deliver, *pair)
            except RuntimeError:
                pass  # it ended, and who waited with it

    def end(self) -> None:
        """Ends the thread behind the requests that stand in line."""
        with self.lock:
            if self.thread is not None:
                self.queue.put(None)


def line_of(store: stores.Store) -> Line:
    with store._lock:
        if store._line is None:
            store._line = Line(store)
        return store._line


class Store(stores.Store):
    """weir.Store, with connect() to be awaited."""

    async def connect(self, timeout: Optional[float] = None) -> None:  # type: ignore[override]
        await asyncio.to_thread(super().connect, timeout)

    async def __aenter__(self) -> "Store":
        return self

    async def __aexit__(self, *_: Any) -> None:
        self.close()


Self = TypeVar("Self", bound="Reservation")


class Asking:
    """What a thread reserves for a task. Where the task was cancelled meanwhile the thread gives it back, or releases
    the place that it entered: as a loop ends nobody else would."""

    def __init__(self, reserve: Callable[[], sync.Reservation]):
        self._reserve, self._lock = reserve, threading.Lock()
        self._made: Optional[sync.Reservation] = None
        self._was_left = False

    def reserve(self) -> sync.Reservation:
        made = self._reserve()
        with self._lock:
            self._made = made
            was_left = self._was_left
        if was_left:
            made.__exit__(asyncio.CancelledError)
        return made

    def leave(self) -> Optional[sync.Reservation]:
        """The task is gone. Answers what has been reserved for it by then."""
        with self._lock:
            self._was_left = True
            return self._made


class Reservation:
    """weir.Reservation, awaited: async with limiter.reserve("alice") as reserved: ..."""

    def __init__(self, reserve):
        self._reserve, self._made = reserve, None

    def __await__(self: Self) -> Generator[Any, None, Self]:
        return self._open().__await__()

    async def _open(self: Self) -> Self:
        if self._made is None:
            self._made = await self._ask()
        return self

    async def _ask(self) -> sync.Reservation:
        asking = Asking(self._reserve)
        try:
            return await asyncio.to_thread(asking.reserve)
        except asyncio.CancelledError:
            made = asking.leave()
            if made is not None:
                await asyncio.shield(asyncio.to_thread(made.__exit__, asyncio.CancelledError))
            raise

    def __bool__(self) -> bool:
        return self._made is not None and bool(self._made)

    @property
    def decision(self) -> Decision:
        return self._made.decision

    @property
    def token(self) -> int:
        return self._made.token

    def held(self) -> bool:
        return self._made is not None and self._made.held()

    def held_until(self) -> float:
        return self._made.held_until()

    async def commit(self) -> None:
        await asyncio.to_thread(self._made.commit)  # of a place it asks the store

    async def cancel(self) -> None:
        await asyncio.to_thread(self._made.cancel)

    async def settle(self, real: Cost) -> List[int]:
        """Settles by the true cost; answers what is charged now under each rule."""
        return await asyncio.to_thread(self._made.settle, real)

    async def __aenter__(self: Self) -> Self:
        return await self._open()

    async def __aexit__(self, *error: Any) -> None:
        # Also where the task is cancelled: what was reserved goes back first.
        await asyncio.shield(asyncio.to_thread(self._made.__exit__, *error))


class Place(Reservation):
    """weir.Place, awaited: async with limiter.hold("alice", wait=5) as place: ..."""

    def __init__(self, limiter: sync.Limiter, key: Key, cost: Cost, wait: float, **said: Any):
        super().__init__(lambda: limiter.hold(key, cost, **said))
        self._limiter, self._wait = limiter, wait

    async def _open(self: Self) -> Self:
        """Tries again and again, as other processes do: a thread of the loop's that waits serves nothing else."""
        end = time.monotonic() + self._wait
        while self._made is None:
            try:
                self._made = await self._ask()
            except NoPlace as none:
                pause, left = self._limiter._pause_for_place(none.decision), end - time.monotonic()
                if pause is None or pause > left:
                    raise
                await asyncio.sleep(pause)
        return self

    async def release(self) -> str:
        return await asyncio.to_thread(self._made.release)


class Limiter:
    """weir.Limiter, awaited; `sync` is the one below, which other threads may use."""

    def __init__(self, store: stores.Store, rule: str, **options: Unpack[LimiterOptions]):
        self.sync = sync.Limiter(store, rule, **options)
        self.store = store

    @classmethod
    def of(cls, limiter: sync.Limiter) -> "Limiter":
        """One for a limiter that is there already."""
        made = cls.__new__(cls)
        made.sync, made.store = limiter, limiter.store
        return made

    def _add(self, wanted: Wanted):
        limiter = self.sync
        limiter._use()  # raises where it is closed; in a child it opens anew
        if wanted.costs is not None and wanted.cost != limiter.rule_count:
            raise ValueError(f"a cost for each rule: {limiter.rule_count} are needed, {wanted.cost} given")
        line = self.store._line or line_of(self.store)
        return line.add(asyncio.get_running_loop(), limiter, wanted)

    async def take(self, key: Key, cost: Cost = 1, *, longest_wait: float = 0.0, class_: Optional[str] = None,
                   limit: Optional[int] = None, tenant: Optional[Key] = None) -> Decision:
        """Decides, and charges what is admitted."""
        if type(cost) is int and not longest_wait and 0 <= cost <= COST_MOST:
            return await self._add(Wanted(key_bytes(key), cost, None, 0, 0, said_of(class_, limit, tenant)))
        return await self._add(wanted_of(Request(key, cost, longest_wait, class_=class_, limit=limit, tenant=tenant)))

    async def take_up_to(self, key: Key, cost: int, *, longest_wait: float = 0.0, class_: Optional[str] = None,
                         limit: Optional[int] = None, tenant: Optional[Key] = None) -> Decision:
        """The same for as much as fits: decision.cost says how much."""
        return await self._add(wanted_of(Request(key, cost, longest_wait, True, False, class_, limit, tenant)))

    async def peek(self, key: Key, cost: Cost = 1, *, class_: Optional[str] = None,
                   limit: Optional[int] = None, tenant: Optional[Key] = None) -> Decision:
        """Tells what take() would decide now; changes nothing."""
        return await self._add(wanted_of(Request(key, cost, 0.0, False, True, class_, limit, tenant)))

    async def wait(self, key: Key, cost: int = 1, longest_wait: Optional[float] = None, *, class_: Optional[str] = None,
                   limit: Optional[int] = None, tenant: Optional[Key] = None) -> Decision:
        """Takes, sleeping as long as it must and may: the caller may act at once. Denied as soon as
        longest_wait, the limiter's option unless it is given, cannot be enough."""
        patience = Patience(self.sync._wait_us if longest_wait is None
                            else microseconds("longest_wait", longest_wait, 0), self.sync._clock)
        key, cost, said = key_bytes(key), one_cost(cost), said_of(class_, limit, tenant)
        while True:
            decision = await self._add(Wanted(key, cost, None, patience.begin(), 0, said))
            pause, again = patience.after(decision)
            await asyncio.sleep(pause)
            if not again:
                return decision

    async def decide(self, requests: Iterable[Union[Request, Key, Tuple]]) -> List[Union[Decision, Error]]:
        """Decides many together: keys, (key, cost) or Request. Each has its decision, or its own Error."""
        asked = [self._add(wanted_of(request)) for request in requests]
        return await asyncio.gather(*asked, return_exceptions=True)

    def reserve(self, key: Key, cost: Cost = 1, *, longest_wait: float = 0.0, up_to: bool = False,
                class_: Optional[str] = None,
                limit: Optional[int] = None, tenant: Optional[Key] = None) -> Reservation:
        """Takes what can be cancelled: async with limiter.reserve("alice") as reserved: ..."""
        return Reservation(lambda: self.sync.reserve(key, cost, longest_wait=longest_wait, up_to=up_to, class_=class_,
                                                     limit=limit, tenant=tenant))

    def hold(self, key: Key, cost: Cost = 1, *, wait: Optional[float] = 0.0, class_: Optional[str] = None,
             limit: Optional[int] = None, tenant: Optional[Key] = None) -> Place:
        """Enters a place under an in-flight rule, waiting as long as `wait` says: async with
        limiter.hold("alice", wait=5) as place: ... Raises NoPlace where there is none."""
        wait_us = self.sync._wait_us if wait is None else microseconds("wait", wait, 0)
        return Place(self.sync, key, cost, wait_us / 1e6, class_=class_, limit=limit, tenant=tenant)

    async def refund(self, key: Key, decision: Decision, cost: Optional[int] = None) -> None:
        """Gives back a part, or all, of what an allowed decision of this key has charged."""
        await asyncio.to_thread(self.sync.refund, key, decision, cost)

    async def settle(self, key: Key, decision: Decision, real: int) -> None:
        """Settles an allowed decision of this key by its true cost."""
        await asyncio.to_thread(self.sync.settle, key, decision, real)

    async def set_limit(self, key: Key, limit: Limit, *, ttl: Optional[float] = None) -> None:
        """Sets a key's own limit in the store: a number, a tier, "blocked" or "unlimited"; it ends after ttl seconds, and after 400 days without it."""
        await asyncio.to_thread(self.sync.set_limit, key, limit, ttl=ttl)

    async def set_limits(self, limits: Mapping[Any, Limit], *, ttl: Optional[float] = None) -> None:
        """The same for many keys: {"alice": 500, "mallory": "blocked"}."""
        await asyncio.to_thread(self.sync.set_limits, limits, ttl=ttl)

    async def unset_limit(self, key: Key) -> None:
        """From now on the key goes by the rule."""
        await asyncio.to_thread(self.sync.unset_limit, key)

    async def get_limit(self, key: Key) -> Optional[Limit]:
        """A number, "blocked", "unlimited", a tier, or "none", the rule's. None: none was ever set, it has ended, or it was lost."""
        return await asyncio.to_thread(self.sync.get_limit, key)

    async def reset(self, key: Key) -> None:
        """Forgets what was charged to a key."""
        await asyncio.to_thread(self.sync.reset, key)

    async def return_leases(self) -> None:
        await asyncio.to_thread(self.sync.return_leases)

    @property
    def rules(self) -> List[sync.Rule]:
        return self.sync.rules

    @property
    def classes(self) -> Tuple[str, ...]:
        return self.sync.classes

    @property
    def warnings(self) -> List[str]:
        return self.sync.warnings

    def counts(self) -> Dict[str, object]:
        return self.sync.counts()

    def http_fields(self, name: str, decision: Decision, style: str = "draft-10") -> Dict[str, str]:
        return self.sync.http_fields(name, decision, style)

    def close(self) -> None:
        self.sync.close()

    async def __aenter__(self) -> "Limiter":
        return self

    async def __aexit__(self, *_: Any) -> None:
        self.close()


async def decide_all(requests: Iterable[Tuple[Limiter, Union[Request, Key, Tuple]]]) -> Joint:
    """weir.decide_all, awaited: all of them are charged, or none."""
    pairs = [(limiter.sync if isinstance(limiter, Limiter) else limiter, request) for limiter, request in requests]
    return await asyncio.to_thread(sync.decide_all, pairs)


__all__ = ["Limiter", "Place", "Reservation", "Store", "decide_all"]
