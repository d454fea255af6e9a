"""Bad input: one line that names the offending part, exit status 2, nothing else."""

import socket
import tempfile
import threading
import unittest

from program import NO_DECISION, RULE, ProgramTest, run, said


class Commands(ProgramTest):
    def test_a_command_is_needed(self):
        self.assert_refused(run(), "no command", "weir help")
        self.assert_refused(run("tke", "k"), '"tke"', "did you mean take?", "weir help")
        self.assert_refused(run("acquire"), '"acquire"', "take, peek, refund, settle, reset, limit, run, replay",
                            "doctor, check, explain, serve, help and version", "weir help")
        self.assert_refused(run(""), '""')
        self.assert_refused(run("--store", "memory:", "take", "k"), 'option "--store" before the command', "weir help")

    def test_exactly_one_key_is_needed(self):
        for command in ("take", "peek", "refund", "reset"):
            self.assert_refused(run(command, "--rule", RULE), "no KEY", "weir help")
            self.assert_refused(run(command, "--rule", RULE, "a", "b"), '"b"', "one KEY")
            self.assert_refused(run(command, "--rule", RULE, ""), "KEY is empty")
        self.assert_refused(run("replay", "--rule", RULE, "-", "x"), '"x"', "one FILE")
        self.assert_refused(run("help", "me"), '"me"')
        self.assert_refused(run("help", "take", "peek"), '"peek"', "one command")
        self.assert_refused(run("version", "2"), '"2"')

    def test_a_rule_is_needed(self):
        for arguments in (["take", "k"], ["replay"]):
            self.assert_refused(run(*arguments), f"{arguments[0]}: no rule", "--rule", "WEIR_RULE")
            self.assert_refused(run(*arguments, WEIR_RULE=""), "--rule", "WEIR_RULE")

    def test_a_store_is_needed_where_counts_must_outlive_the_command(self):
        for command in ("take", "peek", "refund", "reset"):
            for unset in ("", None):
                self.assert_refused(run(command, "--rule", RULE, "k", WEIR_STORE=unset), "no store", "--store", "WEIR_STORE")

    def test_options_are_known_ones_with_their_values(self):
        self.assert_refused(run("take", "--bogus", "k"), '"--bogus"')
        self.assert_refused(run("take", "-x", "k"), '"-x"')
        self.assert_refused(run("take", "k", "--rule"), "--rule needs a value")
        self.assert_refused(run("take", "--json=yes", "k"), "--json takes no value")
        self.assert_refused(run("reset", "--cost", "1", "k"), "reset takes no --cost")
        self.assert_refused(run("replay", "--cost", "1"), "replay takes no --cost")
        self.assert_refused(run("peek", "--wait", "1s", "k"), "peek takes no --wait")
        self.assert_refused(run("refund", "--up-to", "k"), "refund takes no --up-to")
        self.assert_refused(run("take", "--at", "1", "k"), "take takes no --at")
        self.assert_refused(run("take", "--peek", "k"), '"--peek"', "peek is a command of its own", "weir help peek")

    def test_an_option_is_written_out(self):
        self.assert_refused(run("take", "--sto", "memory:", "k"), '"--sto"', "did you mean --store?")
        self.assert_refused(run("take", "--no-local", "k"), '"--no-local"')
        self.assert_refused(run("take", "-hq", "k"), '"-h"')
        self.assert_refused(run("take", "--", "--rule", "k"), '"k"', "one KEY")

    def test_the_nearest_word_is_named(self):
        for typed, meant in (("--stroe", "--store"), ("--JSON", "--json"), ("--dedline", "--deadline")):
            self.assert_refused(run("take", typed, "x", "k"), f'"{typed}"', f"did you mean {meant}?", "weir help take")
        self.assert_refused(run("take", "--rule", "slidng-window:1/1m", "k"), "the nearest is sliding-window")
        self.assert_refused(run("take", "--rule", "quota:1/1m,leese=1s", "k"), "the nearest is lease")
        self.assert_refused(run("take", "--rule", RULE, "--store", "redsi://h", "k"), "the nearest is redis")
        self.assert_refused(run("take", "--rule", RULE, "--store", "memory:?kyes=1", "k"), "the nearest is keys")
        for arguments in (["take", "--xyzzy", "k"], ["take", "--rule", "x:1/1m", "k"]):
            self.assertNotIn(b"mean", run(*arguments).stderr)
            self.assertNotIn(b"nearest", run(*arguments).stderr)

    def test_silence_is_no_json(self):
        self.assert_refused(run("take", "--quiet", "--json", "--rule", RULE, "k"), "--quiet and --json")

    def test_a_mistyped_option_does_not_show_its_value(self):
        result = run("take", "--stroe=redis://user:secret@host", "k")
        self.assert_refused(result, '"--stroe"')
        self.assertNotIn(b"secret", result.stderr)

    def test_quoted_input_stays_on_one_line(self):
        self.assert_refused(run("take\r\n\x1b[2Jx"), "\\x0d\\x0a\\x1b[2Jx")


class Numbers(ProgramTest):
    def test_a_cost_is_1_to_2147483648(self):
        for cost in ("0", "-1", "+1", "", " 1", "12x", "1.0", "2147483649", "9" * 30):
            for command in ("take", "peek"):
                self.assert_refused(run(command, "--rule", RULE, "--cost=" + cost, "k"), "--cost",
                                    f'"{cost}"', "1 to 2147483648")

    def test_costs_of_a_stack_are_one_for_each_rule(self):
        two = RULE + ";fixed-window:5/1s"
        for costs in ("1,", ",1", "0,0", "1,x", "1,-1", "1,2147483649", ",", "1,1,1,1,1,1,1,1,1"):
            self.assert_refused(run("take", "--rule", two, "--cost", costs, "k"), "--cost",
                                f'"{costs}"', "one per rule")
        self.assert_refused(run("take", "--rule", two, "--cost", "1,1,1", "k"), "3 costs",
                            "2 rules")
        self.assert_refused(run("take", "--rule", two, "--cost", "1,1", "--up-to", "k"), "cost")
        self.assert_refused(run("refund", "--rule", two, "--cost", "1,1", "k"), "one is accepted")

    def test_a_log_takes_a_cost_of_1(self):
        self.assert_refused(run("take", "--rule", "sliding-log:5/1s", "--cost", "2", "k"), "cost 2",
                            "sliding-log", "accepted is 1")

    def test_a_tenant_is_named_where_one_is_asked_for(self):
        shares = "shared-window:1000/800s,cells=8,weights=a:1"
        self.assert_refused(run("take", "--rule", shares, "k"), "names no tenant")
        self.assert_refused(run("take", "--rule", shares, "--tenant", "", "k"), "names no tenant")
        self.assert_refused(run("take", "--rule", RULE, "--tenant", "a", "k"), "no tenants")
        self.assert_refused(run("peek", "--rule", shares, "--tenant", "a", "--wait", "1s", "k"), "--wait")
        self.assert_refused(run("take", "--rule", shares, "--tenant", "a", "--wait", "1s", "k"), "--tenant")
        self.assert_refused(run("reset", "--rule", shares, "k"), "has no reset")
        self.assert_refused(run("simulate", "--rule", shares, "/dev/null"), "tenants")
        short = "shared-window:6000/1m,weights=a:1"  # its cells are shorter than the deadline of a trace
        self.assert_refused(run("replay", "--rule", short, "/dev/null"), "asked with tenants", "--tenant key")
        self.assert_refused(run("replay", "--rule", short, "--tenant", "user", "/dev/null"), "of a trace key is accepted")
        self.assert_refused(run("replay", "--rule", RULE, "--tenant", "key", stdin=b"1 a\n"), "stdin:1", "no tenants")
        self.assertIn("tenants", said(run("bench", "--store", "memory:", "--rule", shares).stderr).decode())
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as config:
            config.write(f'stores: {{default: {{url: "memory:"}}}}\nlimiters:\n  api: {{rule: "{shares}"}}\n')
            config.flush()
            self.assertIn("limiters.api.rule: a shared-window is asked with tenants",
                          said(run("check", config.name).stderr).decode())

    def test_limits_of_keys_are_refused_as_the_file_has_them(self):
        for limiter in ('rule: "quota:5/1d"', 'rule: "quota:5/1d;quota:9/7d", most: 50',
                        'rule: "in-flight:5/5m,most=50,lease=1s"'):
            with tempfile.NamedTemporaryFile("w", suffix=".yaml") as config:
                config.write(f'stores: {{main: {{url: "memory:"}}}}\nlimiters:\n  api: {{{limiter}, limits: store}}\n')
                config.flush()
                told = said(run("check", config.name).stderr).decode()
            self.assertIn("limiters.api.rule: limits: store is accepted where one rule of the text has most=", told)
            self.assertNotIn("limits_us", told)

    def test_a_wait_is_0s_to_30m_and_for_one_whole_cost(self):
        for value in ("", "31m", "1", "-1s", "1.5s"):
            self.assert_refused(run("take", "--rule", RULE, "--wait=" + value, "k"), "--wait",
                                f'"{value}"', "0s to 30m")
        two = RULE + ";fixed-window:5/1s"
        self.assert_refused(run("take", "--rule", two, "--wait", "1s", "--cost", "1,1", "k"),
                            "--wait", "list of costs")
        self.assert_refused(run("take", "--rule", RULE, "--wait", "1s", "--up-to", "k"), "--wait",
                            "--up-to")

    def test_a_class_is_one_of_the_rule(self):
        self.assert_refused(run("take", "--rule", RULE, "--wait", "1s", "--class", "a", "k"), "--wait", "--class")
        for rule, accepted in ((RULE, "accepted is none"), ("quota:9/1d,classes=a:1|b:2", "accepted are a and b, or none")):
            result = run("take", "--store", "memory:", "--rule", rule, "--class", "gold", "k")
            self.assertNotEqual(result.returncode, 0)
            self.assertIn(b'the class "gold"', result.stderr)
            self.assertIn(accepted.encode(), result.stderr)

    def test_a_stamp_is_microseconds(self):
        for value in ("", "x", "-1", "1.5", "253402300800000000"):
            self.assert_refused(run("refund", "--rule", RULE, "--at=" + value, "k"), "--at",
                                f'"{value}"', "at_us")

    def test_what_cannot_be_settled(self):
        self.assert_refused(run("settle", "--rule", RULE, "k"), "--real N is needed", "0 to 2147483648")
        self.assert_refused(run("settle", "--rule", RULE, "--cost", "1,2", "--real", "1", "k"), "as many are accepted")
        for real in ("-1", "2147483649", "x", "", "1,,2"):
            self.assert_refused(run("settle", "--rule", RULE, "--real=" + real, "k"), "--real")
        self.assert_refused(run("settle", "--rule", "sliding-log:5/1s", "--real", "2", "k"), "sliding-log")
        self.assert_refused(run("settle", "--rule", RULE, "--real", "2", "--at", "5", "k"), "at_us")

    def test_more_than_is_charged_is_not_refunded(self):
        self.assert_refused(run("refund", "--rule", RULE, "k"), "holds less")

    def test_a_fraction_of_a_unit_is_refused_in_true_words(self):
        for arguments in (["take", "--wait=2.2s"], ["take", "--deadline=2.2s"], ["bench", "--duration=2.2s"]):
            self.assert_refused(run(*arguments, "--rule", RULE), '"2.2s"', "a whole duration")
        self.assert_refused(run("take", "--rule", "quota:5/2.2s", "k"), "a whole number and ms, s, m, h or d")
        self.assert_refused(run("take", "--rule", RULE, "--store", "memory:?timeout=2.2s", "k"), "a whole number")

    def test_durations_are_1ms_to_60s(self):
        for option in ("--deadline", "--clock-error"):
            for value in ("0ms", "-1ms", "20", "", "1us", "61s", "1.5s", "20 ms", "9" * 30 + "s"):
                self.assert_refused(run("take", "--rule", RULE, f"{option}={value}", "k"), option,
                                    f'"{value}"', "1ms to 60s")

    def test_processes_are_1_to_100000(self):
        for value in ("0", "-1", "", "100001", "4294967297", "two"):
            self.assert_refused(run("take", "--rule", RULE, "--processes=" + value, "k"),
                                "--processes", f'"{value}"', "1 to 100000")


class Rules(ProgramTest):
    def assert_rule_refused(self, rule, *named):
        for command in ("take", "peek", "reset"):
            self.assert_refused(run(command, "--rule", rule, "k"), *named)
        self.assert_refused(run("replay", "--rule", rule, stdin=b"1 k\n"), *named)

    def test_the_algorithm_is_known(self):
        self.assert_rule_refused("fixed-windw:10/1m", "fixed-windw")
        self.assert_rule_refused("", "rule")

    def test_the_options_are_known(self):
        self.assert_rule_refused("fixed-window:10/1m,colour=red", "colour")
        self.assert_rule_refused("sliding-window:10/1m,cells=3", "cells")
        self.assert_rule_refused("sliding-window:10/1m,count=some", "count")

    def test_the_limit_is_positive_and_can_be_stored(self):
        for limit in ("0", "-1", "9007199254740993", "9" * 30, "ten"):
            self.assert_rule_refused(f"fixed-window:{limit}/1m", limit)

    def test_the_period_is_1ms_to_400d(self):
        for period in ("0s", "401d", "-1s", "1w", "10"):
            self.assert_rule_refused(f"fixed-window:10/{period}", period)

    def test_two_rules_of_a_stack_differ_in_their_tags(self):
        self.assert_rule_refused("fixed-window:10/1m;fixed-window:20/1m", "name=")


class Urls(ProgramTest):
    def assert_url_refused(self, url, *named):
        self.assert_refused(run("take", "--store", url, "--rule", RULE, "k"), *named)

    def test_the_url_is_well_formed(self):
        self.assert_url_refused("", "URL")
        self.assert_url_refused("memcached", "memcached")
        self.assert_url_refused("gopher://host", "gopher")
        self.assert_url_refused("memcached://", "host")

    def test_the_port_is_in_range(self):
        for port in ("0", "65536", "99999", "-1", "x"):
            self.assert_url_refused(f"memcached://127.0.0.1:{port}", "port")

    def test_a_host_that_is_not_known_is_a_store_that_is_away(self):
        self.assert_error(run("take", "--store", "memcached://no-such-host.invalid", "--rule", RULE, "k"),
                          NO_DECISION, "no-such-host.invalid", "cannot be found")

    def test_the_options_are_known(self):
        self.assert_url_refused("memory:?colour=red", "colour")
        self.assert_url_refused("memory:?timeout=0ms", "timeout")
        self.assert_url_refused("memcached://127.0.0.1?protocol=binary", "protocol", "binary")


class Store(ProgramTest):
    """A store that counts who comes: bad input must not even connect."""

    def setUp(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.listener.settimeout(60)
        self.visits = 0
        self.thread = threading.Thread(target=self.serve)
        self.thread.start()
        self.url = "memcached://127.0.0.1:%d?timeout=30s" % self.listener.getsockname()[1]

    def serve(self):
        """Hangs up on everybody, and for good on the one who brings an empty line."""
        while True:
            connection, _ = self.listener.accept()
            with connection:
                if connection.recv(1) == b"\n":
                    return
                self.visits += 1

    def count_visits(self):
        with socket.create_connection(self.listener.getsockname()) as last:
            last.sendall(b"\n")
        self.thread.join()
        self.listener.close()
        return self.visits

    def test_bad_input_leaves_it_untouched(self):
        for arguments in (["--cost", "0", "k"], ["--rule", "x:1/1s", "k"], [""], ["--bogus", "k"]):
            for command in ("take", "peek", "reset"):
                self.assert_refused(run(command, "--store", self.url, "--rule", RULE, *arguments))
        self.assert_refused(run("replay", "--store", self.url, "--rule", RULE, stdin=b"1 k 0\n"))
        self.assertEqual(self.count_visits(), 0)

    def test_good_input_reaches_it(self):
        for command in ("take", "peek", "reset"):
            run(command, "--store", self.url, "--rule", RULE, "k")
        self.assertGreaterEqual(self.count_visits(), 3)


if __name__ == "__main__":
    unittest.main()
