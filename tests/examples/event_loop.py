"""/health while limits wait for a store that is 2 ms away: how long it takes with and without them.

What is asserted are counts, and that the loop never waited for the store: times are only printed, as
a busy machine spoils them.
"""
import os
import statistics
import sys
import threading
import time

from service import connect, get, running

CALLERS, REQUESTS, LIMIT = 16, 100, 40


def ask(port, caller, results):
    connection = connect(port)
    for number in range(REQUESTS):
        connection.request("GET", f"/key-{(caller + number) % CALLERS}")
        response = connection.getresponse()
        response.read()
        results.append(response.status)
    connection.close()


def time_health(port, while_true):
    times = []
    connection = connect(port)
    while while_true():
        begin = time.perf_counter()
        connection.request("GET", "/health")
        response = connection.getresponse()
        response.read()
        times.append(time.perf_counter() - begin)
        assert response.status == 200
        time.sleep(0.0005)
    connection.close()
    return sorted(times)


def shown(times):
    return f"median {statistics.median(times) * 1e6:.0f} us, p99 {times[len(times) * 99 // 100] * 1e6:.0f} us"


def main():
    results = []
    url = os.environ["WEIR_TEST_FAR"] + "?timeout=30s"
    with running(sys.argv[1], url, f"fixed-window:{LIMIT}/400d") as (port, _):
        left = iter(range(200))
        alone = time_health(port, lambda: next(left, None) is not None)
        callers = [threading.Thread(target=ask, args=(port, number, results)) for number in range(CALLERS)]
        begin = time.monotonic()
        for each in callers:
            each.start()
        meanwhile = time_health(port, lambda: any(each.is_alive() for each in callers))
        took = time.monotonic() - begin
        for each in callers:
            each.join()
        assert get(port, "/key-1")[0] == 429
    assert len(results) == CALLERS * REQUESTS and set(results) == {200, 429}, set(results)
    assert results.count(200) == CALLERS * LIMIT, results.count(200)
    print(f"/health alone: {shown(alone)}; while {len(results)} limits took {took:.2f} s: {shown(meanwhile)}")


main()
