"""/health while limits wait for a store that is 2 ms away: how long it takes with and without them.

    far_store 2 python3 event_loop.py PROGRAM          prints the times; asserts counts
    far_store 1000 python3 event_loop.py held PROGRAM  asserts that the loop does not wait
    far_store 2 python3 event_loop.py places PROGRAM   asserts that what is in flight is paid for again
"""
import json
import os
import statistics
import subprocess
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


def load(port):
    """In a process of its own: threads of one Python hold each other up."""
    results = []
    callers = [threading.Thread(target=ask, args=(port, number, results)) for number in range(CALLERS)]
    for each in callers:
        each.start()
    for each in callers:
        each.join()
    print(json.dumps(results))


def main():
    url = os.environ["WEIR_TEST_FAR"] + "?timeout=30s"
    with running(sys.argv[1], url, f"fixed-window:{LIMIT}/400d") as (port, _):
        left = iter(range(200))
        alone = time_health(port, lambda: next(left, None) is not None)
        begin = time.monotonic()
        with subprocess.Popen([sys.executable, "-B", __file__, "load", str(port)],
                              stdout=subprocess.PIPE) as callers:
            meanwhile = time_health(port, lambda: callers.poll() is None)
            results = json.load(callers.stdout)
        took = time.monotonic() - begin
        assert get(port, "/key-1")[0] == 429
    assert len(results) == CALLERS * REQUESTS and set(results) == {200, 429}, set(results)
    assert results.count(200) == CALLERS * LIMIT, results.count(200)
    print(f"/health alone: {shown(alone)}; while {len(results)} limits took {took:.2f} s: {shown(meanwhile)}")


def held(program):
    """A loop that waited for a store 1 s away would answer nothing for so long. A machine may be held
    up as well, but not every time."""
    url = os.environ["WEIR_TEST_FAR"] + "?timeout=30s"
    with running(program, url, "fixed-window:5/400d") as (port, _):
        for number in range(20):  # clients that ask, and leave before there is an answer
            leaver = connect(port)
            leaver.request("GET", f"/leaver-{number}")
            leaver.close()
        for attempt in range(1, 6):
            limited = connect(port)
            limited.request("GET", f"/key-{attempt}")
            left = iter(range(10))
            begin = time.monotonic()
            time_health(port, lambda: next(left, None) is not None)
            took = time.monotonic() - begin
            assert limited.getresponse().status == 200
            limited.close()
            if took < 0.5:
                print(f"10 times /health in {took:.3f} s, while a limit waited for its store")
                return
        raise AssertionError("/health waited for the store")


def places(program):
    """Work that lasts longer than a period: places are kept only where the loop's timer has them paid
    for, and are free once the work is done."""
    url = os.environ["WEIR_TEST_FAR"] + "?timeout=300ms"
    with running(program, url, "in-flight:2/3s", "3500") as (port, _):
        begin = time.monotonic()
        results = []
        callers = [threading.Thread(target=lambda: results.append((get(port, "/alice")[0], time.monotonic() - begin)))
                   for _ in range(3)]
        for each in callers:
            each.start()
        while (took := time.monotonic() - begin) < 3.3:
            if took > 0.5:  # by then two of the three have entered
                assert get(port, "/alice")[0] == 429, (took, results)
            time.sleep(0.1)
        for each in callers:
            each.join()
        assert sorted(status for status, _ in results) == [200, 200, 429], results
        assert all(took >= 3.5 for status, took in results if status == 200), results
        # They have left. A leave that got no answer is free when its period is over.
        end = time.monotonic() + 10
        while (status := get(port, "/alice")[0]) != 200:
            assert status == 429 and time.monotonic() < end, status
            time.sleep(0.1)
    print(f"two at once over {max(took for _, took in results):.1f} s of work, in periods of 3 s")


if sys.argv[1] == "load":
    load(int(sys.argv[2]))
elif sys.argv[1] == "held":
    held(sys.argv[2])
elif sys.argv[1] == "places":
    places(sys.argv[2])
else:
    main()
