"""The middleware shares this: who is limited, by which rule, and how the answer says so.

    rule     "100/1m" and "100 per minute" are "sliding-window:100/1m"; any rule of weir; or a function of
             the request that says one, as of plans: None is no limit. A few plans, not a rule a customer
    key      a function of the request: whose limit it is. Without one, and for requests of which it
             says None or "", the client's address
    cost     a number, or a function of the request
    class_   of a rule with classes=: the class of a request, by its name or a function of the request. None is no
             class, and has all of the limit: say a low one for who says nothing
    limit    of a rule with most=: a number in the place of the rule's, or a function of the request; None: the rule's
    tenant   of a shared-window: whose floor it uses, as a key or a function of the request
             Who sets a field of a request sets what is read from it: a client must not set these three
    methods  which are limited, ("POST", "PUT"); without it all. GET is HEAD as well, and case is nothing
    exempt   a function of the request: true for one that is not limited
    enabled  False, or a function without arguments that says so: nothing is limited, as in tests
    trusted  the proxies whose X-Forwarded-For is believed: "10.0.0.0/8". A client of a Unix
             socket counts as 127.0.0.1
    name     what keeps apart the counts of limits that are otherwise alike, and is told to clients
    style    "draft-10" (RateLimit) or "x-ratelimit"
    skip_failed, skip_successful
             True: requests that end with a status of 400 or more, or below it, are given back: to count
             failed logins alone, skip_successful=True
    message  the text of a refusal, or a function of the Refusal
    on_denied
             a function of the request and the Refusal that answers in its place

All else is an option of weir.Limiter. A refusal is 429; 400 where the cost can never fit, or a function says a
class that the rule does not have, or no tenant; and where fallback="none" finds no store 503. It is problem+json for who accepts JSON, else text.
"""
from __future__ import annotations

import asyncio
import collections
import contextlib
import functools
import hashlib
import inspect
import json
import re
import sys
import time
import weakref
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterable, NamedTuple, Optional, Tuple, TypeVar, Union

from .http import Networks, client_key
from .limiter import Limiter
from .store import Store, log
from .values import Decision, Error, Key

if TYPE_CHECKING:
    from .limiter import LimiterOptions

    class Options(LimiterOptions, total=False):
        """The arguments of every limit, for the type checker."""

        key: Optional[Callable[..., Optional[Key]]]
        cost: Union[int, Callable[..., int]]
        class_: Union[str, Callable[..., Optional[str]], None]
        limit: Union[int, Callable[..., Optional[int]], None]
        tenant: Union[Key, Callable[..., Optional[Key]], None]
        methods: Optional[Iterable[str]]
        exempt: Optional[Callable[..., bool]]
        enabled: Union[bool, Callable[[], bool]]
        trusted: Union[Networks, str, None]
        name: Optional[str]
        style: str
        skip_failed: bool
        skip_successful: bool
        message: Union[str, Callable[["Refusal"], str], None]
        on_denied: Optional[Callable[..., Any]]

NAME_MOST = 32
RULES_MOST = 256  # of a function: more are no plans
QUOTA_EXCEEDED = "https://iana.org/assignments/http-problem-types#quota-exceeded"
UNITS = {"s": "s", "sec": "s", "second": "s", "m": "m", "min": "m", "minute": "m", "h": "h", "hour": "h", "d": "d",
         "day": "d", "month": "d", "year": "d"}
DAYS = {"month": 30, "year": 365}
Rule = Union[str, Callable[..., Optional[str]]]
Result = TypeVar("Result")


# --- rules and names ---------------------------------------------------------------------------

def opened(store: Union[Store, str]) -> Store:
    """A store, or the URL of one."""
    return Store(store) if isinstance(store, str) else store


def spoken(rule: str) -> str:
    """"5 per minute", "5/minute" and "100 per 15 minutes" as weir writes them; any other as it is."""
    found = re.fullmatch(r"\s*(\d+)\s*(?:per|/)\s*(\d*)\s*([a-z]+)\s*", rule, re.I)
    word = found.group(3).lower() if found else ""
    unit = word[:-1] if len(word) > 2 and word.endswith("s") else word  # "ms" is no plural
    if not found or unit not in UNITS:
        return rule.strip()
    return f"{found.group(1)}/{int(found.group(2) or 1) * DAYS.get(unit, 1)}{UNITS[unit]}"


def complete(rule: str, name: Optional[str]) -> str:
    """The rule with its algorithm and its name."""
    if not isinstance(rule, str):
        raise TypeError(f"a rule is str, not {type(rule).__name__}")
    rules = []
    for each in rule.split(";"):
        limit, comma, more = each.partition(",")
        each = spoken(limit) + comma + more.rstrip()
        each = each if ":" in limit else "sliding-window:" + each
        rules.append(each if name is None or ",name=" in each else f"{each},name={name}")
    return ";".join(rules)


def plain(function: Any) -> Any:
    """Finds what was wrapped: by functools.partial, or as the method of an object."""
    while isinstance(function, functools.partial):
        function = function.func
    return function


def _answers_async(function: Any) -> bool:
    """Whether it is the dispatch() of a class of Django's views that awaits its methods, below decorators or not."""
    while function is not None:
        if getattr(function, "__name__", None) == "dispatch" and hasattr(function, "__self__"):
            return bool(getattr(function.__self__, "view_is_async", False))
        function = function.func if isinstance(function, functools.partial) else getattr(function, "__wrapped__", None)
    return False


def is_async(function: Any) -> bool:
    """Whether what a call of it gives is awaited: of a function, of an object that can be called, of what Django has
    marked, and of a class of its views."""
    inner = plain(function)
    if inspect.iscoroutinefunction(inner) or "_is_coroutine" in getattr(inner, "__dict__", ()):
        return True
    if not isinstance(inner, type) and inspect.iscoroutinefunction(getattr(inner, "__call__", None)):
        return True
    return _answers_async(function)


def refuse_async(options: Any) -> None:
    """A limit asks its functions and awaits none: what exempt would give is true, so that nobody were limited."""
    for name, value in options.items():
        if callable(value) and is_async(value):
            raise TypeError(f"{name} is a function that answers at once, not an asynchronous one")


def short(name: str) -> str:
    """As a rule takes it, and no longer than that."""
    name = re.sub(r"[^A-Za-z0-9_.-]", "-", name)
    if len(name) <= NAME_MOST:
        return name
    return name[:NAME_MOST - 9] + "-" + hashlib.blake2s(name.encode(), digest_size=4).hexdigest()


def name_of(function: Any) -> str:
    """A limit's name by what it is for: a function, a method of a class that may have inherited it, a class that
    answers requests, an object that can be called."""
    inner = plain(function)
    made_by = getattr(function, "view_class", None) or getattr(function, "cls", None)
    owner = made_by or getattr(inner, "__self__", None)
    if owner is not None:
        kind = owner if isinstance(owner, type) else type(owner)
        name = f"{kind.__module__}.{kind.__qualname__}"
        return short(name if made_by else f"{name}.{inner.__name__}")
    if not hasattr(inner, "__qualname__"):
        return short(f"{type(inner).__module__}.{type(inner).__qualname__}")
    qualified = inner.__qualname__
    if qualified.rpartition(".")[2] != inner.__name__:
        qualified = inner.__name__  # it was called anew, as a class's as_view() does
    return short(f"{inner.__module__}.{qualified}")


class Taken:
    """Which limits count where, to tell of two that share their counts and were not told to."""

    def __init__(self) -> None:
        self.gates: "weakref.WeakValueDictionary[Tuple[Any, ...], Gate]" = weakref.WeakValueDictionary()

    def add(self, gate: "Gate", limiter: Limiter, purpose: Any) -> None:
        for rule in limiter.rules:
            place = (limiter.store.shown, rule.name, rule.algorithm, rule.period)
            other = self.gates.setdefault(place, gate)
            if other is not gate and other.purpose != purpose:
                log.warning("two limits of %s count as one, as both are %s: give each a name= of its own",
                            limiter.store.shown, f"called {rule.name!r}" if rule.name else "without a name")
                return


taken = Taken()


# --- one limit ---------------------------------------------------------------------------------

class Seen(NamedTuple):
    """The parts of a request that are read, whatever its framework."""

    request: Any
    method: str
    peer: Optional[str]
    forwarded_for: Optional[str]
    accept: str


class Refusal:
    """Why a request goes no further. status: 429; 400: its cost is above the limit, or it says a class that there
    is not, or no tenant; 503: there is no decision. decision: None where there is none. fields: those of the answer.
    body and content_type: what a client reads."""

    def __init__(self, gate: "Gate", seen: Seen, decision: Optional[Decision], fields: Dict[str, str], claim: str = "",
                 violated: str = ""):
        never = decision is not None and decision.retry_after is None and decision.limit > 0  # a key of 0 is blocked
        self.status = 400 if never or claim else 503 if decision is None else 429
        self.decision, self.fields = decision, fields
        self.retry_after = fields.get("Retry-After")
        self.text = {
            400: claim or f"This request costs {decision.cost if decision else 0} and never fits under its limit.\n",
            503: "No limit can be told now: try again later.\n",
            429: f"Too many requests: again in {self.retry_after} s.\n" if self.retry_after else "Too many requests.\n",
        }[self.status]
        if gate.message is not None:
            self.text = gate.message(self) if callable(gate.message) else gate.message
        self.body, self.content_type = self.text.encode(), "text/plain; charset=utf-8"
        if "json" in seen.accept.lower():
            self.content_type = "application/problem+json"
            self.body = json.dumps(self.problem(violated)).encode() + b"\n"

    def problem(self, violated: str) -> Dict[str, Any]:
        title = {400: "Bad Request", 503: "Service Unavailable", 429: "Too Many Requests"}[self.status]
        problem: Dict[str, Any] = {"type": "about:blank", "title": title, "status": self.status,
                                   "detail": self.text.strip()}
        if self.status == 429:
            problem.update({"type": QUOTA_EXCEEDED, "violated-policies": [violated]})
        return problem


class Passed:
    """A request that was asked about. refusal: None where it may go on."""

    def __init__(self, limiter: Limiter, key: Key, decision: Optional[Decision], fields: Dict[str, str],
                 refusal: Optional[Refusal]):
        self.limiter, self.key, self.decision, self.fields, self.refusal = limiter, key, decision, fields, refusal
        self.is_finished = refusal is not None


def violated_policy(limiter: Limiter, name: str, decision: Decision, fields: Dict[str, str]) -> str:
    """The policy that denied: RateLimit begins with it, in quotes."""
    told = fields.get("RateLimit") or limiter.http_fields(name, decision, "draft-10").get("RateLimit")
    return told.split('"')[1] if told else name


def address_key(peer: Optional[str], forwarded_for: Optional[str], trusted: Optional[Networks]) -> str:
    peer = peer or "127.0.0.1"
    try:
        return client_key(peer, forwarded_for, trusted)
    except Error:
        return peer  # no address: the server's own word for who it is


def beside_hub(function: Callable[..., Result], *arguments: Any) -> Result:
    """Where gevent or eventlet serve all requests in one thread, a call that waits for a store would stop all of
    them: their own threads make it."""
    gevent, eventlet = sys.modules.get("gevent.monkey"), sys.modules.get("eventlet.patcher")
    if gevent is not None and gevent.is_module_patched("socket"):
        return sys.modules["gevent"].get_hub().threadpool.apply(function, arguments)  # type: ignore[no-any-return]
    if eventlet is not None and eventlet.is_monkey_patched("socket"):
        from eventlet import tpool
        return tpool.execute(function, *arguments)  # type: ignore[no-any-return]
    return function(*arguments)


class Gate:
    """One limit of a service. `name` is what its user called it, `derived` what it is called without that, and
    `purpose` what it is for: two of one purpose and rule are the same limit, made again."""

    def __init__(self, store: Union[Store, str], rule: Rule, *, key: Optional[Callable[[Any], Optional[Key]]] = None,
                 cost: Union[int, Callable[[Any], int]] = 1, class_: Union[str, Callable[[Any], Optional[str]], None] = None,
                 limit: Union[int, Callable[[Any], Optional[int]], None] = None,
                 tenant: Union[Key, Callable[[Any], Optional[Key]], None] = None, methods: Optional[Iterable[str]] = None,
                 exempt: Optional[Callable[[Any], bool]] = None, enabled: Union[bool, Callable[[], bool]] = True,
                 trusted: Union[Networks, str, None] = None, name: Optional[str] = None, style: str = "draft-10",
                 skip_failed: bool = False, skip_successful: bool = False,
                 message: Union[str, Callable[[Refusal], str], None] = None,
                 on_denied: Optional[Callable[..., Any]] = None, derived: Optional[str] = None, purpose: Any = None,
                 **options: Any):
        self.store, self.rule, self.options = opened(store), rule, options
        self.key, self.cost, self.exempt, self.enabled, self.style = key, cost, exempt, enabled, style
        if isinstance(methods, str):
            raise TypeError(f"methods is a list of them, as [{methods!r}], not str")
        refuse_async({"rule": rule, "key": key, "cost": cost, "class_": class_, "limit": limit, "tenant": tenant, "exempt": exempt,
                      "enabled": enabled, "message": message, "on_denied": on_denied})
        for what, value in (("key", key), ("exempt", exempt), ("on_denied", on_denied)):
            if value is not None and not callable(value):
                raise TypeError(f"{what} is a function of the request, not {type(value).__name__}")
        if message is not None and not isinstance(message, str) and not callable(message):
            raise TypeError(f"message is str or a function of the Refusal, not {type(message).__name__}")
        self.claims = {name: value for name, value in (("class_", class_), ("limit", limit), ("tenant", tenant))
                       if value is not None}
        self.methods = None if methods is None else frozenset(each.upper() for each in methods)
        if self.methods is not None and "GET" in self.methods:
            self.methods |= {"HEAD"}  # views of GET answer both
        self.skip_failed, self.skip_successful, self.message, self.on_denied = (skip_failed, skip_successful, message,
                                                                                 on_denied)
        self.rule_name = name or derived
        self.is_named = name is not None
        self.name = self.rule_name or "default"
        self.purpose = (purpose, rule)
        self.trusted = Networks(trusted) if isinstance(trusted, str) else trusted
        # No lock: each step on it is one for Python, and a lock that is held at a fork stays held in the child.
        self._limiters: "collections.OrderedDict[str, Limiter]" = collections.OrderedDict()
        if not callable(rule):
            self._refuse_claims(self._limiter_of(rule))

    def _refuse_claims(self, limiter: Limiter) -> None:
        """What no request may say is told at once."""
        if "class_" in self.claims and not limiter.classes:
            raise ValueError(f"class_ is of a rule with classes=, as {limiter.rules[0].text},classes=batch:60%")
        named = self.claims.get("class_")
        if isinstance(named, str) and named not in limiter.classes:
            raise ValueError(f"class_ is {named!r}: accepted are {', '.join(limiter.classes)}")
        if "limit" in self.claims and not any(",most=" in rule.text for rule in limiter.rules):
            raise ValueError(f"limit is of a rule with most=, as {limiter.rules[0].text},most=5000")
        if limiter.has_tenants != ("tenant" in self.claims):
            raise ValueError("tenant is of a shared-window, which needs it, and of no other rule")

    def _limiter_of(self, rule: str) -> Limiter:
        limiter = self._limiters.get(rule)
        if limiter is not None:
            with contextlib.suppress(KeyError):  # another thread has it go
                self._limiters.move_to_end(rule)
            return limiter
        made = Limiter(self.store, complete(rule, self.rule_name), **self.options)
        if not self.is_named:
            taken.add(self, made, self.purpose)
        limiter = self._limiters.setdefault(rule, made)
        if len(self._limiters) > RULES_MOST:
            self._limiters.popitem(last=False)  # the least lately used; it goes with the last request that asks it
        return limiter

    def _wanted(self, seen: Seen) -> Union[Tuple[Limiter, Key, int, Dict[str, Any]], Passed, None]:
        """Which limiter, key, cost and claims; None: it is not limited."""
        enabled = self.enabled() if callable(self.enabled) else self.enabled
        if not enabled or (self.methods is not None and seen.method.upper() not in self.methods):
            return None
        exempts = self.exempt is not None and self.exempt(seen.request)
        if inspect.isawaitable(exempts):
            raise TypeError("exempt answered with what is to be awaited: it must say true or false")
        if exempts:
            return None
        rule = self.rule(seen.request) if callable(self.rule) else self.rule
        if rule is None:
            return None
        key = self.key(seen.request) if self.key is not None else None
        if key is None or key == "":
            key = address_key(seen.peer, seen.forwarded_for, self.trusted)
            key = key if self.key is None else "address " + key
        limiter, cost = self._limiter_of(rule), self.cost(seen.request) if callable(self.cost) else self.cost
        said = {name: each(seen.request) if callable(each) else each for name, each in self.claims.items()}
        wrong = self._wrong_claim(limiter, said) if said else ""
        if wrong:
            return Passed(limiter, key, None, {}, Refusal(self, seen, None, {}, wrong))
        return limiter, key, cost, said

    def _wrong_claim(self, limiter: Limiter, said: Dict[str, Any]) -> str:
        """Of what a function says a client may be the reason: it is no fault of the service."""
        if callable(self.claims.get("class_")) and isinstance(said["class_"], str) and said["class_"] not in limiter.classes:
            return f"The class of this request is none of: {', '.join(limiter.classes)}.\n"
        if callable(self.claims.get("tenant")) and limiter.has_tenants and said["tenant"] in (None, "", b""):
            return "This request names no tenant.\n"
        return ""

    def _passed(self, seen: Seen, limiter: Limiter, key: Key, class_: Optional[str],
                answer: Union[Decision, Error]) -> Passed:
        if isinstance(answer, Error):
            if answer.kind not in ("store", "transient"):
                raise answer
            self.store._note_away(str(answer))
            fields = {"Retry-After": "1"}
            return Passed(limiter, key, None, fields, Refusal(self, seen, None, fields))
        name = self.name if class_ is None else f"{self.name}/{class_}"
        fields = limiter.http_fields(name, answer, self.style)
        if answer.allowed:
            return Passed(limiter, key, answer, fields, None)
        return Passed(limiter, key, answer, fields,
                      Refusal(self, seen, answer, fields, violated=violated_policy(limiter, name, answer, fields)))

    def ask(self, seen: Seen) -> Optional[Passed]:
        """None: it is not limited. Sleeps what the rule asks for."""
        wanted = self._wanted(seen)
        if wanted is None or isinstance(wanted, Passed):
            return wanted
        limiter, key, cost, said = wanted
        if not self.store.is_ahead:
            beside_hub(self.store.connect_first)
        try:
            answer: Union[Decision, Error] = (limiter.take(key, cost, **said) if self.store.immediate
                                              else beside_hub(functools.partial(limiter.take, key, cost, **said)))
        except Error as error:
            answer = error
        if isinstance(answer, Decision) and answer.delay:
            time.sleep(answer.delay)
        return self._passed(seen, limiter, key, said.get("class_"), answer)

    async def ask_later(self, seen: Seen) -> Optional[Passed]:
        """The same in a loop."""
        from . import aio
        wanted = self._wanted(seen)
        if wanted is None or isinstance(wanted, Passed):
            return wanted
        limiter, key, cost, said = wanted
        if not self.store.is_ahead:
            await asyncio.to_thread(self.store.connect_first)
        try:
            answer: Union[Decision, Error] = await aio.Limiter.of(limiter).take(key, cost, **said)
        except Error as error:
            answer = error
        if isinstance(answer, Decision) and answer.delay:
            await asyncio.sleep(answer.delay)
        return self._passed(seen, limiter, key, said.get("class_"), answer)

    def _gives_back(self, passed: Passed, status: int) -> bool:
        """Once for each request, by its first status."""
        was_finished, passed.is_finished = passed.is_finished, True
        return not was_finished and (self.skip_failed if status >= 400 else self.skip_successful)

    def finish(self, passed: Optional[Passed], status: int) -> None:
        """It was answered so. A request that is not to count goes back."""
        if passed is not None and self._gives_back(passed, status):
            beside_hub(give_back, passed)

    async def finish_later(self, passed: Optional[Passed], status: int) -> None:
        if passed is not None and self._gives_back(passed, status):
            await asyncio.to_thread(give_back, passed)


def give_back(passed: Passed) -> None:
    assert passed.decision is not None
    try:
        passed.limiter.refund(passed.key, passed.decision)
    except Error as error:
        log.warning("a request that was not to count stays charged: %s", error)
