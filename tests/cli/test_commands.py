"""The answers of take, peek, reset, help and version when nothing is wrong with the input."""

import base64
import json
import os
import socket
import tempfile
import time
import unittest

from program import (ALLOWED, DENIED, NO_DECISION, RULE, STORE, ProgramTest, run,
                     store_that_is_away)

FIELDS = ["key", "cost", "decision", "limit", "remaining", "retry_after_us", "reset_after_us",
          "delay_us", "source", "rule", "charged", "at_us"]


class Text(ProgramTest):
    def test_take_says_in_one_line_that_it_is_allowed(self):
        self.assert_output(
            run("take", "--rule", RULE, "k"), ALLOWED,
            rb"\Aallowed  limit 10  remaining 9  retry-after 0s  reset-after \S+\n\Z")

    def test_take_denies_a_cost_above_the_limit_for_ever(self):
        self.assert_output(run("take", "--rule", RULE, "--cost", "11", "k"), DENIED,
                           rb"\Adenied  limit 10  remaining .*retry-after never.*\n\Z")

    def test_peek_charges_nothing(self):
        self.assert_output(
            run("peek", "--rule", RULE, "k"), ALLOWED,
            rb"\Aallowed  limit 10  remaining 10  retry-after 0s  reset-after 0s\n\Z")

    def test_peek_exits_like_take(self):
        self.assert_output(run("peek", "--rule", RULE, "--cost", "11", "k"), DENIED, rb"\Adenied ")

    def test_reset_says_so(self):
        self.assert_output(run("reset", "--rule", RULE, "k"), 0, rb"\Areset\n\Z")

    def test_a_warning_comes_before_the_answer_and_changes_nothing(self):
        result = run("take", "--rule", "sliding-window:5/10ms", "k")
        self.assert_error(result, ALLOWED, "weir: warning: the cells of rule 1")
        self.assertTrue(result.stdout.startswith(b"allowed "), result.stdout)

    def test_help_and_version_go_to_stdout(self):
        for command in (["help"], ["--help"], ["-h"]):
            self.assert_output(run(*command), 0, rb"usage: weir COMMAND")
        for command in ("version", "--version"):
            self.assert_output(run(command), 0, rb"\Aweir [0-9]+\.[0-9]+\.[0-9]+\n\Z")


class Program(ProgramTest):
    def test_version_tells_programs_and_explains_itself(self):
        for command in ("version", "--version"):
            self.assert_output(run(command, "--json"), 0, rb'\A\{"version":"[0-9]+\.[0-9]+\.[0-9]+"\}\n\Z')
            for asked in ((command, "--help"), (command, "-h"), ("help", "version")):
                self.assert_output(run(*asked), 0, rb"\Aweir version: .*\n\nusage: weir version")
            self.assert_refused(run(command, "--jsn"), "--jsn")

    def test_help_that_is_cut_off_complains_of_nothing(self):
        for asked in (["-h"], ["help", "simulate"], ["take", "--help"], ["version"]):
            read, write = os.pipe()
            os.close(read)
            with os.fdopen(write, "wb") as closed:
                self.assertEqual(run(*asked, stdout=closed).stderr, b"")

    def test_check_tells_programs(self):
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            file.write('listen: {resp: {}}\nstores: {a: {url: "memory:"}}\nlimiters: {b: {rule: "quota:5/1d"}}\n')
            file.flush()
            good = run("check", "--json", file.name)
            self.assert_ends(good, 0)
            told = json.loads(good.stdout)
            self.assertEqual((told["good"], told["file"], told["limiters"], told["faults"]), (True, file.name, 1, 0))
            self.assertEqual((told["warnings"], told["first_warnings"]), (0, []))
            file.write("c: 1\n")
            file.flush()
            bad = run("check", "--json", file.name)
            self.assertEqual((bad.returncode, bad.stderr), (2, b""))
            told = json.loads(bad.stdout)
            [fault] = told["first"]
            self.assertEqual((told["good"], told["faults"], fault["line"], fault["file"]), (False, 1, 4, file.name))

    def test_check_warns_of_what_may_not_be_meant(self):
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            file.write('listen: {resp: {}}\nstores: {a: {url: "memory:"}}\nlimiters:\n'
                       '  b: {rule: "sliding-window:100/1m", tiers: {gold: "sliding-window:5000/1m"}}\n')
            file.flush()
            said = r"%s:4:\d+: warning: limiters\.b\.tiers\.gold: sliding-window:5000/1m would share its counts with sliding-window:100/1m but for its layout: give both most=5000; " % file.name
            result = run("check", file.name)
            self.assertEqual(result.returncode, 0)
            self.assertRegex(result.stderr.decode(), said)
            self.assertRegex(result.stdout, rb": good: listeners 1")
            told = json.loads(run("check", "--json", file.name).stdout)
            self.assertEqual((told["good"], told["faults"], told["warnings"]), (True, 0, 1))
            [warning] = told["first_warnings"]
            self.assertRegex(warning["text"], said)
            self.assertEqual(warning["line"], 4)


class Options(ProgramTest):
    def test_options_stand_before_or_after_the_key(self):
        for arguments in (["--rule", RULE, "--cost=3", "k"], ["k", "--rule", RULE, "--cost", "3"]):
            self.assert_output(run("take", *arguments), ALLOWED, rb"remaining 7 ")

    def test_two_dashes_end_the_options(self):
        result = run("take", "--json", "--rule", RULE, "--", "--cost")
        self.assert_ends(result, ALLOWED)
        self.assertEqual(json.loads(result.stdout)["key"], "--cost")

    def test_the_environment_gives_defaults(self):
        other = "fixed-window:20/1m"
        self.assert_output(run("take", "k", WEIR_RULE=RULE), ALLOWED, rb"limit 10 ")
        self.assert_output(run("take", "k", "--rule", other, WEIR_RULE=RULE), ALLOWED,
                           rb"limit 20 ")
        self.assert_output(run("take", "k", "--store", STORE, WEIR_RULE=RULE, WEIR_STORE="bad"),
                           ALLOWED, rb"limit 10 ")

    def test_replay_and_simulate_have_memory_for_a_store(self):
        for command in ("replay", "simulate"):
            result = run(command, "--deadline", "10s", "--rule", RULE, stdin=b"1 k\n", WEIR_STORE="")
            self.assert_output(result, 0, rb"k|requests: 1")

    def test_the_limiter_takes_its_options(self):
        self.assert_output(
            run("take", "--rule", RULE, "--deadline", "9s", "--clock-error", "1s", "--processes",
                "8", "--no-local-denial", "--no-cached-cells", "k"), ALLOWED, rb"\Aallowed ")


class Json(ProgramTest):
    def take(self, key, *options):
        return json.loads(run("take", "--json", "--rule", RULE, *options, "--", key).stdout)

    def test_a_decision_is_one_object_in_a_fixed_order(self):
        result = run("take", "--json", "--rule", RULE, "--cost", "4", "k")
        self.assert_output(result, ALLOWED, rb"\A\{[^\n]*\}\n\Z")
        answer = json.loads(result.stdout)
        self.assertEqual(list(answer), FIELDS)
        reset_after_us = answer.pop("reset_after_us")
        self.assertTrue(0 < reset_after_us <= 60_000_000)
        self.assertTrue(abs(answer.pop("at_us") / 1e6 - time.time()) < 60)
        self.assertEqual(answer, {"key": "k", "cost": 4, "decision": "allowed", "limit": 10,
                                  "remaining": 6, "retry_after_us": 0, "delay_us": 0,
                                  "source": "store", "rule": 0, "charged": 4})

    def test_never_is_minus_one(self):
        answer = self.take("k", "--cost", "2147483648")
        self.assertEqual(answer["decision"], "denied")
        self.assertEqual(answer["retry_after_us"], -1)
        self.assertEqual(answer["source"], "local")

    def test_keys_of_any_text_come_back_as_they_were(self):
        for key in ("two words", "a\r\nset b 0 0 1\r\nx", "schlüssel-☃", "k" * 10240, "{a}:\"\\%"):
            self.assertEqual(self.take(key)["key"], key)

    def test_a_peek_says_that_it_charged_nothing(self):
        for options in ((), ("--up-to",), ("--cost", "4")):
            result = run("peek", "--json", "--rule", RULE, *options, "k")
            self.assert_output(result, ALLOWED, rb'"charged":0,')

    def test_a_key_that_is_not_utf8_comes_back_in_base64(self):
        for key in (b"\xff", b"\xff\xfe", b"a\xffb", b"\xc0\x80ab", bytes(range(1, 256))):
            answer = self.take(key)
            self.assertEqual(list(answer), ["key_base64", *FIELDS[1:]])
            self.assertEqual(base64.b64decode(answer["key_base64"], validate=True), key)

    def test_reset_is_an_object_as_well(self):
        result = run("reset", "--json", "--rule", RULE, "k")
        self.assert_ends(result, 0)
        self.assertEqual(json.loads(result.stdout), {"key": "k", "reset": True})


class NoDecision(ProgramTest):
    def test_a_store_that_is_away_exits_3_and_never_looks_like_a_denial(self):
        store = store_that_is_away()
        for command in ("take", "peek", "reset"):
            for form in ([], ["--json"]):
                result = run(command, *form, "--store", store, "--rule", RULE, "k")
                self.assert_error(result, NO_DECISION, "cannot be reached")
                self.assertNotIn(b"requests[", result.stderr)  # there is one
                self.assertEqual(result.stdout, b"")

    def test_a_store_that_is_silent_costs_the_time_to_connect(self):
        with socket.create_server(("127.0.0.1", 0)) as silent:
            store = "memcached://127.0.0.1:%d?timeout=20s&connect-timeout=700ms" % silent.getsockname()[1]
            begin = time.monotonic()
            result = run("take", "--store", store, "--rule", RULE, "--deadline", "100ms", "k")
            took_s = time.monotonic() - begin
        self.assert_error(result, NO_DECISION)
        self.assertTrue(0.7 <= took_s < 19, took_s)

    def test_a_store_that_refuses_costs_no_time_to_connect(self):
        begin = time.monotonic()
        result = run("take", "--store", store_that_is_away(), "--rule", RULE, "k")
        self.assert_error(result, NO_DECISION, "cannot be reached", "Connection refused")
        self.assertLess(time.monotonic() - begin, 20)  # of the 30 s that its URL has for connecting

    def test_output_that_is_lost_exits_3(self):
        for arguments in (["take", "--rule", RULE, "k"], ["take", "--json", "--rule", RULE, "k"],
                          ["reset", "--rule", RULE, "k"], ["help"]):
            with open("/dev/full", "wb") as full:
                self.assert_error(run(*arguments, stdout=full), NO_DECISION,
                                  "the output cannot be written", os.strerror(28))


if __name__ == "__main__":
    unittest.main()
