"""All that has happened: for Prometheus as text, for a log as rare events."""
from __future__ import annotations

import ctypes
import threading
from collections.abc import Mapping
from typing import List, NamedTuple, Optional, Union

from . import native
from .limiter import Limiter
from .store import Owned, Store
from .values import ClosedError, check, messages, microseconds, text_bytes

Source = Union[Limiter, Store]


class Event(NamedTuple):
    """Something rare. kind: "server-lost", "fallback"; count: so many since the last of its kind."""

    kind: str
    source: str
    server: Optional[str]
    count: int
    text: str


def sources_of(named: Mapping[str, Source]):
    """The library's sources, and what must live as long as they."""
    if not isinstance(named, Mapping):
        raise TypeError(f"sources are a dictionary by name, not {type(named).__name__}")
    rows = (native.weir_monitor_source * max(len(named), 1))()
    kept = []
    for row, (name, source) in zip(rows, named.items()):
        if not isinstance(source, (Limiter, Store)):
            raise TypeError(f"a source is a weir.Limiter or a weir.Store, not {type(source).__name__}")
        handle = source._use()
        row.name = text_bytes("a source's name", name)
        setattr(row, "limiter" if isinstance(source, Limiter) else "store", handle.value)
        kept.append(handle)
    return rows, kept


def metrics(named: Mapping[str, Source]) -> str:
    """All counts as text for Prometheus: {"api": limiter, "main": store}."""
    rows, kept = sources_of(named)
    length, size = ctypes.c_size_t(), 0
    while True:
        text = ctypes.create_string_buffer(size + 1)
        status = native.weir_monitor_print_prometheus(rows, len(named), ctypes.cast(text, ctypes.c_void_p), size + 1,
                                                      ctypes.byref(length), messages.at)
        if status == native.WEIR_OK:
            del kept
            return text.value.decode()
        if length.value <= size:
            check(status)
        size = length.value + 256  # counts grow meanwhile


class WatchHandle(Owned):
    free = native.weir_watch_destroy


class Watch:
    """Compares counts with what they were: look() once a second or so. quiet: seconds after an event
    in which its like is only counted. It watches the process that made it."""

    def __init__(self, named: Mapping[str, Source], quiet: float = 60.0):
        rows, kept = sources_of(named)
        self._handle = WatchHandle(*kept)
        self._lock = threading.Lock()
        quiet_us = microseconds("quiet", quiet, 0)
        check(native.weir_watch_create(rows, len(named), quiet_us, ctypes.byref(self._handle), messages.at))
        self._hook = native.weir_event_hook(self._tell)
        self._found: List[Event] = []

    def _tell(self, _context, event):
        event = event.contents
        self._found.append(Event(event.kind_name.decode(), event.source.decode(),
                                 event.server and event.server.decode(), event.count, event.text.decode()))

    def look(self) -> List[Event]:
        """The events since the last look."""
        with self._lock:
            if self._handle is None:
                raise ClosedError("watch")
            self._found = []
            native.weir_watch_look(self._handle, self._hook, None)
            return self._found

    def close(self) -> None:
        with self._lock:
            self._handle = None
