"""Keys, arguments and URLs of any bytes: output stays lines of plain text that can be read back, and errors show neither passwords nor
whole keys."""

import base64
import json
import os
import re
import socket
import time
import unittest

from program import NO_DECISION, RULE, ProgramTest, run

SECRET = "hunter2"
HOSTILE = [b"\x1b[2J\x1b]0;owned\x07", b"\x9b2Jc1", b"\xc2\x9b2J", "\u202e\u2028zo\u00eb".encode(), b"\xff\xfe\xc3", b"\\x41", b"\x7f\x08\r!",
           b"a\\", bytes(b for b in range(1, 256) if b not in b"\t\n ")]
PLAIN = [b"alice", b"192.0.2.7", b"2001:db8::1", b"ann@example.com", b"GET:/a?b=c&d={e}%20\"f'", b"~!"]
LINE_MOST = 65536
ERROR_BYTES_MOST = 1024


def trace(keys):
    return b"".join(b"%d %s 1\n" % (i, key) for i, key in enumerate(keys))


def read_back(field):
    return re.sub(rb"\\x([0-9a-f]{2})", lambda match: bytes.fromhex(match[1].decode()), field)


class Output(ProgramTest):
    def output(self, *arguments, stdin=b""):
        result = run(*arguments, stdin=stdin, WEIR_RULE=RULE)
        self.assert_ends(result, 0)
        self.assertEqual(result.stderr, b"")
        self.assertIsNone(re.search(rb"[^\t\n -~]", result.stdout))
        return result.stdout.split(b"\n")[:-1]

    def test_replay_keeps_plain_keys_and_spells_out_the_rest(self):
        lines = [line.split(b"\t") for line in self.output("replay", stdin=trace(PLAIN + HOSTILE))]
        self.assertEqual({len(fields) for fields in lines}, {9})
        self.assertEqual([fields[1] for fields in lines[:len(PLAIN)]], PLAIN)
        self.assertEqual([read_back(fields[1]) for fields in lines], PLAIN + HOSTILE)

    def test_keys_that_differ_are_told_apart(self):
        keys = [b"\xff", b"\\xff", b"\\x5cxff", b"\\", b"\\\\", b"\\x5c"]
        lines = self.output("replay", stdin=trace(keys))
        self.assertEqual(len({line.split(b"\t")[1] for line in lines}), len(keys))

    def test_replay_spells_out_the_longest_key(self):
        key = b"\x9b" * (LINE_MOST - 4)
        [line] = self.output("replay", stdin=trace([key]))
        self.assertEqual(read_back(line.split(b"\t")[1]), key)

    def test_json_is_ascii_and_says_the_same(self):
        for command in ("replay", "simulate"):
            lines = [json.loads(line) for line in self.output(command, "--json", stdin=trace((PLAIN + HOSTILE) * 11))]
            entries = lines[:len(PLAIN + HOSTILE)] if command == "replay" else lines[1]["denied_most"]
            found = {entry["key"].encode() if "key" in entry else base64.b64decode(entry["key_base64"]) for entry in entries}
            self.assertTrue(found and found <= set(PLAIN + HOSTILE), found)
            if command == "replay":
                self.assertEqual(len(found), len(PLAIN + HOSTILE))

    def test_take_and_reset_in_json(self):
        for command in ("take", "reset"):
            for key in HOSTILE:
                [line] = self.output(command, "--json", "--", key)
                answer = json.loads(line)
                self.assertEqual(answer["key"].encode() if "key" in answer else base64.b64decode(answer["key_base64"]), key)

    def test_simulate_in_text(self):
        lines = b"\n".join(self.output("simulate", stdin=trace(HOSTILE[:5] * 11) + b"\x1b\x9b\xc2\x9b 1\n"))
        self.assertIn(rb"\x1b[2J\x1b]0;owned\x07", lines)
        self.assertIn(rb'line 56: TIME_MS "\x1b\x9b\xc2\x9b"', lines)


class Errors(ProgramTest):
    def assert_short(self, result, status, *named):
        self.assert_error(result, status, *named)
        self.assertLess(len(result.stderr), ERROR_BYTES_MOST)

    def test_bad_lines_are_spelled_out_and_cut(self):
        for bad in (b"\x9b\xc2\x9b\x1b k", b"\x1b" * 60000 + b" k", b"1 k 1 " + b"\xe2\x80\xae" * 20000, b"1 " + b"k" * 1_000_000,
                    b"1 k \xff\xff"):
            self.assert_short(run("replay", "--rule", RULE, stdin=bad), 2, "stdin:1: ")
            self.assert_short(run("simulate", "--rule", RULE, stdin=bad), 2, "line 1")

    def test_arguments_are_spelled_out_and_cut(self):
        long = b"\x1b\x9b\xff" * 30000
        for arguments in ([long], ["take", long, "k", "--rule", RULE], ["take", b"--" + long], ["take", "--cost", long], ["take", "--rule", long, "k"],
                          ["take", "--store", long, "--rule", RULE, "k"], ["replay", "--rule", RULE, long], ["help", long],
                          ["take", "--wait", long], ["bench", "--plot", long, "--rule", RULE], ["simulate", "--generate", long, "--rule", RULE],
                          ["take", "--store", "memory:?timeout=" + "z" * 4000, "--rule", RULE, "k"], ["take", b"--json=" + long]):
            self.assert_short(run(*arguments), 2)

    def test_a_key_in_the_store_is_named_by_its_beginning(self):
        url = os.environ["WEIR_TEST_MEMCACHED_META"]
        host, port = re.match(r"memcached://([^:]+):([0-9]+)", url).groups()
        key = "token-" + "0123456789abcdef" * 4
        day = int(time.time()) // 86400
        with socket.create_connection((host, int(port))) as server:
            for index in (day, day + 1):  # it may be about midnight
                server.sendall(b"set weir:fw-86400000:{%s}:%d 0 60 4\r\n\x1b[2J\r\n" % (key.encode(), index))
                self.assertEqual(server.recv(100), b"STORED\r\n")
        result = run("peek", "--store", url, "--deadline", "30s", "--rule", "fixed-window:5/1d", key)
        self.assert_short(result, NO_DECISION, 'key "weir:fw-86400000:{token-0123456789...}:', "not an integer")


class Passwords(ProgramTest):
    """A store URL that is malformed, or stands where something else belongs."""

    def urls(self):
        for scheme in ("redis", "rediss", "redis+unix", "memcached", "memory", "nope"):
            for form in ("{}://:{}@", "{}://:{}@h:x", "{}://ann:{}@h:99999", "{}://ann:{}", "{}:/:{}@h", "{}:ann:{}@h", "{}//ann:{}@h",
                         "{}://ann@:{}@h/x/y", "{}://ann:{}@@h:", "{}://ann:{}/@h", "{}://ann:{}?@h", "{}://ann:{}%zz@h", "{}://[ann:{}]@h]",
                         "{}://ann:{}@h?{}", "{}://ann:{}@h,:@", "{}@ann:{}", "@{}:{}", "{}://h:1?x=@{}", "{}://h:1/{}", "{}://ann:{}\x1b@h",
                         "{}://ann:{} @h", "{}://ann:{}\udcff@h"):
                yield form.format(scheme, SECRET, SECRET)
        yield from (f"ann:{SECRET}@h", f":{SECRET}@h", f"{SECRET}@redis://h", f"redis:{SECRET}", f"redis//:{SECRET}@h")

    def assert_hidden(self, *arguments, **variables):
        result = run(*arguments, **variables)
        self.assertIn(result.returncode, (2, 3), (arguments, result.stdout))
        self.assertNotIn(SECRET.encode(), result.stdout + result.stderr, arguments)

    def test_as_the_store(self):
        for url in self.urls():
            self.assert_hidden("take", "--store", url, "--rule", RULE, "--deadline", "1ms", "k")

    def test_as_anything_else(self):
        for url in (f"redis://:{SECRET}@h", f"redis://ann:{SECRET}", f"ann:{SECRET}@h", f"redis:/{SECRET}@h", f"redis//:{SECRET}@h",
                    "redis://:" + "x" * 90 + SECRET + "@h"):
            for arguments in ([url], [f"--{url}"], ["take", "k", url], ["take", f"--{url}", "k"], ["take", f"--json={url}", "k"],
                              ["take", "--cost", url, "k"], ["take", "--wait", url, "k"], ["take", "--deadline", url, "k"],
                              ["take", "--processes", url, "k"], ["refund", "--at", url, "k"], ["take", "--rule", url, "k"],
                              ["replay", url], ["simulate", url], ["simulate", "--generate", url], ["simulate", "--format", url],
                              ["simulate", "--key", url], ["simulate", "--plot", url, "/dev/null"], ["simulate", "--rule", url, "--attack"],
                              ["bench", "--plot", url], ["bench", "--duration", url], ["bench", url], ["doctor", url], ["help", url]):
                self.assert_hidden(*arguments, WEIR_RULE=RULE)
            self.assert_hidden("take", "k", WEIR_RULE=url)


if __name__ == "__main__":
    unittest.main()
