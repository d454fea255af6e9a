"""How far a reader walks who follows one decision: the calls of one warm weir_limiter_take.

    python3 tests/bench/walk.py [--program build/dev/tests/bench/walk_take] [--list]

Runs the program, which must be built without optimisation, under callgrind (Debian's valgrind) on the
embedded store and on a memcached of its own, and counts the calls from one of the project's functions
to another. Calls into other libraries do not count. --list prints every function with its calls.
"""

import argparse
import collections
import os
import re
import socket
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PLACES = ("src/", "backends/", "include/")
START = "walked_take"


def compressed(names, text):
    """callgrind writes "(7) name" once and "(7)" from then on."""
    number, name = re.fullmatch(r"\((\d+)\)(?: (.*))?", text).groups()
    if name is not None:
        names[number] = name
    return names[number].partition("'")[0]  # functions that call themselves get "'2"


def path_of(name):
    """In this tree, whatever the one was called that it was compiled in: a compiler's cache serves several."""
    name = os.path.normpath(name)
    for place in PLACES:
        path = place + name.rpartition("/" + place)[2]
        if "/" + place in name and os.path.exists(os.path.join(ROOT, path)):
            return path
    return name


def calls_of(profile):
    """Counts of calls from function to function; each function is (file, name)."""
    files, functions = {}, {}
    file = caller = None
    called_file = called = None
    calls = collections.Counter()
    for line in profile:
        kind, _, text = line.rstrip("\n").partition("=")
        if kind == "fl":
            file = path_of(compressed(files, text))
        elif kind in ("fi", "fe"):
            compressed(files, text)
        elif kind == "fn":
            caller = (file, compressed(functions, text))
        elif kind in ("cfi", "cfl"):
            called_file = path_of(compressed(files, text))
        elif kind == "cfn":
            called = (called_file or caller[0], compressed(functions, text))
        elif kind == "calls":
            calls[caller, called] += int(text.split()[0])
            called_file = None
    return calls


def is_ours(function):
    return function[0].startswith(PLACES)


def walk(program, url):
    """The calls within the project during the one take."""
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "profile")
        subprocess.run(
            ["valgrind", "--tool=callgrind", f"--zero-before={START}", f"--dump-after={START}",
             f"--callgrind-out-file={out}", program, url],
            check=True, stderr=subprocess.DEVNULL, timeout=120)
        with open(out + ".1", encoding="utf-8") as profile:
            calls = calls_of(profile)
    return {edge: n for edge, n in calls.items()
            if is_ours(edge[1]) and (is_ours(edge[0]) or edge[0][1] == START)}


def report(title, calls, listed):
    functions = {called for _, called in calls}
    files = {file for file, _ in functions}
    crossing = sum(n for (caller, called), n in calls.items() if caller[0] != called[0])
    print(f"{title}: {sum(calls.values())} calls of {len(functions)} functions in {len(files)} files, "
          f"{crossing} of them from file to file")
    if not listed:
        return
    for file in sorted(files):
        print("  " + file)
        for function in sorted(f for f in functions if f[0] == file):
            count = sum(n for (_, called), n in calls.items() if called == function)
            print(f"    {count:4} {function[1]}")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", default=os.path.join(ROOT, "build/dev/tests/bench/walk_take"))
    parser.add_argument("--list", action="store_true", help="every function with its calls")
    given = parser.parse_args()
    report("memory", walk(given.program, "memory:"), given.list)
    port = free_port()
    server = subprocess.Popen(["memcached", "-u", "root", "-l", "127.0.0.1", "-p", str(port)])
    try:
        time.sleep(0.5)
        report("memcached", walk(given.program, f"memcached://127.0.0.1:{port}?timeout=30s"), given.list)
    finally:
        server.terminate()
        server.wait()


if __name__ == "__main__":
    sys.exit(main())
