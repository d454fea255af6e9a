"""Compares what the shared library exports with what the installed headers declare."""

import pathlib
import re
import subprocess
import sys

DECLARED = re.compile(r"^WEIR_EXPORT\b[^;{]*?\b(\w+)\s*\(", re.MULTILINE)


def main(nm, library, include):
    headers = pathlib.Path(include, "weir").glob("*.h")
    declared = {name for header in headers for name in DECLARED.findall(header.read_text())}
    listing = subprocess.run(
        [nm, "-D", "--defined-only", library], check=True, capture_output=True, text=True
    ).stdout
    exported = {line.split()[-1] for line in listing.splitlines()}
    for name in sorted(exported - declared):
        print(f"{name} is exported and no installed header declares it")
    for name in sorted(declared - exported):
        print(f"{name} is declared WEIR_EXPORT and the library does not export it")
    print(f"{len(declared)} declared, {len(exported)} exported")
    return 0 if declared and declared == exported else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
