"""Settles the same costs on every store: each is charged alike, and told what was cut."""
import os
import subprocess
import sys

LINES = "alice 400 380\nalice 400 900\nalice 10 10\nbob 400 0\nbob 1000 1000\n"
EXPECTED = ["alice: charged 380, cut 0", "alice: charged 820, cut 80", "alice: denied, 0 left",
            "bob: charged 0, cut 0", "bob: charged 1000, cut 0"]


def main():
    stores = [url for name, url in sorted(os.environ.items()) if name.startswith("WEIR_TEST_")]
    assert len(stores) >= 5, stores
    for url in ["memory:"] + stores:
        url += ("&" if "?" in url else "?") + "namespace=settle&timeout=30s" if url != "memory:" else ""
        run = subprocess.run([sys.argv[1], url, "fixed-window:1000/400d,debt=200"], text=True, timeout=60,
                             input=LINES, stdout=subprocess.PIPE, check=True)
        assert run.stdout.splitlines() == EXPECTED, f"{url}\n{run.stdout}"
    print(f"{len(stores) + 1} stores, charged alike")


main()
