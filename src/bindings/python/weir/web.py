"""What the middleware shares: who is limited, by which rule, and how the answer says so.

    rule     "100/1m" is "sliding-window:100/1m"; any rule of weir
    key      a function of the request: whose limit it is. Without one, and for requests of which it
             says None or "", the client's address
    cost     a number, or a function of the request
    exempt   a function of the request: true for one that is not limited
    trusted  the proxies whose X-Forwarded-For is believed: "10.0.0.0/8". Who comes by a Unix socket
             counts as 127.0.0.1
    name     what keeps apart the counts of limits that are otherwise alike, and is told to clients
    style    "draft-10" (RateLimit) or "x-ratelimit"

All else is an option of weir.Limiter.
"""
from __future__ import annotations

import asyncio
import hashlib
import re
import time
from typing import Any, Callable, Dict, Optional, Union

from .http import Networks, client_key
from .limiter import Limiter
from .store import Store
from .values import Decision, Error, Key

NAME_MOST = 32


def opened(store: Union[Store, str]) -> Store:
    """A store, or the URL of one."""
    return Store(store) if isinstance(store, str) else store


def complete(rule: str, name: Optional[str]) -> str:
    """The rule with its algorithm and its name."""
    if not isinstance(rule, str):
        raise TypeError(f"a rule is str, not {type(rule).__name__}")
    rules = []
    for each in rule.split(";"):
        each = each if ":" in each else "sliding-window:" + each
        rules.append(each if name is None or ",name=" in each else f"{each},name={name}")
    return ";".join(rules)


def name_of(function: Callable) -> str:
    """A limit's name by the function it is for."""
    name = re.sub(r"[^A-Za-z0-9_.-]", "-", f"{function.__module__}.{function.__qualname__}")
    if len(name) <= NAME_MOST:
        return name
    return name[:NAME_MOST - 9] + "-" + hashlib.blake2s(name.encode(), digest_size=4).hexdigest()


def address_key(peer: Optional[str], forwarded_for: Optional[str], trusted: Optional[Networks]) -> str:
    peer = peer or "127.0.0.1"
    try:
        return client_key(peer, forwarded_for, trusted)
    except Error:
        return peer  # no address: the server's own word for who it is


class Gate:
    """One limit of a service."""

    def __init__(self, store: Union[Store, str], rule: str, *, key: Optional[Callable[[Any], Optional[Key]]] = None,
                 cost: Union[int, Callable[[Any], int]] = 1, exempt: Optional[Callable[[Any], bool]] = None,
                 trusted: Union[Networks, str, None] = None, name: Optional[str] = None, style: str = "draft-10",
                 **options):
        self.store = opened(store)
        self.limiter = Limiter(self.store, complete(rule, name), **options)
        self.key, self.cost, self.exempt, self.style = key, cost, exempt, style
        self.name = name or "default"
        self.trusted = Networks(trusted) if isinstance(trusted, str) else trusted

    def key_of(self, request, peer: Optional[str], forwarded_for: Optional[str]) -> Optional[Key]:
        """None: it is not limited."""
        if self.exempt is not None and self.exempt(request):
            return None
        if self.key is None:
            return address_key(peer, forwarded_for, self.trusted)
        key = self.key(request)
        if key is None or key == "":
            return "address " + address_key(peer, forwarded_for, self.trusted)
        return key

    def cost_of(self, request) -> int:
        return self.cost(request) if callable(self.cost) else self.cost

    def ask(self, request, peer: Optional[str], forwarded_for: Optional[str]) -> Optional[Decision]:
        """None: it is not limited. Sleeps what the rule asks for."""
        key = self.key_of(request, peer, forwarded_for)
        if key is None:
            return None
        self.store.connect_first()
        decision = self.limiter.take(key, self.cost_of(request))
        if decision.delay:
            time.sleep(decision.delay)
        return decision

    async def ask_later(self, request, peer: Optional[str], forwarded_for: Optional[str]) -> Optional[Decision]:
        """The same in a loop."""
        from . import aio
        key = self.key_of(request, peer, forwarded_for)
        if key is None:
            return None
        if not self.store.is_ahead:
            await asyncio.to_thread(self.store.connect_first)
        decision = await aio.Limiter.of(self.limiter).take(key, self.cost_of(request))
        if decision.delay:
            await asyncio.sleep(decision.delay)
        return decision

    def fields(self, decision: Decision) -> Dict[str, str]:
        return self.limiter.http_fields(self.name, decision, self.style)


def refusal(fields: Dict[str, str]) -> str:
    """What a client reads with its 429."""
    after = fields.get("Retry-After")
    return f"Too many requests: again in {after} s.\n" if after else "Too many requests.\n"
