"""Makes the table of real servers of docs/sites.md: five weir serve, far from the one memcached that they share.

    python3 tests/serve/sites.py build      writes it; three minutes of a quiet machine

Each site stands behind a relay of its own, which keeps every byte for 40 ms in both directions, and asks for one key
twice as often as the next site. Requests come at even times, whether or not those before have their answers: one that
waits for the store holds a connection, and the next ones take others. A request that took 40 ms or more has waited.
"""

import asyncio
import os
import pathlib
import statistics
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "tests" / "fixture"), str(ROOT / "tests" / "serve")]

AWAY_S = 0.04  # one way
SHARES = [16, 8, 4, 2, 1]
WARM_UP_S, SPAN_S = 4, 40
RULES = [("sliding-window:150000/5m", 400, "below the limit"),
         ("sliding-window:15000/1m", 750, "three times the limit"),
         ("fixed-window:2500/10s", 750, "three times the limit"),
         ("quota:2500/10s", 750, "three times the limit")]
CONFIG = """
listen: {resp: {address: "127.0.0.1:0"}}
stores:
  main: {url: "FAR", deadline: 500ms, processes: 5}
limiters:
  api: {store: main, rule: "RULE,lease=1s"}
"""


async def take(address, free, took):
    """One request, over a connection that no other waits for."""
    begin = asyncio.get_running_loop().time()
    reader, writer = free.pop() if free else await asyncio.open_connection(*address)
    writer.write(b"*3\r\n$9\r\nWEIR.TAKE\r\n$3\r\napi\r\n$1\r\nk\r\n")
    first = await reader.readline()
    if not first.startswith(b"*"):
        raise RuntimeError(f"the server says {first!r}")
    left = int(first[1:])
    while left > 0:
        line = await reader.readline()
        if line.startswith(b"$"):
            await reader.readexactly(int(line[1:]) + 2)
        left -= 1
    free.append((reader, writer))
    took.append(asyncio.get_running_loop().time() - begin)


async def ask(address, rate, took):
    """A site's clients."""
    clock, free, warm, tasks = asyncio.get_running_loop().time, [], [], set()
    begin = clock()
    for number in range(int(rate * (WARM_UP_S + SPAN_S))):
        at = begin + number / rate
        await asyncio.sleep(max(0, at - clock()))
        tasks.add(task := asyncio.create_task(take(address, free, warm if at < begin + WARM_UP_S else took)))
        task.add_done_callback(tasks.discard)
    await asyncio.gather(*tasks)
    for _, writer in free:
        writer.close()


async def ask_all(servers, rate):
    took = []
    await asyncio.gather(*(ask(("127.0.0.1", server.ports["resp"][0]), rate * share / sum(SHARES), took)
                           for server, share in zip(servers, SHARES)))
    return took


def row(rule, rate, says):
    from far import Far
    from server import Server, Store
    store = Store("memcached")
    relays = [Far(store.url, AWAY_S) for _ in SHARES]
    servers = [Server(CONFIG.replace("FAR", far.url("timeout=500ms")).replace("RULE", rule)) for far in relays]
    try:
        took = asyncio.run(ask_all(servers, rate))
    finally:
        for one in [*servers, *relays, store]:
            one.end()
    waited = sum(each >= AWAY_S for each in took)
    cuts = statistics.quantiles(took, n=100)
    return (f"| `{rule}` | {rate}, {says} | {100 * waited / len(took):.2f} % | {1000 * cuts[49]:.2f} ms | "
            f"{1000 * cuts[98]:.1f} ms |")


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    os.environ.setdefault("WEIR_PROGRAM", str(build / "weir"))
    os.environ.setdefault("WEIR_SERVE", str(build / "tests" / "cli" / "serve"))
    page = ROOT / "docs" / "sites.md"
    text = page.read_text(encoding="utf-8")
    head, rest = text.split("<!-- table: servers -->\n")
    old, tail = rest.split("\n\n", 1)
    rows = old.splitlines()[:2]
    for rule in RULES:
        rows.append(row(*rule))
        print(rows[-1], flush=True)
    page.write_text(head + "<!-- table: servers -->\n" + "\n".join(rows) + "\n\n" + tail, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
