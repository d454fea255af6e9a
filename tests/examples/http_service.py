"""Drives the small HTTP service: 429 and its fields, clients behind proxies, metrics, the log."""
import os
import pathlib
import subprocess
import sys

from service import get, running


def codes(port, times, *headers):
    return [get(port, "/", headers)[0] for _ in range(times)]


def forwarded(address):
    return "X-Forwarded-For", address


def check(program, url, namespace):
    url += ("&" if "?" in url else "?") + f"namespace={namespace}&timeout=30s"
    with running(program, url, "fixed-window:3/400d", "127.0.0.0/8", ready="/metrics") as (port, process):
        client = forwarded("192.0.2.7")
        status, fields, _ = get(port, "/", [client])
        assert status == 200 and fields["ratelimit"].startswith('"api";r=2;t='), fields
        assert fields["ratelimit-policy"] == '"api";q=3;w=34560000', fields
        assert codes(port, 3, client) == [200, 200, 429]
        status, fields, _ = get(port, "/", [client])
        assert status == 429 and int(fields["retry-after"]) > 0, fields
        # A client does not become another one by what it writes itself, in one field or in two.
        assert codes(port, 1, forwarded("198.51.100.1, 192.0.2.7")) == [429]
        assert codes(port, 1, forwarded("198.51.100.2"), client) == [429]
        # IPv6 counts by /64.
        assert codes(port, 2, forwarded("2001:db8::1")) == [200, 200]
        assert codes(port, 2, forwarded("2001:db8::ffff:2")) == [200, 429]
        assert codes(port, 1, forwarded("2001:db8:0:1::1")) == [200]
        page = get(port, "/metrics")[2]
        assert 'weir_decisions_total{limiter="api",result="denied"} 5\n' in page, page
        assert 'weir_decisions_total{limiter="api",result="allowed"} 7\n' in page, page
        assert "192.0.2.7" not in page and "2001:db8" not in page
    assert process.out.count(" 429 ") == 5, process.out
    assert "2001:db8::/64 / 200" in process.out, process.out


def main():
    program, source = sys.argv[1:]
    lines = len(pathlib.Path(source).read_text(encoding="ascii").splitlines())
    assert lines < 150, lines
    for number, name in enumerate(["WEIR_TEST_MEMCACHED_META", "WEIR_TEST_REDIS"]):
        check(program, os.environ[name], f"service{number}")
    wrong = subprocess.run([program, "127.0.0.1:1", "memory:", "slow:1/1s", ""], capture_output=True, text=True,
                           check=False)
    assert wrong.returncode == 2 and "slow" in wrong.stderr, wrong
    print(f"{lines} lines")


main()
