"""weir simulate: what it takes, what it reports, what it refuses."""

import gzip
import json
import os
import pathlib
import pty
import re
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "cli"))

from program import PROGRAM, ProgramTest, environment, run  # noqa: E402

RULE = ("--rule", "fixed-window:2/1m")
LOG_LINE = ('{client} - {user} [10/Oct/2000:13:55:{second:02d} -0700] "GET {path}?a=b HTTP/1.1" 200 5 '
            '"-" "agent"\n')


def log(*lines):
    return "".join(LOG_LINE.format(client=client, user=user, second=second, path=path)
                   for client, user, second, path in lines).encode()


def on_a_terminal(*arguments):
    """The first text of weir on a terminal, which is all it has; it is ended then, as its work is long."""
    reader, writer = pty.openpty()
    with subprocess.Popen([PROGRAM, "simulate", *arguments], stdin=subprocess.DEVNULL, stdout=writer,
                          stderr=writer, env=environment()) as child:
        os.close(writer)
        try:
            return os.read(reader, 4096)
        finally:
            os.close(reader)
            child.kill()


class Progress(ProgramTest):
    SAID = rb"\A\r([0-9]+) lines, [0-9]+ lines/s, ([0-9]+)%, [0-9]+ (s|min) left\x1b\[K"

    def test_a_share_of_all_files_and_the_time_left(self):
        rules = [word for period in range(1, 9) for word in ("--rule", "sliding-window:9/%dm" % period)]
        lines = 1500000
        with tempfile.TemporaryDirectory() as folder:
            for name, opened in (("plain", open), ("packed", gzip.open)):
                with opened(folder + "/" + name, "wb") as file:
                    file.write(b"1764028800000 key\n" * lines)
            for name in ("plain", "packed"):
                with self.subTest(name):
                    said = on_a_terminal(*rules, folder + "/" + name)
                    self.assertRegex(said, self.SAID)
                    read, share = (int(one) for one in re.match(self.SAID, said).groups()[:2])
                    self.assertAlmostEqual(share, 100 * read / lines, delta=25)

    def test_lines_that_are_left_out_count(self):
        with tempfile.TemporaryDirectory() as folder:
            path = folder + "/log"
            with open(path, "wb") as file:  # of many members, which are one text
                file.write(gzip.compress(log(("192.0.2.1", "-", 1, "/other")) * 100000) * 200)
            self.assertRegex(on_a_terminal(*RULE, "--path", "/api", path), self.SAID)

    def test_a_share_of_what_is_made_up(self):
        self.assertRegex(on_a_terminal(*RULE, "--generate", "poisson:requests=20000000"), self.SAID)


class Simulate(ProgramTest):
    def reports(self, *arguments, stdin=b""):
        result = run("simulate", "--json", *arguments, stdin=stdin)
        self.assert_ends(result, 0)
        self.assertEqual(result.stderr, b"")
        return [json.loads(line) for line in result.stdout.splitlines()]

    # --- leases

    def test_a_lease_changes_what_a_bucket_holds_and_nothing_else(self):
        made_up = ("--generate", "bursts:requests=3000,keys=3")
        for leasing, plain in (("token-bucket:40/10s,burst=60,lease=1s", "token-bucket:40/10s,burst=56"),
                               ("sliding-window:40/10s,lease=1s", "sliding-window:40/10s")):
            with self.subTest(leasing):
                found = self.reports("--rule", leasing, "--rule", plain, *made_up)[1:]
                self.assertEqual(found[0].pop("rule"), leasing)
                self.assertEqual(found[1].pop("rule"), plain)
                self.assertEqual(found[0], found[1])
                self.assertLess(found[0]["cost_allowed"], found[0]["cost"])

    # --- costs known afterwards

    def real_reports(self, rules, lines, *more):
        log = b"".join(json.dumps({"time": time, "client": key, "estimate": estimate, "real": real}).encode() + b"\n"
                       for time, key, estimate, real in lines)
        rules = [word for rule in rules for word in ("--rule", rule)]
        return self.reports("--format", "json", "--cost", "estimate", "--real", "real", *rules, *more, stdin=log)[1:]

    def test_what_was_estimated_is_settled_when_time_goes_on(self):
        begin = 1764028800
        lines = [(begin, "a", 50, 20), (begin, "a", 50, 90), (begin, "a", 50, 5),  # under way at once: two fit
                 (begin + 1, "a", 10, 10), (begin + 2, "a", 1, 1), (begin + 2, "b", 60, 0)]
        plain, deep = self.real_reports(("fixed-window:100/1h", "fixed-window:100/1h,debt=50"), lines)
        self.assertEqual(plain["real_cost"], 126)
        # Settled: -30 and up to 110, of which 10 have no room without a debt; behind it nothing more.
        self.assertEqual((plain["settled"], plain["settled_cut"]), ({"cost": 110, "most": 110, "most_limit": 100}, 10))
        self.assertEqual((deep["settled"], deep["settled_cut"]), ({"cost": 110, "most": 110, "most_limit": 100}, 0))
        # Looked at first: all three of the first second, and nothing of the key behind them.
        for rule in (plain, deep):
            self.assertEqual(rule["looked_first"], {"cost": 115, "most": 115, "most_limit": 100})

    def test_estimates_that_are_right_spend_what_they_take(self):
        lines = [(1764028800 + i, "k%d" % (i % 3), 1 + i % 7, 1 + i % 7) for i in range(500)]
        rules = ("sliding-window:40/1m", "fixed-window:40/1m", "quota:40/1m", "token-bucket:40/1m", "sliding-window:40/1m;fixed-window:9/2s")
        for rule in self.real_reports(rules, lines):
            self.assertEqual(rule["settled"]["cost"], rule["cost_allowed"], rule["rule"])
            self.assertEqual(rule["settled_cut"], 0)
            self.assertLess(rule["looked_first"]["cost"], rule["real_cost"])

    def test_what_has_no_real_cost(self):
        line = json.dumps({"time": 1764028800, "client": "a", "real": "x"}).encode() + b"\n"
        source = self.reports("--rule", "quota:5/1d", "--format", "json", "--real", "real", stdin=line + line.replace(b'"x"', b"3"))[0]
        self.assertEqual((source["requests"], source["malformed"]), (1, 1))
        self.assertIn("what --real names is no whole number", source["malformed_first"][0]["reason"])
        for arguments, says in ((("--rule", "sliding-log:5/1m"), b"--real: a sliding-log cannot be settled"),
                                (("--rule", "leaky-bucket:5/1m"), b"--real: a leaky-bucket cannot be settled"),
                                (("--rule", "quota:5/1d", "--generate", "uniform"), b"--real is for logs"),
                                (("--rule", "quota:5/1d", "--attack"), b"--real is for logs"),
                                (("--rule", "quota:5/1d", "--recommend", "0.1%"), b"--real is for logs")):
            result = run("simulate", "--real", "bytes", *arguments, stdin=line)
            self.assertEqual(result.returncode, 2, arguments)
            self.assertIn(says, result.stderr)
        table = run("simulate", "--rule", "quota:5/1d", "--format", "json", "--real", "real", stdin=line.replace(b'"x"', b"3"))
        self.assertIn(b"of 3 that all requests cost in truth", table.stdout)

    # --- input

    def test_a_trace_from_stdin(self):
        source, rule = self.reports(*RULE, stdin=b"1000 a\n2000 a\n3000 a 2\n60000 a\n")
        self.assertEqual((source["requests"], source["malformed"]), (4, 0))
        self.assertEqual((source["first_us"], source["last_us"]), (1000000, 60000000))
        self.assertEqual((rule["allowed"], rule["cost"], rule["cost_allowed"]), (3, 5, 3))
        self.assertEqual((rule["wrongly_allowed"], rule["wrongly_denied"]), (1, 0))
        self.assertEqual(rule["most_admitted"], 3)

    def test_gzip_is_read_as_it_is(self):
        with tempfile.NamedTemporaryFile(suffix=".gz") as packed:
            packed.write(gzip.compress(b"1000 a\n2000 b\n"))
            packed.flush()
            self.assertEqual(self.reports(*RULE, packed.name)[0]["requests"], 2)

    def test_malformed_lines_are_counted_and_the_first_are_named(self):
        lines = [b"1000 a", b"", b"2000", b"x y", b"3000 a", b"9 9 9 9", b"4 k -1", b"5 k 0", b"4000 a"]
        source, rule = self.reports(*RULE, stdin=b"\n".join(lines) + b"\n")
        self.assertEqual((source["requests"], source["malformed"]), (3, 6))
        self.assertEqual([line["line"] for line in source["malformed_first"]], [2, 3, 4, 6, 7])
        self.assertIn("blank line", source["malformed_first"][0]["reason"])
        self.assertEqual(rule["requests"], 3)
        text = run("simulate", *RULE, stdin=b"\n".join(lines)).stdout.decode()
        self.assertIn("malformed lines: 6", text)
        self.assertIn("line 4: TIME_MS \"x\"", text)

    def test_a_line_that_is_too_long_is_malformed_and_left_behind(self):
        long = b"1000 " + b"k" * 200000
        source, _ = self.reports(*RULE, stdin=b"1000 a\n" + long + b"\n2000 a\n" + long)
        self.assertEqual((source["requests"], source["malformed"]), (2, 2))
        self.assertEqual([line["line"] for line in source["malformed_first"]], [2, 4])

    def test_damaged_gzip_is_an_error_not_an_end(self):
        packed = gzip.compress(b"".join(b"%d key%d\n" % (i, i * 7919) for i in range(50000)))
        with tempfile.NamedTemporaryFile(suffix=".gz") as cut:
            cut.write(packed[:len(packed) // 2])
            cut.flush()
            self.assert_refused(run("simulate", *RULE, cut.name), "cut short")

    def test_input_without_any_request_is_an_error(self):
        self.assert_refused(run("simulate", *RULE, stdin=b"hello\nworld\n"), "no line is a request",
                            "line 1")

    def test_no_input_at_all_is_no_error(self):
        self.assertEqual(self.reports(*RULE)[0]["requests"], 0)

    def test_a_cost_that_a_log_does_not_take_is_named_with_its_line(self):
        result = run("simulate", "--rule", "sliding-log:5/1m", stdin=b"1 a\n2 a 3\n")
        self.assert_refused(result, "stdin:2", "cost 3", "sliding-log")

    # --- access logs

    def test_an_access_log_is_known_by_its_first_good_line(self):
        lines = b"not a line\n" + log(("192.0.2.1", "-", 1, "/a"), ("192.0.2.1", "-", 2, "/b"),
                                      ("192.0.2.1", "-", 3, "/c"), ("192.0.2.2", "-", 4, "/a"))
        source, rule = self.reports(*RULE, stdin=lines + b"1000 a\n")
        self.assertEqual((source["requests"], source["malformed"]), (4, 2))
        self.assertEqual(source["first_us"], 971211301000000)
        self.assertEqual(rule["denied_most"], [
            {"key": "192.0.2.1", "denied": 1, "first_us": 971211303000000}])
        self.assertEqual(rule["denied_keys"], 1)

    def test_users_and_paths_can_be_limited(self):
        lines = log(("::1", "ann", 1, "/a"), ("::1", "-", 1, "/a"), ("::2", "ann", 2, "/a"),
                    ("::3", "ann", 3, "/b"))
        source, rule = self.reports(*RULE, "--key", "user", stdin=lines)
        self.assertEqual((source["requests"], source["without_key"]), (3, 1))
        self.assertEqual(rule["denied_most"][0]["key"], "ann")
        _, rule = self.reports(*RULE, "--key", "path", stdin=lines)
        self.assertEqual(rule["denied_most"][0]["key"], "/a")

    def keys_of(self, *arguments, stdin):
        """All keys, each denied its second request."""
        _, rule = self.reports("--rule", "fixed-window:1/1m", *arguments, stdin=stdin + stdin)
        return sorted(entry["key"] for entry in rule["denied_most"])

    def test_a_virtual_host_is_a_host(self):
        lines = b"".join(b"www.example.com:443 " + line for line in
                         log(("192.0.2.1", "-", 1, "/a"), ("192.0.2.2", "-", 2, "/b")).splitlines(True))
        self.assertEqual(self.keys_of(stdin=lines), ["192.0.2.1", "192.0.2.2"])
        self.assertEqual(self.keys_of("--key", "host", stdin=lines), ["www.example.com"])

    def test_addresses_are_cut_and_fields_combined(self):
        lines = log(("192.0.2.1", "-", 1, "/a"), ("192.0.2.2", "-", 2, "/b"),
                    ("2001:db8:1:2:3::4", "-", 3, "/a"), ("a.example", "-", 3, "/a"))
        self.assertEqual(self.keys_of("--key", "client/24/64", stdin=lines),
                         ["192.0.2.0/24", "2001:db8:1:2::/64", "a.example"])
        self.assertEqual(self.keys_of("--key", "client/24,path", stdin=lines),
                         ["192.0.2.0/24 /a", "192.0.2.0/24 /b", "2001:db8:1:2::/64 /a", "a.example /a"])

    def test_the_client_behind_trusted_proxies_is_found(self):
        line = b'10.0.0.1 [10/Oct/2000:13:55:36 +0000] "%s"\n'
        lines = b"".join(line % list_ for list_ in (b"6.6.6.6, 192.0.2.9, 10.0.0.2", b"-"))
        form = ("--format", '%h %t "%{X-Forwarded-For}i"')
        self.assertEqual(self.keys_of(*form, stdin=lines), ["10.0.0.1"])
        self.assertEqual(self.keys_of(*form, "--trust", "10.0.0.0/8", stdin=lines), ["10.0.0.1", "192.0.2.9"])

    def test_any_field_of_a_format_and_any_member_is_a_key_and_a_cost(self):
        line = b'%s [10/Oct/2000:13:55:36 +0000] "%s" %s %s\n'
        lines = b"".join(line % parts for parts in (
            (b"192.0.2.1", b"blue", b"10", b"198.51.100.7"), (b"192.0.2.9", b"blue", b"5", b"2001:db8:0:9::1"),
            (b"192.0.2.1", b"-", b"7", b"-"), (b"192.0.2.1", b"red", b"much", b"-")))
        for form in ('%h %t "%{X-Api-Key}i" %{n}n %{c}e', '$remote_addr [$time_local] "$http_x_api_key" $length $real'):
            _, _, key, number, real = form.replace(" +", "").replace('"', "").split(" ")[-5:]
            arguments = ("--format", form, "--rule", "fixed-window:9/1m", "--key")
            source, rule = self.reports(*arguments, key, "--cost", number, stdin=lines)
            self.assertEqual((source["requests"], source["without_key"], source["malformed"]), (2, 1, 1))
            self.assertIn("--cost", source["malformed_first"][0]["reason"])
            self.assertEqual((rule["cost"], rule["cost_allowed"]), (15, 5))
            self.assertEqual(self.keys_of("--format", form, "--key", f"{real}/24/64", stdin=lines),
                             ["198.51.100.0/24", "2001:db8:0:9::/64"])
            self.assertEqual(self.keys_of("--format", form, "--key", f"client,{key}", stdin=lines),
                             ["192.0.2.1 blue", "192.0.2.1 red", "192.0.2.9 blue"])
        member = b'{"ts":1,"a":{"b.c":["x","y"]},"client_id":7}\n{"ts":2,"a":{"d":{"e":"z"}},"client_id":null}\n'
        for key, keys in (("a.b.c", ["y"]), ("a.d.e", ["z"]), ("client_id", ["7"]), ("client_id,a.b.c", ["7 y"])):
            self.assertEqual(self.keys_of("--format", "json", "--key", key, stdin=member), keys)

    def test_a_field_that_is_not_there_is_named(self):
        lines = log(("::1", "-", 1, "/a"))
        for arguments, named in ((("--format", "%h %t %{A}i", "--key", "%{B}i"), ('no "%{B}i"', "it has %h %{A}i")),
                                 (("--format", "%h %t", "--key", "%t"), ('no "%t"',)),
                                 (("--format", "%h %t", "--cost", "$a"), ('no "$a"',)),
                                 (("--format", "%h %t", "--key", "X-Api-Key"), ("X-Api-Key", "as they stand")),
                                 (("--key", "%h"), ("%h", "as they stand")),
                                 (("--key", "user"), ('"user": no line has it',)),
                                 (("--key", "client/33"), ("client/33",)), (("--key", "path/24"), ("path/24",)),
                                 (("--key", "client,"), ("client,",)), (("--key", "user,user,user,user,user"), ("up to 4",)),
                                 (("--cost", "status"), ('--cost "status"', "bytes"))):
            self.assert_refused(run("simulate", *RULE, *arguments, stdin=lines), *named)
        for arguments in (("--key", "user"), ("--cost", "bytes"), ("--trust", "::1"), ("--status", "200"), ("--path", "/")):
            self.assert_refused(run("simulate", *RULE, *arguments, stdin=b"1 a\n"), "stdin:1", arguments[0], "trace")
        self.assert_refused(run("simulate", *RULE, "--format", "json", "--key", "who", stdin=b'{"ts":1}\n'), "who")

    def test_bytes_are_a_cost_and_status_and_path_choose(self):
        lines = b"".join(b'{"ts":%d,"ip":"::1","status":%d,"bytes":%d,"path":"%s"}\n' % line for line in (
            (1, 200, 700, b"/a/x"), (2, 404, 0, b"/a/y"), (3, 503, 30, b"/b")))
        rule = ("--rule", "fixed-window:1000/1m")
        _, found = self.reports(*rule, "--cost", "bytes", stdin=lines)
        self.assertEqual((found["requests"], found["cost"]), (3, 731))
        for arguments, requests in ((("--status", "4xx,503"), 2), (("--path", "/a/"), 2),
                                    (("--path", "/a/", "--status", "200"), 1)):
            source, found = self.reports(*rule, *arguments, stdin=lines)
            self.assertEqual((found["requests"], source["filtered"]), (requests, 3 - requests))

    def test_files_in_any_order_are_merged_by_time(self):
        with tempfile.TemporaryDirectory() as folder:
            paths = [str(pathlib.Path(folder) / name) for name in ("new.log", "old.gz", "trace")]
            pathlib.Path(paths[0]).write_bytes(log(("::1", "-", 30, "/"), ("::1", "-", 50, "/")))
            pathlib.Path(paths[1]).write_bytes(gzip.compress(log(("::1", "-", 10, "/")) + b"broken\n"))
            pathlib.Path(paths[2]).write_bytes(b"971186120000 ::1\n971211340000 ::1\n")
            reports = [self.reports("--rule", "sliding-log:2/1m", *order)
                       for order in (paths, paths[::-1], [paths[1], paths[2], paths[0]])]
            for source, rule in reports:
                self.assertEqual((source["requests"], source["out_of_order"]), (5, 0))
                self.assertEqual(source["first_us"], 971186120000000)
                self.assertEqual(rule, reports[0][1])
                [bad] = source["malformed_first"]
                self.assertEqual((bad["file"], bad["line"]), (paths[1], 2))
            text = run("simulate", *RULE, *paths).stdout.decode()
            self.assertIn("old.gz, line 2: ", text)

    def test_what_fits_no_format_is_told_with_all_of_them(self):
        result = run("simulate", *RULE, stdin=b"hello world\n")
        self.assert_refused(result, "stdin", "line 1", "tried trace: ", "access-log: ", "json: ")

    def test_a_format_that_was_asked_for_is_not_guessed(self):
        lines = log(("::1", "-", 1, "/"))
        self.assert_refused(run("simulate", *RULE, "--format", "trace", stdin=lines), "TIME_MS")
        self.assert_refused(run("simulate", *RULE, "--format", "access-log", stdin=b"1 a\n"), "client")

    def test_times_that_step_back_are_counted(self):
        source, _ = self.reports(*RULE, stdin=b"5000 a\n4000 a\n4500 a\n6000 a\n")
        self.assertEqual((source["out_of_order"], source["out_of_order_most_us"]), (2, 1000000))

    def test_a_line_far_ahead_of_those_around_it_is_malformed(self):
        usual = [b"%d000 k%d\n" % (7200 + i, i % 7) for i in range(100)]
        plain = self.reports(*RULE, stdin=b"".join(usual))
        for at in (0, 1, 50, 99):  # the last of all has none after it, and stays
            with self.subTest(at):
                lines = usual[:at] + [b"2000000000000 far\n"] + usual[at:]
                found = self.reports(*RULE, stdin=b"".join(lines))
                [bad] = found[0].pop("malformed_first")
                self.assertEqual(bad["line"], at + 1)
                self.assertIn("2033-05-18 03:33:20 UTC, is far ahead of the line", bad["reason"])
                self.assertEqual(found[0].pop("malformed"), 1)
                self.assertEqual((found[0]["out_of_order"], found[0]["requests"]), (0, 100))
                self.assertEqual(found[1:], plain[1:])

    def test_a_pause_and_what_began_long_ago_are_no_faults(self):
        for times in ((0, 90000, 90001), (0, 90000), (90000, 0), (0, 7200, 5, 7201), (0, 7200, 3601, 7201)):
            source, _ = self.reports(*RULE, stdin=b"".join(b"%d000 a\n" % time for time in times))
            far = times in ((90000, 0), (0, 7200, 5, 7201))  # one line behind, or the begin: time did not go on
            self.assertEqual((times, source["malformed"]), (times, int(far)))

    def test_a_cost_that_no_limiter_takes_is_malformed_not_cut(self):
        lines = b"".join(b'{"ts":%d,"ip":"::1","bytes":%d}\n' % line for line in (
            (1, 2**31), (2, 2**31 + 1), (3, 2**32 + 7), (4, 2**62), (5, 5)))
        source, rule = self.reports("--rule", "fixed-window:1000000000/1h", "--cost", "bytes", stdin=lines)
        self.assertEqual((rule["requests"], rule["cost"], source["malformed"]), (2, 2**31 + 5, 3))
        for line in source["malformed_first"]:
            self.assertIn("above 2147483648", line["reason"])

    def test_a_key_of_any_bytes_stays_on_its_line(self):
        stdin = b"1 \x1b[31m\xff\n" * 3
        text = run("simulate", *RULE, stdin=stdin).stdout
        self.assertNotIn(b"\x1b", text)
        self.assertIn(rb"\x1b[31m\xff", text)
        self.assertEqual(self.reports(*RULE, stdin=stdin)[1]["denied_most"][0]["key_base64"], "G1szMW3/")

    # --- rules, generators, attacks

    def test_rules_are_reported_in_the_order_given(self):
        rules = ["quota:5/1m", "fixed-window:5/1m", "quota:5/1m"]
        given = [part for rule in rules for part in ("--rule", rule)]
        found = self.reports(*given, stdin=b"1 a\n")[1:]
        self.assertEqual([report["rule"] for report in found], rules)

    def test_a_stack_is_one_decision_held_against_all_of_its_windows(self):
        stack = "sliding-log:2/1s;fixed-window:3/1m"
        lines = b"60000 a\n60100 a\n60200 a\n61500 a\n63000 a\n"
        for rule, allowed in ((stack, 3), ("sliding-log:2/1s", 4), ("fixed-window:3/1m", 3)):
            [found] = self.reports("--rule", rule, stdin=lines)[1:]
            self.assertEqual((found["rule"], found["allowed"]), (rule, allowed))
            self.assertEqual((found["wrongly_allowed"], found["wrongly_denied"]), (0, 0))
            self.assertEqual((found["cost_exactly_allowed"], found["cost_differing"]), (allowed, 0))

    def test_what_is_off_by_key_does_not_cancel_out(self):
        early = b"".join(b"%d a\n" % ms for ms in (59998, 59999, 60000, 60001))
        late = b"".join(b"%d b\n" % ms for ms in (200000, 200001, 200002))
        [found] = self.reports("--rule", "fixed-window:2/1m", stdin=early + late)[1:]
        self.assertEqual((found["cost_allowed"], found["cost_exactly_allowed"]), (6, 4))
        self.assertEqual(found["cost_differing"], 2)
        self.assertEqual((found["wrongly_allowed"], found["wrongly_denied"]), (2, 0))

    def test_the_same_generator_gives_the_same_report(self):
        arguments = ("--rule", "sliding-window:10/1m", "--generate", "pages:requests=3000,seed=9")
        self.assertEqual(self.reports(*arguments), self.reports(*arguments))
        self.assertEqual(self.reports(*arguments)[0]["requests"], 3000)

    def test_strict_admits_nothing_wrongly_whatever_comes(self):
        for kind in ("uniform", "poisson", "bursts", "diurnal", "pages", "boundary", "paced"):
            _, rule, log_rule = self.reports(
                "--rule", "sliding-window:10/1m,strict", "--rule", "sliding-log:10/1m", "--generate",
                f"{kind}:requests=4000,keys=10,load=300")
            self.assertEqual(rule["wrongly_allowed"], 0)
            self.assertEqual((log_rule["wrongly_allowed"], log_rule["wrongly_denied"]), (0, 0))
            self.assertEqual(log_rule["cost_allowed"], log_rule["cost_exactly_allowed"])

    def test_an_attack_is_reported_with_its_traffic(self):
        [found] = self.reports("--attack", "--rule", "fixed-window:10/1m")
        self.assertEqual((found["most_admitted"], found["bound"]), (20, 20))
        self.assertGreaterEqual(len(found["trains"]), 1)
        text = run("simulate", "--attack", "--rule", "quota:10/1m").stdout
        self.assertIn(b"proved bound 19, reached to 100.0%", text)

    def test_the_text_says_who_was_denied(self):
        text = run("simulate", *RULE, stdin=b"1000 a\n1000 a\n1000 a\n1000 b\n1500 a\n").stdout.decode()
        self.assertIn("fixed-window:2/1m would have denied 2 requests of 1 keys", text)
        self.assertRegex(text, r"2  a  \(first 1970-01-01 00:00:01\)")

    # --- refusals

    def test_the_report_fits_a_terminal(self):
        rules = [part for rule in ("sliding-window:100/1m,cells=16,name=a-long-name", "sliding-window:100/1m", "quota:1/1h")
                 for part in ("--rule", rule)]
        stdin = b"".join(b"%d 10.0.0.%d 100000\n" % (10**12 + n * (-1)**n, n % 250) for n in range(20000))
        for more in ((), ("--top", "9"), ("--recommend", "1%")):
            result = run("simulate", *(rules[2:] if more[:1] == ("--recommend",) else rules), *more, stdin=stdin)
            self.assert_ends(result, 0)
            for line in result.stdout.decode().splitlines():
                self.assertLessEqual(len(line), 80 if more[:1] != ("--top",) else 90, line)

    def test_bad_arguments_are_refused_by_name(self):
        cases = [((*RULE, "--generate", "flood"), "flood"),
                 ((*RULE, "--generate", "poisson", "FILE"), "--generate"),
                 ((*RULE, "--attack", "FILE"), "--attack"),
                 ((*RULE, "--plot", "a.jpg"), ".svg"),
                 ((*RULE, "--plot", "a.svg"), "stdin"),
                 ((*RULE, "--plot", "a.svg", "--attack"), "--attack"),
                 ((*RULE, "--format", "csv"), "csv"),
                 ((*RULE, "--format", "%h %b"), "no time"),
                 ((*RULE, "--key", "agents"), "agents"),
                 ((*RULE, "--key", "user/24"), "user/24"),
                 ((*RULE, "--key", "client/33"), "client/33"),
                 ((*RULE, "--key", "client,"), "--key"),
                 ((*RULE, "--status", "2000"), "2000"),
                 ((*RULE, "--trust", "10.0.0.0/40"), "10.0.0.0/40"),
                 ((*RULE, "--cost", "5"), "--cost"),
                 ((*RULE, "no-such-file"), "no-such-file"),
                 (("--rule", "window:5/1m"), "window"),
                 (("--rule", "quota:5/1m;quota:9/1h", "--attack"), "its own --rule"),
                 (("--attack", "--rule", "quota:5"), "quota:5"),
                 ((*RULE * 17,), "16 times"),
                 ((), "no rule")]
        for arguments, named in cases:
            self.assert_refused(run("simulate", *arguments), named)

    def test_other_commands_know_nothing_of_it(self):
        for option in (("--attack",), ("--generate", "poisson"), ("--key", "user")):
            self.assert_refused(run("replay", *RULE, *option), option[0])

    def test_lost_output_is_an_error(self):
        with open("/dev/full", "wb") as full:
            result = run("simulate", *RULE, stdin=b"1 a\n", stdout=full)
        self.assert_error(result, 3, "output")


if __name__ == "__main__":
    unittest.main()
