"""What the tests of frameworks share: an example that runs as a service, and what each must answer."""
import os
import pathlib
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "examples"))
from service import free_port, get  # noqa: E402


class Service:
    """One of the examples, on counts of its own."""

    def __init__(self, name, command, folder, environment):
        self.port = free_port()
        url = os.environ["WEIR_TEST_MEMCACHED_META"] + f"&timeout=10s&namespace={name}"
        command = [each.replace("PORT", str(self.port)) for each in command]
        self.process = subprocess.Popen(command, cwd=folder, env={**environment, "WEIR_STORE": url})

    def __enter__(self):
        end = time.monotonic() + 60
        while True:
            try:
                if self.get("/health")[0] == 200:
                    return self
            except OSError:
                assert self.process.poll() is None and time.monotonic() < end
                time.sleep(0.05)

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(60)

    def get(self, path, **fields):
        return get(self.port, path, [(name.replace("_", "-"), value) for name, value in fields.items()])

    def children(self):
        pid = self.process.pid
        return [int(each) for each in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def check(test, service):
    """What each of the examples promises."""
    for number in range(5):
        status, fields, body = service.get("/search", x_user="alice")
        test.assertEqual((status, body), (200, "found\n"))
        test.assertIn("r=%d;" % (4 - number), fields["ratelimit"] + ";")
    status, fields, body = service.get("/search", x_user="alice")
    test.assertEqual(status, 429)
    test.assertRegex(fields["ratelimit-policy"], ";q=5;w=60")
    test.assertGreater(int(fields["retry-after"]), 0)
    test.assertEqual(body, f"Too many requests: again in {fields['retry-after']} s.\n")
    test.assertEqual(service.get("/search", x_user="bob")[0], 200)
    # Without a name it is the address, as the proxy tells it.
    said = [service.get("/search", x_forwarded_for="198.51.100.%d" % (i // 6))[0] for i in range(12)]
    test.assertEqual(said, [200, 200, 200, 200, 200, 429] * 2)
    test.assertEqual(service.get("/search", x_forwarded_for="198.51.100.0, 203.0.113.9")[0], 200)
    # A user that is called as an address is another.
    test.assertEqual(service.get("/search", x_user="198.51.100.0")[0], 200)
    test.assertEqual({service.get("/health")[0] for _ in range(120)}, {200})
    said = [service.get("/", x_forwarded_for="192.0.2.1")[0] for _ in range(102)]
    test.assertEqual(said, [200] * 100 + [429] * 2)
