"""RESP as clients speak it."""

import subprocess
import threading
import time
import unittest

from recipe import replace
from server import BASE, Server, await_that, command

# One with places, and a group.
MORE = """  jobs: {store: main, rule: "in-flight:2/2m"}
  second: {store: main, rule: "quota:3/1d", tiers: {free: unlimited}, overrides: {"bot-*": free}}
groups:
  both: [listed, second]
throttle:"""


class Resp(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server(replace(BASE, ("throttle:", MORE)) + "loops: 2\n")

    @classmethod
    def tearDownClass(cls):
        cls.server.end()

    def setUp(self):
        self.client = self.server.connect()
        self.addCleanup(self.client.close)

    def ask(self, *words):
        return self.client.ask(*words)

    def test_what_redis_cell_publishes(self):
        self.assertEqual(self.ask("CL.THROTTLE", "cell", 15, 30, 60), [0, 16, 15, -1, 2])
        for left in range(14, -1, -1):
            self.assertEqual(self.ask("cl.throttle", "cell", 15, 30, 60, 1)[:4], [0, 16, left, -1])
        limited, limit, remaining, retry, reset = self.ask("CL.THROTTLE", "cell", 15, 30, 60)
        self.assertEqual((limited, limit, remaining), (1, 16, 0))
        self.assertIn(retry, (1, 2))
        self.assertIn(reset, range(28, 33))

    def test_a_full_bucket_s_reset_is_in_whole_seconds(self):
        """Also where a token takes no whole number of microseconds."""
        for burst, count, period, seconds in ((2, 3, 2, 2), (98, 3, 1, 33), (998, 999, 10, 10), (998, 999, 3600, 3600),
                                              (6, 7, 60, 60), (15, 30, 60, 32), (0, 1000, 1, 1)):
            key = "full%d/%d" % (count, period)
            told = self.ask("CL.THROTTLE", key, burst, count, period, burst + 1)
            self.assertEqual((told[:2], told[3:]), ([0, burst + 1], [-1, seconds]), key)
            denied = self.ask("CL.THROTTLE", key, burst, count, period, burst + 1)
            if denied[0] == 1:
                self.assertLessEqual(denied[3], seconds, key)
                self.assertLess(0, denied[3], key)

    def test_a_quantity_of_none_looks(self):
        self.assertEqual(self.ask("CL.THROTTLE", "look", 1, 1, 86400, 0)[:4], [0, 2, 2, -1])
        self.ask("CL.THROTTLE", "look", 1, 1, 86400, 2)
        self.assertEqual(self.ask("CL.THROTTLE", "look", 1, 1, 86400, 0)[:4], [0, 2, 0, -1])

    def test_what_never_fits_is_limited_for_ever(self):
        self.assertEqual(self.ask("CL.THROTTLE", "never", 15, 30, 60, 17), [1, 16, 16, -1, 0])

    def test_a_key_goes_on_where_its_period_is_the_same(self):
        """A time is kept, as by redis-cell: five that come in a day each take five days."""
        self.assertEqual(self.ask("CL.THROTTLE", "more", 9, 1, 86400, 5)[:3], [0, 10, 5])
        self.assertEqual(self.ask("CL.THROTTLE", "more", 19, 1, 86400, 0)[:3], [0, 20, 15])
        self.assertEqual(self.ask("CL.THROTTLE", "more", 9, 7, 86400, 0)[:3], [0, 10, 0])
        self.assertEqual(self.ask("CL.THROTTLE", "more", 9, 1, 43200, 0)[:3], [0, 10, 10])

    def test_figures_that_are_none(self):
        zero = "-ERR Zero rates are not supported"
        self.assertEqual(self.ask("CL.THROTTLE", "k", 15, 0, 60), zero)
        self.assertEqual(self.ask("CL.THROTTLE", "k", 15, 30, 0), zero)
        for words in (["-1", 30, 60], [15, -1, 60], [15, 30, -1], [15, 30, 60, -1], ["x", 30, 60],
                      [15, 30, 60, 2147483649], ["9" * 30, 1, 1], [15, "", 60]):
            self.assertRegex(self.ask("CL.THROTTLE", "k", *words), "^-ERR ", words)
        self.assertRegex(self.ask("CL.THROTTLE", "k", 15, 30), "wrong number of arguments")
        self.assertRegex(self.ask("CL.THROTTLE", "", 15, 30, 60), "key")

    def test_each_request_has_its_own_figures(self):
        """Also where one has as many bytes as that before, or nearly the same."""
        # max_burst, count, period: limited, limit and remaining of a bucket's first request; None: refused.
        asked = [((15, 30, 86400), 16), ((25, 30, 86400), 26), ((15, 30, 86400), 16), ((15, 30, 86400, 2), 16),
                 ((1, 30, 86400), 2), ((1, "x0", 86400), None), ((1, 30, 86400), 2), ((15, "30\r\n$5\r\n86400"), None),
                 ((15, 30, 86400), 16), ((15, 30, "0" * 13 + "86400"), 16), ((16, 30, "0" * 13 + "86400"), 17)]
        for i, (figures, limit) in enumerate(asked):
            answer = self.ask("CL.THROTTLE", f"own{i}", *figures)
            cost = figures[3] if len(figures) == 4 else 1
            if limit is None:
                self.assertRegex(answer, "^-ERR ", figures)
            else:
                self.assertEqual(answer[:3], [0, limit, limit - cost], figures)
        self.assertEqual(self.ask("THROTTLE", "own", 16, 30, "0" * 13 + "86400")[:3], [1, 16, 15])

    def test_bounds_of_figures(self):
        """As docs/serve.md says that they differ from redis-cell's."""
        for words in ((999999999, 10**9, 1), (0, 1, 34560000), (34559999, 1, 1), (0, 10**9, 1), (1, 1, 1, 2147483648)):
            self.assertIsInstance(self.ask("CL.THROTTLE", "bound", *words), list, words)
        for words in ((10**9, 10**9, 1), (34560000, 1, 1), (0, 1, 34560001), (0, 10**9 + 1, 1), (1, 1, 1, 2147483649),
                      ("+5", 1, 1), (5, "+1", 1), (5, 1, 1, "+1"), (1, 1, 34560000)):
            self.assertRegex(self.ask("CL.THROTTLE", "bound", *words), "^-ERR ", words)

    def test_what_throttlecrab_answers(self):
        self.assertEqual(self.ask("THROTTLE", "crab", 2, 1, 86400)[:3], [1, 2, 1])
        self.assertEqual(self.ask("THROTTLE", "crab", 2, 1, 86400)[::4], [1, 0])
        allowed, limit, remaining, reset, retry = self.ask("THROTTLE", "crab", 2, 1, 86400)
        self.assertEqual((allowed, limit, remaining), (0, 2, 0))
        self.assertLess(86000, retry)
        self.assertLess(retry, reset)

    def fields(self, *words):
        flat = self.ask(*words)
        self.assertIsInstance(flat, list, flat)
        return dict(zip(flat[::2], flat[1::2]))

    def test_named_limiters(self):
        for left in (2, 1, 0):
            self.assertEqual(self.fields("WEIR.TAKE", "api", "bob")["remaining"], left)
        denied = self.fields("WEIR.TAKE", "api", "bob")
        self.assertEqual((denied["allowed"], denied["limit"]), (0, 3))
        self.assertLess(0, denied["retry_after_us"])
        self.assertEqual(self.fields("WEIR.PEEK", "api", "bob")["allowed"], 0)
        self.assertEqual(self.ask("WEIR.RESET", "api", "bob"), "+OK")
        self.assertEqual(self.fields("WEIR.TAKE", "api", "bob", "COST", 5, "UPTO")["cost"], 3)
        self.assertEqual(self.fields("WEIR.TAKE", "api", "bob2", "cost", 4)["retry_after_us"], -1)

    def test_tiers_lists_and_shadow(self):
        self.assertEqual(self.fields("WEIR.TAKE", "listed", "alice")["limit"], 5)
        self.assertEqual(self.fields("WEIR.TAKE", "listed", "mallory")["limit"], 3)
        self.assertEqual(self.fields("WEIR.TAKE", "listed", "eve")["allowed"], 0)
        free = self.fields("WEIR.TAKE", "listed", "bot-7", "COST", 2147483648)
        self.assertEqual((free["allowed"], free["remaining"]), (1, -1))
        before = self.server.metric("weir_serve_shadow_denied_total")
        self.assertEqual([self.fields("WEIR.TAKE", "watched", "x")["allowed"] for _ in "123"],
                         [1, 1, 1])
        self.assertEqual(self.server.metric("weir_serve_shadow_denied_total") - before, 2)

    def test_limiters_keep_apart(self):
        self.fields("WEIR.TAKE", "api", "same", "COST", 3)
        self.assertEqual(self.fields("WEIR.TAKE", "listed", "same")["remaining"], 2)

    def test_an_unknown_command_is_named(self):
        for name, told in (("WATCH", "WATCH"), ("get", "get"), ("x" * 99, "x" * 64), ("a\r\nb\xff", "a??b?"), ("", "")):
            self.assertEqual(self.ask(name, "secret"), "-ERR unknown command '%s'" % told)

    def test_a_transaction_is_discarded_and_charges_nothing(self):
        """Clients send all of one at once, many of them unasked, and read later that there is none."""
        take = command("WEIR.TAKE", "api", "transaction")
        for _ in range(2):
            self.client.send(command("MULTI") + take * 3 + command("CL.THROTTLE", "transaction", 9, 1, 60) + command("EXEC"))
            self.assertEqual([self.client.reply() for _ in range(5)], ["+OK"] + ["+QUEUED"] * 4)
            self.assertRegex(self.client.reply(), "^-EXECABORT Transaction discarded")
        self.client.send(command("multi") + take + command("MULTI") + command("NO") + take + command("DISCARD") + command("PING"))
        self.assertEqual([self.client.reply() for _ in range(7)],
                         ["+OK", "+QUEUED", "-ERR MULTI calls can not be nested", "-ERR unknown command 'NO'", "+QUEUED", "+OK", "+PONG"])
        self.client.send(command("MULTI") + take + command("RESET") + command("PING") + command("EXEC") + command("DISCARD"))
        self.assertEqual([self.client.reply() for _ in range(6)],
                         ["+OK", "+QUEUED", "+RESET", "+PONG", "-ERR EXEC without MULTI", "-ERR DISCARD without MULTI"])
        self.assertEqual(self.fields("WEIR.PEEK", "api", "transaction")["remaining"], 3)
        self.assertEqual(self.ask("CL.THROTTLE", "transaction", 9, 1, 60)[2], 9)

    def test_info_says_its_role(self):
        """Some clients look for a primary."""
        for words in ([], ["REPLICATION"]):
            self.assertIn("\r\nrole:master\r\n", self.ask("INFO", *words))

    def test_what_cannot_be_asked(self):
        self.assertRegex(self.ask("WEIR.TAKE", "nobody", "k"), "^-ERR there is no limiter .*: nobody$")
        for cost in (0, -1, 2147483649, "x", ""):
            self.assertRegex(self.ask("WEIR.TAKE", "api", "k", "COST", cost), "^-ERR COST")
        self.assertRegex(self.ask("WEIR.TAKE", "api", ""), "^-ERR the key has 0 bytes")
        self.assertRegex(self.ask("WEIR.TAKE", "api", "k" * 4097), "^-ERR the key has 4097 bytes")
        self.assertIsInstance(self.ask("WEIR.TAKE", "api", "k" * 4096), list)
        self.assertRegex(self.ask("WEIR.TAKE", "api", "k", "SOON"), "^-ERR")
        self.assertRegex(self.ask("GET", "k"), "^-ERR unknown command")

    def test_any_byte_may_be_in_a_key(self):
        key = bytes(range(256))
        self.assertEqual(self.fields("WEIR.TAKE", "api", key)["remaining"], 2)
        self.assertEqual(self.fields("WEIR.TAKE", "api", key)["remaining"], 1)

    def test_what_clients_say_first(self):
        self.assertEqual(self.ask("PING"), "+PONG")
        self.assertEqual(self.ask("ping", "hi"), "hi")
        self.assertEqual(self.ask("ECHO", "\0\r\n"), "\0\r\n")
        for version in ("1", "4", "03", "x", ""):
            self.assertEqual(self.ask("HELLO", version), "-NOPROTO unsupported protocol version: 2 and 3 are accepted")
        hello = self.ask("HELLO", 2, "SETNAME", "me")
        self.assertEqual(hello[hello.index("proto") + 1], 2)
        self.assertEqual(self.ask("CLIENT", "GETNAME"), "me")
        self.assertEqual(self.ask("CLIENT", "SETNAME", "other"), "+OK")
        self.assertEqual(self.ask("CLIENT", "SETINFO", "LIB-NAME", "x"), "+OK")
        self.assertEqual(self.ask("CLIENT", "GETNAME"), "other")
        self.assertIsInstance(self.ask("CLIENT", "ID"), int)
        self.assertRegex(self.ask("CLIENT", "KILL"), "^-ERR")
        self.assertEqual(self.ask("SELECT", 0), "+OK")
        self.assertRegex(self.ask("SELECT", 1), "^-ERR")
        self.assertEqual(self.ask("COMMAND"), [])
        self.assertIn("weir_version", self.ask("INFO"))
        self.assertRegex(self.ask("AUTH", "x"), "^-ERR AUTH is not needed")
        self.client.send("\r\n*0\r\n*-1\r\nPING  inline \r\n")
        self.assertEqual(self.client.reply(), "inline")
        self.assertEqual(self.ask("QUIT"), "+OK")
        self.assertEqual(self.client.rest(), b"")

    def test_each_that_clients_ask_at_first_has_one_answer(self):
        for words, told in ((["CLIENT", "NO-EVICT", "ON"], r"\+OK"), (["client", "no-evict", "off"], r"\+OK"),
                            (["CLIENT", "NO-EVICT", "x"], "-ERR CLIENT: .*NO-EVICT ON or OFF"),
                            (["CLIENT", "TRACKING", "ON"], "-ERR CLIENT TRACKING: no key has a value"),
                            (["CLUSTER", "SLOTS"], "-ERR This instance has cluster support disabled"),
                            (["RESET"], r"\+RESET"), (["RESET", 1], "-ERR wrong number of arguments")):
            self.assertRegex(self.ask(*words), "^" + told, words)

    def test_a_reset_connection_is_as_at_its_start(self):
        self.ask("HELLO", 3, "SETNAME", "me")
        number = self.ask("CLIENT", "ID")
        self.assertEqual(self.ask("RESET"), "+RESET")
        self.assertEqual((self.ask("CLIENT", "GETNAME"), self.ask("CLIENT", "ID")), ("", number))
        self.assertIsInstance(self.ask("WEIR.PEEK", "api", "k"), list)

    def left_place(self, key):
        place = self.fields("WEIR.ACQUIRE", "jobs", key)["place"]
        self.assertEqual(self.fields("WEIR.RELEASE", "jobs", key, place)["held"], 1)
        return place

    def told(self, *words):
        """The bytes of one answer: PING behind it tells where it ends."""
        self.client.send(command(*words) + command("PING", "end of it"))
        told = b""
        while not told.endswith(b"$9\r\nend of it\r\n"):
            told += self.client.take(1)
        return told[:-len(b"$9\r\nend of it\r\n")]

    def test_bytes_of_resp3(self):
        """A map has the bytes of RESP2's names and values, with its own head. All else is the same."""
        place = self.left_place("3")
        for words, pairs in ((["WEIR.PEEK", "api", "3"], 9), (["WEIR.TAKE", "listed", "bot-3"], 10),
                             (["WEIR.SETTLE", "listed", "bot-3", 2, 1], 10), (["WEIR.REFUND", "listed", "bot-3", 1], 10),
                             (["WEIR.ACQUIRE", "jobs", "3", "COST", 9], 13), (["WEIR.TAKE", "both", "bot-3", "bot-4"], 11),
                             (["WEIR.PEEK", "both", "bot-3", "bot-4"], 10), (["WEIR.HELD", "jobs", "3", place], 3)):
            self.ask("HELLO", 2)
            flat = self.told(*words)
            self.assertTrue(flat.startswith(b"*%d\r\n" % (2 * pairs)), (words, flat))
            self.ask("HELLO", 3)
            self.assertEqual(self.told(*words), flat.replace(b"*%d\r\n" % (2 * pairs), b"%%%d\r\n" % pairs, 1), words)
        place = self.ask("WEIR.ACQUIRE", "jobs", "3")["place"]
        self.assertEqual(self.told("WEIR.RELEASE", "jobs", "3", place),
                         b"%2\r\n$4\r\nheld\r\n:1\r\n$5\r\nstore\r\n$2\r\nOK\r\n")
        self.assertEqual(self.told("CL.THROTTLE", "3", 15, 30, 60, 17), b"*5\r\n:1\r\n:16\r\n:16\r\n:-1\r\n:0\r\n")
        self.assertEqual(self.told("THROTTLE", "3", 15, 30, 60, 16), b"*5\r\n:0\r\n:15\r\n:15\r\n:0\r\n:-1\r\n")
        self.assertEqual(self.told("WEIR.RESET", "api", "3"), b"+OK\r\n")
        self.assertRegex(self.told("WEIR.TAKE", "nobody", "k"), rb"^-ERR there is no limiter")
        self.assertEqual(self.told("COMMAND"), b"*0\r\n")
        self.assertEqual(self.told("ECHO", "x"), b"$1\r\nx\r\n")
        self.assertRegex(self.told("CLIENT", "ID"), rb"^:\d+\r\n$")
        self.assertRegex(self.told("INFO"), rb"^\$\d+\r\n# Server")

    def test_hello(self):
        pattern = (rb"^%s\r\n\$6\r\nserver\r\n\$4\r\nweir\r\n\$7\r\nversion\r\n\$\d+\r\n[^\r]+\r\n\$5\r\nproto\r\n:%d\r\n"
                   rb"\$2\r\nid\r\n:\d+\r\n\$4\r\nmode\r\n\$10\r\nstandalone\r\n\$4\r\nrole\r\n\$6\r\nmaster\r\n"
                   rb"\$7\r\nmodules\r\n\*0\r\n$")
        for words, head, proto in (([], rb"\*14", 2), ([3], rb"%7", 3), ([], rb"%7", 3), ([2], rb"\*14", 2),
                                   (["3", "SETNAME", "me"], rb"%7", 3)):
            self.assertRegex(self.told("HELLO", *words), pattern % (head, proto), words)
        self.assertEqual(self.ask("CLIENT", "GETNAME"), "me")

    def test_what_hello_refuses_changes_no_version(self):
        for version, kind in ((2, list), (3, dict)):
            self.ask("HELLO", version)
            for words in (["4"], [5 - version, "SETNAME", "a b"], [5 - version, "SOON"], [5 - version, "AUTH", "x"]):
                self.assertRegex(self.ask("HELLO", *words), "^-", words)
            self.assertIsInstance(self.ask("WEIR.PEEK", "api", "k"), kind)

    def test_an_answer_is_in_the_version_that_asked(self):
        """Also where the next request of the same packet changes it, before this one is decided."""
        place = self.left_place("v")
        asked = [["WEIR.TAKE", "api", "v"], ["HELLO", 3], ["WEIR.TAKE", "both", "bot-1", "bot-2"], ["HELLO", 2],
                 ["WEIR.TAKE", "both", "bot-1", "bot-2"], ["HELLO", 3], ["WEIR.HELD", "jobs", "v", place], ["RESET"],
                 ["WEIR.PEEK", "api", "v"]]
        self.client.send(b"".join(command(*words) for words in asked))
        self.assertEqual([type(self.client.reply()) for _ in asked], [list, dict, dict, list, list, dict, dict, str, list])

    def test_fragments_at_every_byte(self):
        text = command("ECHO", "a\r\nb") + b"PING x\r\n" + command("CL.THROTTLE", "f", 1, 1, 1, 0)
        for cut in range(1, len(text)):
            self.client.send(text[:cut])
            self.assertEqual(self.ask_behind(text[cut:]), ["a\r\nb", "x", [0, 2, 2, -1, 0]])
        for byte in text:
            self.client.send(bytes([byte]))
        self.assertEqual(self.ask_behind(b""), ["a\r\nb", "x", [0, 2, 2, -1, 0]])

    def ask_behind(self, rest):
        self.client.send(rest)
        return [self.client.reply() for _ in range(3)]

    def test_answers_keep_their_order(self):
        """Far more than a tick takes: each answer at its place, those that are decided as well."""
        count = 100000
        asked = command("CL.THROTTLE", "order", 15, 30, 60, 17)
        sent = b"".join(asked if i % 2 else command("ECHO", i) for i in range(count))
        told = b"*5\r\n:1\r\n:16\r\n:16\r\n:-1\r\n:0\r\n"
        expected = b"".join(told if i % 2 else b"$%d\r\n%d\r\n" % (len(str(i)), i)
                            for i in range(count))
        sender = threading.Thread(target=self.client.send, args=(sent,))
        sender.start()
        self.assertTrue(self.client.take(len(expected)) == expected)
        sender.join()

    def test_a_reset_counts_where_it_stands(self):
        self.client.send(b"".join([command("WEIR.TAKE", "api", "r", "COST", 3),
                                   command("WEIR.TAKE", "api", "r"), command("WEIR.RESET", "api", "r"),
                                   command("WEIR.TAKE", "api", "r")]))
        replies = [self.client.reply() for _ in range(4)]
        self.assertEqual([r[1] if isinstance(r, list) else r for r in replies], [1, 0, "+OK", 1])

    def assert_breaks(self, data, pattern):
        client = self.server.connect()
        client.send(data)
        self.assertRegex(client.rest().decode("latin-1"), pattern)
        client.close()

    def test_a_stream_that_is_lost_ends(self):
        error = r"\A-ERR Protocol error[^\r\n]*\r\n\Z"
        for data in (b"*x\r\n", b"*1\r\n+1\r\n", b"*1\r\n$-1\r\n", b"*1\r\n$1x\r\n", b"*17\r\n",
                     b"*99999999999\r\n", b"*1\r\n$70000\r\n", b"*1\r\n$3\r\nPINGxx", b"*1\r1\r\n",
                     b"*1" + b"1" * 100, b'PING "x"\r\n', b"x" * 70000):
            self.assert_breaks(data, error)
        self.assert_breaks(b"*1\r\n$4\r\nPING\r\n*x\r\n", r"\A\+PONG\r\n-ERR Protocol error")
        self.assert_breaks(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", "this is RESP, not HTTP")
        self.assert_breaks(b"POST / HTTP/1.1\r\n\r\n", "this is RESP, not HTTP")

    def test_half_a_connection_gets_its_answers(self):
        self.client.send(command("PING") * 50)
        self.client.socket.shutdown(1)
        self.assertEqual(self.client.rest(), b"+PONG\r\n" * 50)

    def test_redis_cli(self):
        port = str(self.server.ports["resp"][0])
        told = subprocess.run(["redis-cli", "-p", port, "CL.THROTTLE", "cli", "15", "30", "60"],
                              capture_output=True, timeout=60, check=True).stdout
        self.assertEqual(told.split(), [b"0", b"16", b"15", b"-1", b"2"])


class Alone(unittest.TestCase):
    def test_rules_make_room_for_others(self):
        """None of more than are kept is refused, and what one has counted goes on."""
        with Server(replace(BASE, ("throttle: {", "throttle: {limiters: 4, "))) as server:
            client = server.connect()
            for left in (1, 0):
                self.assertEqual([client.ask("CL.THROTTLE", f"rule{i}", 1, 1, 86400 + i)[:3] for i in range(40)],
                                 [[0, 2, left]] * 40)
            # One that somebody still holds as it makes room is freed a moment later.
            await_that(lambda: server.metric("weir_serve_throttle_limiters") == 4, "limiters that go")
            client.close()

    def test_new_rules_are_not_without_an_end(self):
        """A thousand a second; the machine may need longer than one for what is sent here."""
        with Server(BASE) as server:
            client = server.connect()
            began = time.monotonic()
            client.send(b"".join(command("CL.THROTTLE", "k", 100000 + i, 1, 60, 0) for i in range(3000)))
            told = [client.reply() for _ in range(3000)]
            refused = [one for one in told if isinstance(one, str)]
            self.assertEqual(set(refused) - {
                "-ERR too many different limits: more than 1000 new ones in a second, "
                "as throttle.limiters says that 256 of them are kept"}, set())
            self.assertGreaterEqual(len(refused) + 1000 * (2 + int(time.monotonic() - began)), 3000)
            await_that(lambda: isinstance(client.ask("CL.THROTTLE", "k", 99, 1, 60, 0), list), "the next second")
            client.close()


if __name__ == "__main__":
    unittest.main()
