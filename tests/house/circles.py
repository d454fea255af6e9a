"""Circles of files: which files of one folder call each other round about, as their objects say.

    circles.py ROOT BUILD LIST [--write]

A file depends on another when it uses a symbol that the other defines. Files that depend on each other in
a circle can only be read together. LIST has the circles that there are, a line each, with a reason behind
a "#". A circle that is not in it fails, and so does a line that no longer holds: it is shortened or
taken out. A table of pointers hides a circle from this; so it counts as one, and is not to be made.
"""

import collections
import pathlib
import subprocess
import sys

TARGETS = ("weir_common", "weir_core", "weir_doctor", "weir_simulate", "weir_bench", "weir_logs", "weir_registry",
           "weir_serve", "weir", "weir_wire", "weir_backend_memory", "weir_backend_memcached", "weir_backend_redis")


def read_objects(build):
    """Source file to the symbols that it defines and that it uses. One nm looks at all: each start of it costs
    more than an object."""
    sources = {}
    for folder in build.rglob("*.dir"):
        if folder.stem in TARGETS:
            part = folder.parent.parent.relative_to(build)
            sources.update((str(name), part / str(name.relative_to(folder))[:-2]) for name in folder.rglob("*.c.o"))
    said = subprocess.run(["nm", "-g", "-A", *sources], check=True, capture_output=True, text=True).stdout
    found = {source: (set(), set()) for source in sources.values()}
    for line in said.splitlines():
        name, _, rest = line.partition(".c.o:")
        kind, symbol = rest.split()[-2:]
        found[sources[name + ".c.o"]][kind in "Uw"].add(symbol)
    return found


def depend(found):
    """Each file's set of files of its own folder that it uses."""
    home = {symbol: source for source, (defined, _) in found.items() for symbol in defined}
    return {source: {home[symbol] for symbol in used
                     if symbol in home and home[symbol] != source and home[symbol].parent == source.parent}
            for source, (_, used) in found.items()}


def reach(uses, start):
    seen, left = set(), [start]
    while left:
        for other in uses[left.pop()] - seen:
            seen.add(other)
            left.append(other)
    return seen


def circles(uses):
    reached = {source: reach(uses, source) for source in uses}
    rings = {frozenset(other for other in reached[source] if source in reached[other])
             for source in uses if source in reached[source]}
    return sorted((str(min(ring).parent), sorted(source.name for source in ring)) for ring in rings)


def read_list(path):
    lines = [line.split("#") for line in path.read_text().splitlines() if line and not line.startswith("#")]
    return {line[0].strip(): line[1].strip() if len(line) > 1 else "" for line in lines}


def main(root, build, path, *options):
    found = read_objects(pathlib.Path(build))
    found = {source: symbols for source, symbols in found.items() if (pathlib.Path(root) / source).is_file()}
    path = pathlib.Path(path)
    before = read_list(path) if path.exists() else {}
    now = [f"{folder}: {' '.join(names)}" for folder, names in circles(depend(found))]
    if "--write" in options:
        head = [line for line in path.read_text().splitlines() if line.startswith("#")] if path.exists() else []
        path.write_text("\n".join(head + [f"{ring}  # {before.get(ring, '')}".rstrip(" #") for ring in now]) + "\n")
    faults = [f"a circle that {path.name} does not have: {ring}" for ring in now if ring not in before]
    faults += [f"{path.name} has a circle that is no more: {ring}" for ring in before if ring not in now]
    files = sum(len(ring.split()) - 1 for ring in now)
    print("\n".join(faults) or f"{len(now)} circles of {files} files among {len(found)}, all of them known")
    return 1 if (faults and "--write" not in options) or len(found) < 100 else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
