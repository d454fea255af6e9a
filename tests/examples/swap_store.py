"""Sends one running program through every store, and expects each to decide alike."""
import os
import subprocess
import sys

PER_STORE = ["alice: allowed, 1 left", "alice: allowed, 0 left", "alice: denied, 0 left", "bob: allowed, 1 left"]


def with_option(url, option):
    return url + ("&" if "?" in url else "?") + option


def main():
    stores = [url for name, url in sorted(os.environ.items()) if name.startswith("WEIR_TEST_")]
    assert len(stores) >= 5, stores
    lines, expected = [], []
    for index, url in enumerate(stores):
        lines += ["store " + with_option(url, f"namespace=swap{index}&timeout=30s")]
        lines += ["alice", "alice", "alice", "bob"]
        expected += ["store changed"] + PER_STORE
    lines += ["store nowhere:", "bob"]
    run = subprocess.run([sys.argv[1], "memory:", "fixed-window:2/400d"], text=True, timeout=200,
                         input="\n".join(lines) + "\n", stdout=subprocess.PIPE, check=True)
    shown = run.stdout.splitlines()
    assert shown[:len(expected)] == expected, "\n".join(shown)
    assert shown[-2].startswith("store not changed: ") and "nowhere" in shown[-2], shown[-2]
    assert shown[-1] == "bob: allowed, 0 left", shown[-1]  # the last store still serves
    print(f"{len(stores)} stores, one program")


main()
