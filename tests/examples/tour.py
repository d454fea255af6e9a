"""Takes the tour of docs/tour.sh in a terminal, with less time: it ends by itself, shows what it says, and leaves
nothing behind; Ctrl-C ends it."""
import json
import os
import pathlib
import pty
import re
import select
import sys
import tempfile
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]


class Terminal:
    """A shell that takes the tour, in a terminal of its own."""

    def __init__(self, seconds, folder):
        self.text, self.status = "", None
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            os.environ.update(WEIR_TOUR_SECONDS=str(seconds), TMPDIR=folder)
            os.execvp("sh", ["sh", str(ROOT / "docs/tour.sh")])

    def read(self, until, longest):
        """Reads until the text has it, or (until is None) until the end."""
        end = time.monotonic() + longest
        while until is None or not re.search(until, self.text):
            assert time.monotonic() < end, self.text
            if not select.select([self.terminal], [], [], 1)[0]:
                continue
            try:
                got = os.read(self.terminal, 65536)
            except OSError:  # EIO: its last process has gone
                got = b""
            if not got:
                assert until is None, self.text
                self.status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
                return
            self.text += got.decode().replace("\r", "")

    def type(self, text):
        os.write(self.terminal, text)


def whole(folder):
    began = time.monotonic()
    tour = Terminal(12, folder)
    tour.read("/status\n", 60)
    page = re.search(r"http://\S+/status", tour.text).group()
    with urllib.request.urlopen(page, timeout=10) as answer:
        assert "<html" in answer.read().decode().lower()
    tour.read("After 6 seconds", 60)
    end = time.monotonic() + 20
    denied = []
    while "greedy" not in denied: # nothing was, where this machine came late to its first requests
        assert time.monotonic() < end, denied
        with urllib.request.urlopen(page + ".json", timeout=10) as answer:
            denied = json.dumps(json.load(answer)["denied_keys"])
        time.sleep(0.1)
    assert "alice" not in denied, denied
    tour.read(None, 60)
    assert tour.status == 0, (tour.status, tour.text)
    tables = re.findall(r"(alice|bob|greedy) +(\d+) served +(\d+) denied", tour.text)
    assert len(tables) == 12, tour.text
    for name, served, denied in tables:
        assert int(served) > 0 and (name == "greedy" or int(denied) == 0), tour.text
    name, served, denied = tables[-1]
    # 30 in any 10 seconds, and once more where the new memcached has none of the counts.
    most = 30 * (int((time.monotonic() - began) / 10) + 2)
    assert name == "greedy" and int(served) <= most and int(denied) > 0, (most, tour.text)
    assert "weir: denied limiter=api" in tour.text, tour.text
    assert re.search(r'decision="allowed",source="store"} [1-9]', tour.text), tour.text
    assert re.search(r'source="(fallback|late)"} [1-9]', tour.text), tour.text
    assert max(map(len, tour.text.splitlines())) < 140, tour.text


def broken_off(folder):
    tour = Terminal(600, folder)
    tour.read("/status\n", 60)
    tour.type(b"\x03")
    tour.read(None, 30)
    assert tour.status == 130, (tour.status, tour.text)


def refused(folder):
    for seconds in ["7", "601", "soon", "1e2"]:
        tour = Terminal(seconds, folder)
        tour.read(None, 30)
        assert tour.status == 2 and "8 to 600" in tour.text, (tour.status, tour.text)


def main():
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o711)  # the memcached of root is another user
        for part in (refused, broken_off, whole):
            part(folder)
            assert not os.listdir(folder), os.listdir(folder)
    print("looked around")


if __name__ == "__main__":
    sys.exit(main())
