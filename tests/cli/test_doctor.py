"""Every fault and every warning of doctor that any store may have, provoked: by real servers where they
can be brought to it, else by a proxy in front of a real server. test_doctor_servers.py has the rest."""

import json
import re
import time
import unittest

from doctor import PATIENT, DoctorTest, Proxy, Server, change, eventually, user
from program import RULE, USAGE, run, store_that_is_away

SECOND = re.compile(rb"\$4\r\n100\d\r\n")  # a TTL of 1 s, as Redis is told it


class Reach(DoctorTest):
    def test_a_server_that_is_away_has_one_fault(self):
        found = self.inspect(store_that_is_away().split("?")[0])
        self.assert_found(found, "fault", "connection", "cannot connect: Connection refused")
        self.assertEqual(len([f for f in found if f["level"] == "fault"]), 1)

    def test_a_stopped_server_is_given_up_in_time(self):
        for kind in ("memcached", "redis"):
            with Server(kind) as server:
                server.order("stop")
                begin = time.monotonic()
                found = self.inspect(server.url)
                self.assertLess(time.monotonic() - begin, 60)
                server.order("continue")
            self.assert_faults(found, "connection")

    def test_one_dead_server_of_three_is_a_fault_of_its_own(self):
        with Server("memcached") as one, Server("memcached") as two, Server("memcached") as three:
            two.order("kill")
            found = self.inspect("memcached://127.0.0.1:%d,127.0.0.1:%d,127.0.0.1:%d?%s"
                                 % (one.port, two.port, three.port, PATIENT))
        faults = [f for f in found if f["level"] == "fault"]
        self.assertEqual([f["server"] for f in faults], ["127.0.0.1:%d" % two.port])
        for alive in (one, three):
            of_server = [f for f in found if f["server"] == "127.0.0.1:%d" % alive.port]
            self.assert_found(of_server, "fact", "operations", "do what they must")
            self.assert_found(of_server, "fact", "expiry", "was gone after")

    def test_a_server_without_a_part_of_the_ring(self):
        with Server("memcached") as one, Server("memcached") as two:
            found = self.inspect("memcached://127.0.0.1:%d:1,127.0.0.1:%d:1000000?%s"
                                 % (one.port, two.port, PATIENT))
        self.assert_faults(found)
        self.assert_found(found, "warning", "servers", "1 of 2 get no keys")

    def test_a_wrong_password_is_told_and_not_repeated(self):
        with Server("redis", "--requirepass", "right") as server:
            found = self.inspect(server.url_with(credentials=":s3cret@"))
            self.assert_found(found, "fault", "connection", "does not accept this")
            found = self.inspect(server.url_with())
            self.assert_found(found, "fault", "connection", "the server wants a password")
            self.assert_found(found, "fact", "ACL", "ACL SETUSER limiter ")
            self.assert_faults(self.inspect(server.url_with(credentials=":right@")))

    def test_a_server_that_hangs_up_midway(self):
        for kind in ("memcached", "redis"):
            with Server(kind) as server, Proxy(server, limit=40) as proxy:
                found = self.inspect(proxy.url("probe=10ms"))
            self.assert_found(found, "fault", "round trip", "of 100 got no answer")
            self.assert_found(found, "fault", "operations", "ADD: not sent")

    def test_questions_without_an_answer(self):
        for kind, question in (("memcached", b"stats\r\n"), ("redis", b"INFO\r\n")):
            with Server(kind) as server:
                swallow = lambda said, question=question: b"" if question in said else said
                with Proxy(server, swallow) as proxy:
                    found = self.inspect(proxy.url("timeout=20ms"))
            self.assert_found(found, "fault", "questions", "not all were answered in time")


class Time(DoctorTest):
    def test_a_server_too_far_away_for_the_deadline(self):
        def late(said):
            time.sleep(0.03)
            return said
        with Server("redis") as server, Proxy(server, answered=late) as proxy:
            found = self.inspect(proxy.url("timeout=20ms"))
            self.assert_found(found, "fault", "round trip", "longer than the deadline of 20 ms")
            found = self.inspect(proxy.url(), "--deadline", "25ms", "--rule", RULE)
            self.assert_found(found, "fault", "round trip", "longer than the deadline of 25 ms")

    def test_a_link_with_room_for_one_round_trip(self):
        def late(said):
            time.sleep(0.008)
            return said
        with Server("redis") as server, Proxy(server, answered=late) as proxy:
            found = self.inspect(proxy.url("timeout=20ms"))
        self.assert_found(found, "warning", "round trip", "raise timeout=")

    def test_room_for_round_trips(self):
        with Server("redis") as server:
            found = self.inspect(server.url_with("timeout=5s"))
        self.assert_found(found, "fact", "round trip", "a deadline of 5000 ms has room for ")

    def test_a_server_that_trickles_costs_one_question(self):
        """However often it is asked: about 5 s in all, where the answers would add up to 40."""
        with Server("redis") as server, Proxy(server, trickle_s=0.08) as proxy:
            began = time.monotonic()
            found = self.inspect(proxy.url("timeout=1s"))
            self.assertLess(time.monotonic() - began, 15)
        self.assert_found(found, "fault", "time", "not all could be tried within 5.0 s")

    def test_a_server_that_is_slow_at_times(self):
        answers = []

        def late_at_times(said):
            answers.append(said)
            if len(answers) % 30 == 0 and len(answers) < 100:
                time.sleep(0.6)
            return said
        with Server("redis") as server, Proxy(server, answered=late_at_times) as proxy:
            found = self.inspect(proxy.url("timeout=1s"))
        self.assert_found(found, "warning", "round trip", "more than half the deadline of 1000 ms")

    def test_clocks_that_differ(self):
        shift = lambda said: re.sub(rb"server_time_usec:(\d+)", lambda found: b"server_time_usec:%d"
                                    % (int(found[1]) - 3_000_000), said)
        with Server("redis") as server, Proxy(server, answered=shift) as proxy:
            found = self.inspect(proxy.url())
            self.assert_found(found, "warning", "clock", "behind this machine's", "10.0 ms allowed")
            found = self.inspect(proxy.url(), "--rule", RULE, "--clock-error", "60s")
            self.assert_found(found, "fact", "clock", "behind this machine's")
        shift = lambda said: re.sub(rb"STAT time (\d+)",
                                    lambda found: b"STAT time %d" % (int(found[1]) + 900), said)
        with Server("memcached") as server, Proxy(server, answered=shift) as proxy:
            self.assert_found(self.inspect(proxy.url()), "warning", "clock",
                              "ahead of this machine's")

    def test_periods_that_clocks_and_answers_allow(self):
        shift = lambda said: re.sub(rb"server_time_usec:(\d+)", lambda found: b"server_time_usec:%d"
                                    % (int(found[1]) - 300_000), said)
        with Server("redis") as server, Proxy(server, answered=shift) as proxy:
            url = proxy.url("timeout=50ms")
            self.assert_found(self.inspect(url), "warning", "in flight", "ms apart or more", "on hold")
            for period, level, part in (("4s", "warning", "1, clocks are "),
                                        ("6s", "fact", "1, a payment has 650 ms")):
                found = self.inspect(url, "--rule", f"in-flight:9/{period}", *(("--clock-error", "20ms") if level == "warning" else
                                                                              ("--clock-error", "300ms")))
                self.assert_found(found, level, "in flight", part)
        shift = lambda said: re.sub(rb"STAT time (\d+)",
                                    lambda found: b"STAT time %d" % (int(found[1]) + 900), said)
        with Server("memcached") as server, Proxy(server, answered=shift) as proxy:
            self.assert_found(self.inspect(proxy.url(), "--rule", "in-flight:9/1h"), "warning", "in flight", "no period of up to 1h")

    def test_the_clock_of_a_server_that_hides_its_info(self):
        with Server("redis", *user("+time +set +incrby +pttl +pexpire +decrby +get +del +zadd "
                                   "+zscore +ping")) as server:
            found = self.inspect(server.url_with(credentials="app:s3cret@"))
        self.assert_found(found, "fact", "clock", "this machine's")

    def test_a_key_that_goes_too_early(self):
        hasten = lambda said: SECOND.sub(b"$3\r\n100\r\n", said)

        def attempt():
            with Server("redis") as server, Proxy(server, hasten) as proxy:
                self.assert_found(self.inspect(proxy.url()), "fault", "expiry",
                                  "forgotten too early")
        eventually(attempt)

    def test_a_key_that_stays(self):
        stretch = lambda said: SECOND.sub(b"$5\r\n60000\r\n", said)
        with Server("redis") as server, Proxy(server, stretch) as proxy:
            found = self.inspect(proxy.url())
        self.assert_faults(found)
        self.assert_found(found, "warning", "expiry", "still there after 5 s")

    def test_a_server_that_falls_silent_while_a_key_is_waited_for(self):
        ending = re.compile(rb"\AGET\r\n\$\d+\r\nweir:doctor:\{\w+\}:7\r\n", re.M)
        swallow = lambda said: b"" if ending.search(said[8:]) else said
        with Server("redis") as server, Proxy(server, swallow) as proxy:
            found = self.inspect(proxy.url("timeout=20ms"))
        self.assert_found(found, "fault", "expiry", "the server stopped answering")


class Operations(DoctorTest):
    def test_a_wrong_sum(self):
        with Server("redis") as server:
            with Proxy(server, answered=change(b":10\r\n", b":11\r\n")) as proxy:
                found = self.inspect(proxy.url())
        self.assert_found(found, "fault", "operations", "ADD: answered 11 where 10 was expected")

    def test_a_store_that_overwrites_what_is_there(self):
        with Server("redis") as server:
            overwrite = lambda said: said.replace(b"\r\n$2\r\nNX\r\n", b"\r\n").replace(
                b"*6\r\n", b"*5\r\n") if b":2\r\n" in said else said
            with Proxy(server, overwrite) as proxy:
                found = self.inspect(proxy.url())
        self.assert_found(found, "fault", "operations", 'CREATE: "done" is not what follows')

    def test_memcached_without_versions(self):
        with Server("memcached", "-C") as server:
            found = self.inspect(server.url_with())
        self.assert_found(found, "fault", "operations", "GET: refused", "without -C")


class Rules(DoctorTest):
    def test_cells_too_short_for_the_clocks(self):
        found = self.inspect("memory:?" + PATIENT, "--rule", "sliding-window:9/100ms")
        self.assert_found(found, "warning", "rule", "the cells of rule 1")

    def test_which_periods_there_are_of_what_is_in_flight(self):
        found = self.inspect("memory:?timeout=1s")
        self.assert_found(found, "fact", "in flight", "periods from 9s to 1h are accepted with a deadline of 1000 ms and a clock error of 10 ms")
        self.assert_found(self.inspect("memory:?timeout=20ms"), "fact", "in flight", "periods from 1s to 1h")
        found = self.inspect("memory:?timeout=1s", "--rule", "quota:9/1d;in-flight:5/32s")
        self.assert_found(found, "fact", "in flight", "2, a payment has 3000 ms", "a period of 9s would be enough")
        self.assertFalse([1 for finding in self.inspect("memory:", "--rule", RULE) if finding["topic"] == "in flight"])

    def test_what_is_told_of_a_rule(self):
        found = self.inspect(
            "memory:?timeout=1s", "--rule",
            "sliding-window:100/1m;token-bucket:50/1s,burst=9;quota:7/1d;fixed-window:3/1h")
        for part in ("1, sliding-window: at most 150 in any 1m",
                     "2, token-bucket: at most 9 at once and 50 in 1s",
                     "3, quota: at most 7 in a window of 1d",
                     "4, fixed-window: at most 3 in a window of 1h"):
            self.assert_found(found, "fact", "rule", part)

    def test_keys_live_as_long_as_it_says(self):
        units = {"s": 1, "m": 60, "h": 3600, "d": 86400}
        with Server("redis") as server:
            for rule in ("fixed-window:5/7s", "sliding-window:5/1m", "sliding-window:9/1h,cells=16",
                         "sliding-log:5/1m", "quota:5/1m", "token-bucket:7/1m,burst=30",
                         "leaky-bucket:3/1s,queue=9"):
                found = self.inspect(server.url_with("timeout=4s"), "--rule", rule)
                text = [f["text"] for f in found if f["topic"] == "rule"][0]
                number, unit = re.search(r"live for up to (\d+)([smhd])\Z", text).groups()
                self.assertEqual(run("take", "--store", server.url_with("timeout=4s"), "--rule",
                                     rule, "k").returncode, 0)
                ttls = self.ttls(server)
                self.assertNotEqual(ttls, [])
                longest_s = int(number) * units[unit]
                self.assertTrue(all(0 < ttl <= 1000 * longest_s for ttl in ttls), (rule, ttls))
                self.assertGreater(max(ttls), 1000 * (longest_s - 100 - longest_s // 2), rule)

    def ttls(self, server):
        """Milliseconds of every key, each of which is then deleted."""
        found = []
        with server.connect() as client:
            answers = client.makefile("rb")
            client.sendall(b"KEYS *\r\n")
            keys = []
            for _ in range(int(answers.readline()[1:])):
                answers.readline()
                keys.append(answers.readline().strip())
            for key in keys:
                client.sendall(b"PTTL %s\r\nDEL %s\r\n" % (key, key))
                found.append(int(answers.readline()[1:]))
                answers.readline()
        return found


class Usage(DoctorTest):
    def test_bad_input(self):
        self.assert_refused(run("doctor", "--store", "redis:"), "store URL")
        self.assert_refused(run("doctor", "key"), 'doctor: extra argument "key"')
        self.assert_refused(run("doctor", "--cost", "2"), "doctor takes no --cost")
        self.assert_refused(run("doctor", "--rule", "window:5/1s"), "window")
        self.assert_refused(run("doctor", WEIR_STORE=None), "doctor: no store", "--store")

    def test_the_path_of_a_socket_moves_no_cursor(self):
        for form in ([], ["--json"]):
            result = run("doctor", *form, "--store", "memcached+unix:///no/a%1b%0a%ff?timeout=1s")
            self.assertEqual((result.returncode, result.stderr), (3, b""))
            self.assertIn(b"/no/a???", result.stdout)
            self.assertRegex(result.stdout, rb"\A[ -~\n]*\Z")

    def test_it_fits_a_screen(self):
        found = run("doctor", "--store", "memory:").stdout.decode().splitlines()
        self.assertLessEqual(max(map(len, found)), 80, found)
        told = [line for line in run("doctor", "--json", "--store", "memory:").stdout.splitlines()]
        wanted = next(json.loads(line)["text"] for line in told if json.loads(line)["topic"] == "buckets")
        begin = next(i for i, line in enumerate(found) if line.startswith("  ok       buckets     "))
        self.assertEqual(found[begin][23:] + " " + found[begin + 1].strip(), wanted)
        self.assertEqual(found[begin + 1][:24].strip(), found[begin + 1][23])

    def test_output_that_is_lost(self):
        for form in ([], ["--json"]):
            with open("/dev/full", "wb") as full:
                self.assert_error(run("doctor", *form, stdout=full), 3,
                                  "the output cannot be written")

    def test_a_rule_in_the_environment_counts(self):
        result = run("doctor", WEIR_RULE=RULE)
        self.assert_ends(result, 0)
        self.assertIn(b"fixed-window: at most 10 in a window of 1m", result.stdout)
        self.assertEqual(run("doctor", WEIR_RULE="window:5/1s").returncode, USAGE)


if __name__ == "__main__":
    unittest.main()
