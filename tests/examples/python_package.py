"""The Python package on every store: decisions, errors, batches, an event loop, and structures that
are as large as C says."""
import asyncio
import ctypes
import os
import sys

import weir
from weir import aio, native


def with_option(url, option):
    return url + ("&" if "?" in url else "?") + option


def check_store(url, number):
    with weir.Store(with_option(url, f"namespace=python{number}&timeout=30s")) as store:
        with weir.Limiter(store, "fixed-window:3/400d") as limiter:
            assert limiter.peek("a").remaining == 3
            first = limiter.take("a", 2)
            assert first.allowed and first.remaining == 1 and first.cost == 2 and first.source == "store", first
            assert not limiter.take("a", 2).allowed
            assert limiter.take_up_to("a", 3).cost == 1
            denied = limiter.take(b"a")
            assert not denied.allowed and denied.retry_after > 0, denied
            fields = limiter.http_fields("api", denied)
            assert fields["RateLimit-Policy"] == '"api";q=3;w=34560000', fields
            assert set(fields) == {"RateLimit-Policy", "RateLimit", "Retry-After"}, fields
            limiter.refund("a", first, 2)
            assert limiter.take("a", 2).allowed
            limiter.reset("a")
            assert limiter.take("a").remaining == 2
            assert limiter.take("a", 4).retry_after is None
            batch = limiter.decide([("b", 1), (b"\0\xff", 3), ("b", 3), ("", 1), ("b", 2)])
            assert [getattr(each, "allowed", None) for each in batch] == [True, True, False, None, True], batch
            assert batch[3].status == "BAD_KEY"


async def check_loop(url):
    with weir.Store(with_option(url, "namespace=asyncio&timeout=30s")) as store:
        with weir.Limiter(store, "fixed-window:50/400d") as limiter:
            limits = aio.Limits(limiter)
            decided = await asyncio.gather(*[limits.take(f"key-{i % 10}") for i in range(2000)])
            assert sum(each.allowed for each in decided) == 500
            try:
                await limits.take("k", 0)
            except weir.Error as error:
                assert error.status == "BAD_COST"
            else:
                raise AssertionError("a cost of 0 was decided")
            counts = native.weir_limiter_counts(size=ctypes.sizeof(native.weir_limiter_counts))
            native.weir_limiter_read_counts(limiter.handle, ctypes.byref(counts))
            assert counts.allowed == 500 and counts.denied == 1500
            assert counts.round_trips < 200, counts.round_trips  # they went in batches
            limits.close()


def check_errors():
    for rules, url, status, text in [("slow:1/1s", "memory:", "BAD_RULE", "slow"),
                                     ("fixed-window:1/1s", "nowhere:", "BAD_URL", "nowhere")]:
        try:
            with weir.Store(url) as store:
                weir.Limiter(store, rules)
        except weir.Error as error:
            assert error.status == status and text in str(error), (error.status, str(error))
        else:
            raise AssertionError(f"{rules} on {url} was accepted")


def check_sizes(lines):
    """"weir_decision 88" and "weir_decision.cost 64" of the compiler, for every structure."""
    checked = 0
    for name, number in (line.split() for line in lines):
        kind, _, member = name.partition(".")
        found = getattr(getattr(native, kind), member).offset if member else ctypes.sizeof(getattr(native, kind))
        assert found == int(number), (name, found, number)
        checked += 1
    assert checked > 50, checked


def main():
    stores = [url for name, url in sorted(os.environ.items()) if name.startswith("WEIR_TEST_")]
    assert len(stores) >= 5, stores
    for number, url in enumerate(stores + ["memory:"]):
        check_store(url, number)
    asyncio.run(check_loop(os.environ["WEIR_TEST_MEMCACHED_THREE"]))
    asyncio.run(check_loop(os.environ["WEIR_TEST_REDIS"]))
    check_errors()
    check_sizes(open(sys.argv[1], encoding="ascii"))
    print(f"{len(stores)} stores")


main()
