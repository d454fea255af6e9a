"""The tests of frameworks share this: an example that runs as a service, what each must answer, and an outage
of its store."""
import collections
import concurrent.futures
import contextlib
import os
import pathlib
import signal
import re
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "examples"))
from service import free_port, get  # noqa: E402


MORTAL = ["setpriv", "--pdeathsig", "KILL"]  # before a command that must not outlive the test


class Memcached:
    """A memcached of the test's own. It has no file of the test's, so that whatever becomes of it nobody waits for
    the end of its output."""

    def __init__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="weir-memcached-")
        self.path = pathlib.Path(self.folder.name, "socket")
        self.process = None

    def url(self, options):
        return f"memcached+unix://{self.path}?{options}"

    def start(self):
        self.path.unlink(missing_ok=True)
        self.process = subprocess.Popen([*MORTAL, "memcached", "-u", "root", "-s", self.path], stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        end = time.monotonic() + 60
        while not self.path.exists():
            assert self.process.poll() is None and time.monotonic() < end
            time.sleep(0.01)

    def kill(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def __enter__(self):
        self.start()
        return self

    def end(self):
        self.kill()
        self.folder.cleanup()

    def __exit__(self, *_):
        self.end()


class Service:
    """One of the examples, on counts of its own. errors: the file of its stderr, where that is to be read."""

    def __init__(self, name, command, folder, environment, url=None, errors=None):
        self.port = free_port()
        url = url or os.environ["WEIR_TEST_MEMCACHED_META"] + f"&timeout=10s&namespace={name}"
        command = [each.replace("PORT", str(self.port)) for each in command]
        self.errors = errors
        with open(errors, "wb") if errors else contextlib.nullcontext() as file:
            self.process = subprocess.Popen(command, cwd=folder, env={**environment, "WEIR_STORE": url},
                                            stdin=subprocess.DEVNULL, stderr=file)

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
    """The promises of each of the examples."""
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


LOST, BACK = "does not decide", "decides again"


def told_by(service, words):
    """How often each process has said so on stderr, with its number before it."""
    said = pathlib.Path(service.errors).read_text(encoding="utf-8")
    return collections.Counter(int(re.search(r"\d+", line).group()) for line in said.splitlines() if words in line)


def through_an_outage(test, memcached, services, workers):
    """Services of so many workers each, which answer with the number of their process, while their memcached is
    killed and comes back: each request is answered 200, and each worker has one line of the one and of the other."""
    statuses = collections.Counter()

    def ask(service):
        status, fields, body = service.get("/")
        statuses[status] += 1
        test.assertIn("ratelimit", fields)
        return int(body)

    def ask_until(holds):
        end = time.monotonic() + 60
        with concurrent.futures.ThreadPoolExecutor(8) as crowd:
            while True:
                seen = [set(crowd.map(ask, [service] * 16)) for service in services]
                if all(holds(service, pids) for service, pids in zip(services, seen)):
                    return
                test.assertLess(time.monotonic(), end, [pathlib.Path(each.errors).read_text() for each in services])
                time.sleep(0.05)  # a crowd without a pause leaves no processor to those it waits for
    # Some may have begun without their store, where the machine is busy.
    ask_until(lambda service, pids: len(pids) == workers and told_by(service, LOST) == told_by(service, BACK))
    before = {service: told_by(service, LOST) for service in services}

    def new(service, words):
        return told_by(service, words) - before[service]
    memcached.kill()
    ask_until(lambda service, _: len(new(service, LOST)) == workers)
    memcached.start()
    ask_until(lambda service, _: len(new(service, BACK)) == workers)
    test.assertEqual(set(statuses), {200})
    for service in services:
        test.assertEqual(list(new(service, LOST).values()), [1] * workers)
        test.assertEqual(new(service, LOST), new(service, BACK))
