"""HTTP/2 byte by byte, for what no client's library would send."""

import struct
import time

from rls import RLS
from server import Client

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
ACK, END_STREAM, END_HEADERS = 1, 1, 4
NO_ERROR, PROTOCOL_ERROR, FRAME_SIZE, CALM = 0, 1, 6, 11
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


def frame(kind, flags=0, stream=0, payload=b""):
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def text(value):
    """A string of HPACK as it is."""
    value = value.encode("latin-1")
    if len(value) < 127:
        return bytes([len(value)]) + value
    rest, length = len(value) - 127, b"\x7f"
    while rest >= 128:
        length += bytes([rest % 128 + 128])
        rest //= 128
    return length + bytes([rest]) + value


def fields(**more):
    """The head of a call. Names with '_' for '-'."""
    every = {":method": "POST", ":scheme": "http", ":path": "/%s/ShouldRateLimit" % RLS, ":authority": "x",
             "content-type": "application/grpc", "te": "trailers"}
    every.update({name.replace("_", "-"): value for name, value in more.items()})
    return b"".join(b"\0" + text(name) + text(value) for name, value in every.items())


def body(message):
    return b"\0" + struct.pack(">I", len(message)) + message


def call(stream, message, **more):
    return frame(HEADERS, END_HEADERS, stream, fields(**more)) + frame(DATA, END_STREAM, stream, body(message))


class Raw(Client):
    """Frames that came stand in self.frames: (kind, flags, stream, payload)."""

    def __init__(self, port, settings=b"", source=None):
        super().__init__(("127.0.0.1", port), source=source)
        self.frames = []
        self.send(PREFACE + frame(SETTINGS, payload=settings))

    def next(self):
        head = self.take(9)
        length = int.from_bytes(head[:3], "big")
        kind, flags, stream = struct.unpack(">BBI", head[3:])
        self.frames.append((kind, flags, stream & 0x7fffffff, self.take(length)))
        return self.frames[-1]

    def until(self, kind, stream=None, flags=0):
        """The first that is like this, of those to come."""
        while True:
            got = self.next()
            if got[0] == kind and stream in (None, got[2]) and got[1] & flags == flags:
                return got

    def settle(self):
        """Both sides know the other's settings."""
        self.until(SETTINGS, flags=ACK)
        self.send(frame(SETTINGS, ACK))

    def goodbye(self):
        """The error of its GOAWAY, when nothing comes behind it."""
        try:
            while True:
                self.next()
        except (EOFError, ConnectionResetError, BrokenPipeError):
            pass
        last = [payload for kind, _, _, payload in self.frames if kind == GOAWAY]
        return int.from_bytes(last[-1][4:8], "big") if last else None

    def flood(self, data):
        """Sends until it is no longer taken; how long it took."""
        began = time.monotonic()
        try:
            self.send(data)
        except OSError:
            pass
        return time.monotonic() - began
