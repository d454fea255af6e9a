"""Measures what the packages for Python and Node add to the library's own time.

    WEIR_LIBRARY=build/libweir.so python3 tests/bench/bindings.py [URL]
    LD_LIBRARY_PATH=build WEIR_NODE_ADDON=build/tests/bindings/weir_node.node node tests/bench/bindings.js

One take on memory: beside the library's function called the barest way from the same language; 1,000
concurrent takes of weir.aio beside 1,000 idle futures and one batch, on memory: and, where a URL is
given, on that store. Rounds alternate; of each the median of the rounds and the best.
"""
import asyncio
import ctypes
import pathlib
import statistics
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "src/bindings/python"))
import weir  # noqa: E402
from weir import aio, native  # noqa: E402

ROUNDS, TAKES, TOGETHER = 15, 20_000, 1_000
RULE = "fixed-window:1000000000/400d"


def each_us(call):
    began = time.perf_counter()
    for _ in range(TAKES):
        call()
    return (time.perf_counter() - began) / TAKES * 1e6


def shown(values, digits):
    return f"{statistics.median(values):.{digits}f} (best {min(values):.{digits}f})"


def one_take():
    limiter = weir.Limiter(weir.Store("memory:"), RULE)
    handle, key, take = limiter._handle, b"alice", native.weir_limiter_take
    decision = ctypes.byref(native.weir_decision())

    def bare():
        take(handle, key, 5, 1, decision, None)

    def package():
        limiter.take("alice")

    rounds = [(each_us(bare), each_us(package)) for _ in range(ROUNDS)]
    added = [ours - theirs for theirs, ours in rounds]
    print(f"a take by ctypes: {shown([each for each, _ in rounds], 2)} us; by weir {shown([each for _, each in rounds], 2)} us; "
          f"added {shown(added, 2)} us")


async def together(url):
    store = aio.Store(url)
    await store.connect(5)
    limiter = aio.Limiter(store, RULE, deadline=5)
    keys = [f"user-{i}" for i in range(TOGETHER)]
    texts = [key.encode() for key in keys]
    requests = (native.weir_request * TOGETHER)()
    for request, text in zip(requests, texts):
        request.key = ctypes.cast(ctypes.c_char_p(text), ctypes.c_void_p)
        request.key_length, request.cost = len(text), 1
    loop = asyncio.get_running_loop()

    async def ours():
        await asyncio.gather(*[limiter.take(key) for key in keys])

    async def idle():
        futures = []

        async def one():
            future = loop.create_future()
            futures.append(future)
            return await future

        def batch():
            assert native.weir_limiter_decide(limiter.sync._handle, requests, TOGETHER, None) == native.WEIR_OK
            loop.call_soon_threadsafe(lambda: [each.set_result(None) for each in futures])

        loop.call_soon(lambda: loop.run_in_executor(None, batch))
        await asyncio.gather(*[one() for _ in keys])

    async def timed(what):
        began = time.perf_counter()
        await what()
        return (time.perf_counter() - began) * 1e3

    rounds = [(await timed(idle), await timed(ours)) for _ in range(ROUNDS)]
    ratios = [mine / theirs for theirs, mine in rounds]
    print(f"{TOGETHER} takes of aio on {url.split(':')[0]}: {shown([each for _, each in rounds], 2)} ms; idle futures and a "
          f"batch {shown([each for each, _ in rounds], 2)} ms; {shown(ratios, 2)} times")
    store.close()


if __name__ == "__main__":
    one_take()
    for each in ["memory:", *sys.argv[1:]]:
        asyncio.run(together(each))
