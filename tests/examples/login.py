"""The login by two keys: five for an account, ten from an address, and none of either for a denial.

    with_servers python3 login.py LOGIN
"""

import os
import re
import subprocess
import sys

NAMESPACE = f"login-{os.getpid()}"


def login(store, address, account):
    url = f"{store}{'&' if '?' in store else '?'}namespace={NAMESPACE}&timeout=5s"
    done = subprocess.run([sys.argv[1], url, address, account], capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done
    return done.returncode == 0, done.stdout


for name in ("WEIR_TEST_MEMCACHED_META", "WEIR_TEST_REDIS"):
    store = os.environ[name]
    assert all(login(store, "192.0.2.7", "alice")[0] for _ in range(5))
    for address in ("192.0.2.7", "192.0.2.8", "192.0.2.9"):
        allowed, said = login(store, address, "alice")
        assert not allowed and re.fullmatch(r"too many for alice: wait \d+ s\n", said), said
    # Alice's denials are not charged to the address: five of its ten are left.
    assert all(login(store, "192.0.2.7", f"user{n}")[0] for n in range(5))
    allowed, said = login(store, "192.0.2.7", "bob")
    assert not allowed and said.startswith("too many for 192.0.2.7: wait "), said
    assert login(store, "192.0.2.8", "bob")[0]

wrong = subprocess.run([sys.argv[1]], capture_output=True, text=True, check=False)
assert wrong.returncode == 2 and "usage:" in wrong.stderr, wrong
