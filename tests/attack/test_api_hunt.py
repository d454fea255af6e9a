"""Every public function is one that api_hunt calls: a new one cannot be forgotten."""

import pathlib
import re
import subprocess
import sys

DECLARED = re.compile(r"^(?:WEIR_EXPORT\b[^;{]*?|weir_status )\b(weir_\w+)\s*\(", re.MULTILINE)


def main(hunt, include):
    headers = pathlib.Path(include, "weir").glob("*.h")
    declared = {name for header in headers for name in DECLARED.findall(header.read_text())}
    listing = subprocess.run([hunt, "--list"], check=True, capture_output=True, text=True).stdout
    called = set(listing.split())
    for name in sorted(declared - called):
        print(f"{name} is public and api_hunt does not call it: give it a row in tests/attack/api_*.c")
    for name in sorted(called - declared):
        print(f"{name} is called by api_hunt and no installed header declares it")
    print(f"{len(declared)} declared, {len(called)} called")
    return 0 if declared and declared == called else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
