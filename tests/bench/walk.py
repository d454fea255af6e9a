"""How far a reader walks who follows one decision: the calls of one warm weir_limiter_take.

    python3 tests/bench/walk.py [--program build/dev/tests/bench/walk_take] [--list] [--deadline]

Runs the program, which must be built without optimisation, under callgrind (Debian's valgrind) on the
embedded store and on a memcached of its own, and counts the calls from one of the project's functions
to another. Calls into other libraries do not count. --list prints every function with its calls.

--deadline follows the same take on a memcached that is stopped, until its deadline has passed, from
memcached_exec() down: through how many files it goes, and how often it climbs. Files stand in the order of
the fewest calls that lead to one of their functions. A climb is a function that calls one of a file that
stands above its own and leads to it, whatever the number of calls: a reader who goes down goes back.
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


def walk(program, url, *stopped):
    """The calls within the project during the one take."""
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "profile")
        subprocess.run(
            ["valgrind", "--tool=callgrind", f"--zero-before={START}", f"--dump-after={START}",
             f"--callgrind-out-file={out}", program, url, *stopped],
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


def below(calls, start):
    """The calls that lead on from one function, and how many calls away each file is."""
    steps, found = {start: 0}, collections.deque([start])
    while found:
        at = found.popleft()
        for caller, called in calls:
            if caller == at and called not in steps:
                steps[called] = steps[at] + 1
                found.append(called)
    files = {}
    for (file, _), step in steps.items():
        files[file] = min(step, files.get(file, step))
    return [edge for edge in calls if edge[0] in steps], files


def leading_from(leads, file):
    """The files to which calls lead from one of them."""
    found, left = set(), [file]
    while left:
        at = left.pop()
        new = {called for caller, called in leads if caller == at} - found
        found |= new
        left.extend(new)
    return found


def report_deadline(calls, listed):
    start = next(called for _, called in calls if called[1] == "memcached_exec")
    edges, files = below(calls, start)
    leads = {(caller[0], called[0]) for caller, called in edges}
    to = {file: leading_from(leads, file) for file in files}
    climbs = sorted((caller, called) for caller, called in edges
                    if files[called[0]] < files[caller[0]] and caller[0] in to[called[0]])
    print(f"deadline: {len(files)} files below memcached_exec, {len(climbs)} climbs")
    if not listed:
        return
    for file in sorted(files, key=files.get):
        print(f"  {files[file]:2} {file}")
    for (file, caller), (above, called) in climbs:
        print(f"  {file} {caller} -> {above} {called}")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", default=os.path.join(ROOT, "build/dev/tests/bench/walk_take"))
    parser.add_argument("--list", action="store_true", help="every function with its calls")
    parser.add_argument("--deadline", action="store_true", help="the way of a deadline that passes")
    given = parser.parse_args()
    if not given.deadline:
        report("memory", walk(given.program, "memory:"), given.list)
    port = free_port()
    server = subprocess.Popen(["memcached", "-u", "root", "-l", "127.0.0.1", "-p", str(port)])
    try:
        time.sleep(0.5)
        if given.deadline:
            url = f"memcached://127.0.0.1:{port}?timeout=2s"
            report_deadline(walk(given.program, url, str(server.pid)), given.list)
        else:
            report("memcached", walk(given.program, f"memcached://127.0.0.1:{port}?timeout=30s"), given.list)
    finally:
        server.terminate()
        server.wait()


if __name__ == "__main__":
    sys.exit(main())
