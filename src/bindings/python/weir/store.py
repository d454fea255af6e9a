"""Stores, and what keeps the library's objects alive as long as a call uses them."""
from __future__ import annotations

import ctypes
import logging
import os
import re
import threading
import weakref
from typing import Any, Dict, List, NamedTuple, NoReturn, Optional

from . import native
from .values import ClosedError, Error, check, messages, microseconds, text_bytes

FIRST_PATIENCE = 0.25  # seconds that the first request of a middleware may wait for a connection
BREAKERS = ("closed", "open", "half-open")
log = logging.getLogger("weir")


def refuse_to_pickle(self: Any) -> NoReturn:
    raise TypeError(f"a {type(self).__name__} is of its process, and is not pickled: open one in each process, by the "
                    "URL of the store and the text of the rule. A child after fork() may use its parent's as it is")


class Owned(ctypes.c_void_p):
    """Something that the library made. Whoever calls the library with it holds a reference meanwhile, so
    it is freed when it is closed and the last call has ended; and after all that were made with it, in
    whichever order the collector of cycles finds them. No locks: it may find them anywhere."""

    free = None

    def __init__(self, *after: "Owned"):
        super().__init__()
        self._after, self._users, self._once, self._gone = after, [], [None], False
        for each in after:
            each._users.append(None)

    def __del__(self):
        self._gone = True
        self._end()

    def _end(self):
        if not self._gone or self._users:
            return
        try:
            self._once.pop()
        except IndexError:
            return  # by another thread
        if self:
            type(self).free(self)
        for each in self._after:
            each._users.pop()
            each._end()


class StoreHandle(Owned):
    free = native.weir_store_close


class LimiterHandle(Owned):
    free = native.weir_limiter_destroy


class ServerState(NamedTuple):
    """This process's knowledge of one server."""

    name: Optional[str]
    breaker: str  # "closed": it answers; "open": it is away; "half-open": a call is finding out
    outages: int
    next_try: float  # seconds until somebody may try, while it is open
    last_error: str
    answered: bool


class Store:
    """Where counts live, by URL: memory:, memcached://HOST, redis://HOST. Closing it closes the
    limiters on it. In a child after fork(), by Python or by the server around it, it opens itself anew
    when it is used.

    When it stops deciding, and when it is back, the logger "weir" has one warning each."""

    def __init__(self, url: str):
        self._url = text_bytes("a store's URL", url)
        self._closed = False
        self._handle = None
        self._lock = threading.RLock()
        self._connecting, self._ahead = threading.Lock(), False
        self._limiters: "weakref.WeakSet[Any]" = weakref.WeakSet()
        self._line: Any = None  # of weir.aio
        self._is_away = False
        self._use()
        _opened.add(self)

    def __repr__(self) -> str:
        return f"Store({self.shown!r})"

    __reduce__ = refuse_to_pickle

    @property
    def shown(self) -> str:
        """Its URL, without what may be a password."""
        return re.sub(r"//[^/?]*@", "//***@", self._url.decode())

    @property
    def immediate(self) -> bool:
        """Whether a decision waits for nobody else: the counts are in this process."""
        return self._url.startswith(b"memory:")

    def _use(self) -> StoreHandle:
        if os.getpid() != _forks.process:
            notice_fork()
        with self._lock:
            if self._closed:
                raise ClosedError("store")
            if self._handle is None:
                handle = StoreHandle()
                check(native.weir_store_open(self._url, ctypes.byref(handle), messages.at))
                self._handle = handle
            return self._handle

    def _forked(self) -> None:
        """This is a child: what its parent opened is of no use, and who held the lock is not here."""
        self._handle, self._lock, self._line, self._is_away = None, threading.RLock(), None, False
        self._connecting, self._ahead = threading.Lock(), False
        for limiter in list(self._limiters):
            limiter._handle = None

    def _note_away(self, why: str) -> None:
        with self._lock:
            was_away, self._is_away = self._is_away, True
        if not was_away:
            log.warning("%s does not decide: %s", self.shown, why)

    def _note_back(self) -> None:
        with self._lock:
            was_away, self._is_away = self._is_away, False
        if was_away:
            log.warning("%s decides again", self.shown)

    def connect(self, timeout: Optional[float] = None) -> None:
        """Connects ahead, so that the first decision need not: within connect-timeout= of the URL, or
        as long as is said here."""
        handle = self._use()
        if timeout is None:
            times = native.sized(native.weir_store_times)
            native.weir_store_read_times(handle, ctypes.byref(times))
            timeout_us = times.connect_timeout_us
        else:
            timeout_us = microseconds("timeout", timeout)
        check(native.weir_store_connect(handle, timeout_us, messages.at))

    @property
    def is_ahead(self) -> bool:
        """Whether connect_first() has nothing to do."""
        return self._ahead or self.immediate

    def connect_first(self) -> None:
        """For middleware, which is made before its process forks: the first request in each process connects,
        and those beside it wait for that. A store that is away is left to the limiter's policy."""
        if self.is_ahead:
            return
        with self._connecting:
            if not self._ahead:
                try:
                    self.connect(FIRST_PATIENCE)
                except Error as error:
                    self._note_away(str(error))
                self._ahead = True

    def servers(self) -> List[ServerState]:
        handle, found = self._use(), []
        state = native.sized(native.weir_server_state)
        while native.weir_store_read_server(handle, len(found), ctypes.byref(state)) == native.WEIR_OK:
            found.append(ServerState(state.name and state.name.decode(), BREAKERS[state.breaker], state.outages,
                                     state.next_try_us / 1e6, state.last_error.text.decode(), state.answered))
        return found

    def close(self) -> None:
        """Closing again is fine. Calls that are under way end as they would."""
        with self._lock:
            self._closed, self._handle = True, None
            limiters, line = list(self._limiters), self._line
        for limiter in limiters:
            limiter.close()
        if line is not None:
            line.end()

    def __enter__(self) -> "Store":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


_opened: "weakref.WeakSet[Store]" = weakref.WeakSet()


class Forks:
    """In which process what is opened is of use."""

    def __init__(self) -> None:
        self.process = os.getpid()
        self.locks: Dict[int, Any] = {}  # by process: one that a parent held stays held in its child


_forks = Forks()


def notice_fork() -> None:
    """A server that forks in C, as uWSGI, tells Python nothing: who uses a store looks at the number of its
    process."""
    with _forks.locks.setdefault(os.getpid(), threading.Lock()):
        if _forks.process == os.getpid():
            return
        for store in list(_opened):
            store._forked()
        _forks.process = os.getpid()


os.register_at_fork(after_in_child=notice_fork)
