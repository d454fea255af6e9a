"""The server's words about itself: /metrics, /status.json, the page, the log of denials."""

import html.parser
import json
import os
import pathlib
import re
import signal
import subprocess
import tempfile
import threading
import time
import unittest

from server import BASE, Server, await_that, http
from test_http import get, post

ROOT = pathlib.Path(__file__).resolve().parents[2]
# A metric's name in expressions of Prometheus.
METRIC = re.compile(r"\bweir_\w+")
AWAY = BASE.replace("limiters:\n", """  away: {url: "redis://127.0.0.1:1?timeout=1s", fallback: allow}
limiters:
  hidden: {store: main, rule: "quota:1/1d"}
  hashed: {store: main, rule: "quota:1/1d", log_keys: hashed}
  plain: {store: main, rule: "quota:1/1d", log_keys: plain}
  lost: {store: away, rule: "quota:1/1d"}
""") + "loops: 2\nlimits: {logged_denials: 1000000}\n"
HOSTILE = b"<b>\"\\\xff\r\nweir: forged"
SHOWN = r"<b>\x22\x5c\xff\x0d\x0aweir: forged"
ON_PAGE = SHOWN.replace(r"\x22", '"')  # which escapes for itself
# Text that a reader should see as it is; and text that would be seen as something else, or not at all.
READABLE = "m\u00fcller@b\u00fccher.example \u65e5\u672c\u8a9e \U0001f600 \"q\""
HIDDEN = "a\u200b\u202eb\u00a0\u00ad\ufeff\x7f\x85"


def page(server, path="/status.json", *fields):
    client = server.connect("admin")
    told = http(client, get(path, *fields))
    client.close()
    return told


def status(server):
    return json.loads(page(server)[1])


def row(told, name):
    return next(one for one in told["limiters"] if one["name"] == name)


def take(server, limiter, key, times=1):
    client = server.connect()
    for _ in range(times):
        told = client.ask("WEIR.TAKE", limiter, key)
    client.close()
    return told


class Figures(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server(AWAY)

    @classmethod
    def tearDownClass(cls):
        cls.server.end()

    def sample(self, line):
        return self.server.metric(line)

    def test_decisions_by_limiter_protocol_and_source(self):
        before = row(status(self.server), "api")
        take(self.server, "api", "counted", 5)
        client = self.server.connect("http")
        http(client, get("/check/api?key=counted"))
        http(client, post("/peek", {"limiter": "api", "key": "counted"}))
        http(client, post("/reset", {"limiter": "api", "key": "counted"}))
        client.close()
        after = row(status(self.server), "api")
        self.assertEqual(after["allowed"] - before["allowed"], 3)
        self.assertEqual(after["denied"] - before["denied"], 4)  # with the peek
        body = page(self.server, "/metrics")[1]
        found = re.findall(r'^weir_serve_decisions_total\{limiter="api",protocol="(\w+)",'
                           r'decision="(\w+)",source="\w+"\} (\d+)$', body, re.MULTILINE)
        self.assertEqual(len(found), 3 * 11)
        sums = {}
        for protocol, decision, count in found:
            sums[protocol, decision] = sums.get((protocol, decision), 0) + int(count)
        self.assertEqual((sums["resp", "allowed"], sums["resp", "denied"], sums["http", "denied"]), (3, 2, 2))

    def test_shadow_fallback_and_on_demand(self):
        take(self.server, "watched", "s", 3)
        take(self.server, "lost", "l", 3)
        client = self.server.connect()
        for _ in range(3):
            client.ask("CL.THROTTLE", "t", 1, 1, 86400)
        client.close()
        told = status(self.server)
        watched = row(told, "watched")
        self.assertEqual((watched["allowed"], watched["denied"], watched["shadow_denied"]), (3, 0, 2))
        self.assertEqual([(row(told, name)["shadow"], row(told, name)["enforce"]) for name in ("watched", "lost")], [(True, 0), (False, 100)])
        lost = row(told, "lost")
        self.assertEqual(lost["allowed"], 3)
        self.assertLess(0, lost["sources"]["fallback"] + lost["sources"]["late"])
        demand = row(told, ":throttle")
        self.assertEqual((demand["allowed"], demand["denied"]), (2, 1))  # a burst of 1 is 2 at once
        servers = {store["name"]: store["servers"][0] for store in told["stores"]}
        self.assertEqual(servers["main"]["breaker"], "closed")
        self.assertEqual(servers["away"]["name"], "127.0.0.1:1")
        self.assertLessEqual(1, servers["away"]["outages"])
        self.assertEqual(self.sample('weir_serve_limiter_shadow_denied_total{limiter="watched"}'), 2)
        self.assertLessEqual(1, self.sample('weir_server_outages_total{store="away",server="127.0.0.1:1"}'))

    def test_readable_keys_are_shown_readable(self):
        with Server(AWAY) as server:
            for i, key in enumerate((READABLE, HIDDEN, "caf\u00e9"[:-1] + "\ud7ff", "\u00e9" * 60)):
                take(server, "plain", key.encode("utf-8"), 9 - i)
            take(server, "plain", b"\xed\xa0\x80\xc0\xaf\xf4\x90\x80\x80\xe6\x97", 5)  # no UTF-8
            top = [one["key"] for one in json.loads(page(server)[1])["denied_keys"]["top"]]
            spelled = "".join("a" if c == "a" else "b" if c == "b" else "".join("\\x%02x" % byte for byte in c.encode())
                              for c in HIDDEN)
            self.assertEqual(top[:3], [READABLE, spelled, "caf\ud7ff"])
            self.assertRegex(top[3], "^\u00e9{43,46}\\.\\.\\.$")
            self.assertEqual(top[4], r"\xed\xa0\x80\xc0\xaf\xf4\x90\x80\x80\xe6\x97")

    def test_keys_are_shown_as_the_configuration_says(self):
        secret = "not-to-be-seen"
        take(self.server, "hidden", secret, 9)
        take(self.server, "hashed", secret, 8)
        take(self.server, "plain", HOSTILE, 7)
        take(self.server, "plain", "x" * 4096, 6)
        self.server.await_log("key=\"xxxx", 5)
        body = page(self.server)[1]
        keys = json.loads(body)["denied_keys"]
        top = {(one["limiter"], one["denied"]): one for one in keys["top"]}
        self.assertEqual(keys["limiters_shown"], 2)
        self.assertRegex(top["hashed", 7]["key"], "^[0-9a-f]{16}$")
        self.assertTrue(top["hashed", 7]["hashed"])
        self.assertEqual(top["plain", 6]["key"], ON_PAGE)
        self.assertRegex(top["plain", 5]["key"], r"^x{80,95}\.\.\.$")
        self.assertFalse([one for one in keys["top"] if one["limiter"] == "hidden"])
        log = self.server.log()
        for text in (body, log, page(self.server, "/metrics")[1]):
            self.assertNotIn(secret, text)
        self.assertIn('denied limiter=hashed key="%s" protocol=resp' % top["hashed", 7]["key"], log)
        self.assertIn('denied limiter=plain key="%s" protocol' % SHOWN, log)
        self.assertIn("denied limiter=hidden protocol=resp cost=1 ", log)
        self.assertNotIn("\nweir: forged", log)

    def test_metrics_say_what_promtool_accepts(self):
        take(self.server, "api", "p", 5)
        body = page(self.server, "/metrics")[1]
        said = subprocess.run([os.environ["WEIR_PROMTOOL"], "check", "metrics"], input=body,
                              capture_output=True, text=True, timeout=60)
        self.assertEqual((said.returncode, said.stdout + said.stderr), (0, ""))
        for name in ("weir_serve_tick_seconds", "weir_serve_batch_requests"):
            counts = [int(n) for n in re.findall(r"^%s_bucket\S* (\d+)$" % name, body, re.MULTILINE)]
            self.assertEqual(counts, sorted(counts))
            self.assertEqual(counts[-1], self.sample(name + "_count"))
            self.assertLess(0, counts[-1])

    def test_the_page_of_monitoring_has_every_metric(self):
        """Those of this server, and those that the sources name for others."""
        names = set(re.findall(r"^# TYPE (\S+)", page(self.server, "/metrics")[1], re.MULTILINE))
        for file in ("server/serve/metrics.c", "server/tell/counts.h", "limits/monitor/monitor.c"):
            found = re.findall(r'"(weir_[a-z_]+)', (ROOT / "src" / file).read_text("utf-8"))
            names |= {re.sub("_(bucket|sum|count)$", "", name) for name in found}
        told = (ROOT / "docs/monitoring.md").read_text("utf-8")
        lacks = [name for name in names if not re.search(r"^\|[^|]*`%s[`{]" % name, told, re.MULTILINE)]
        self.assertEqual((sorted(lacks), len(names) > 60), ([], True))

    def test_alerts_and_dashboard_name_what_there_is(self):
        alerts = ROOT / "docs/serve/alerts.yaml"
        said = subprocess.run([os.environ["WEIR_PROMTOOL"], "check", "rules", alerts],
                              capture_output=True, text=True, timeout=60)
        self.assertEqual(said.returncode, 0, said.stdout + said.stderr)
        self.assertIn("SUCCESS", said.stdout)
        board = json.loads((ROOT / "docs/serve/grafana.json").read_text())
        expressions = [one["expr"] for panel in board["panels"] for one in panel.get("targets", [])]
        self.are_read(expressions)
        expressions += [one["definition"] for one in board["templating"]["list"] if "definition" in one]
        expressions += re.findall(r"expr: (?:>-\n)?((?:.|\n)*?)\n +(?:for|labels):", alerts.read_text())
        there = set()
        for name, kind in re.findall(r"^# TYPE (\w+) (\w+)$", page(self.server, "/metrics")[1], re.MULTILINE):
            there |= {name + end for end in ("_bucket", "_sum", "_count")} if kind == "histogram" else {name}
        named = {name for one in expressions for name in METRIC.findall(one)}
        self.assertLess(15, len(named))
        self.assertEqual(named - there, set())

    def are_read(self, expressions):
        """As rules, which promtool knows how to read; variables of Grafana have values there."""
        plain = [re.sub(r"\$\w+", ".*", one.replace("$__rate_interval", "5m")) for one in expressions]
        rules = [{"record": "of:dashboard:%d" % i, "expr": one} for i, one in enumerate(plain)]
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            json.dump({"groups": [{"name": "dashboard", "rules": rules}]}, file)
            file.flush()
            said = subprocess.run([os.environ["WEIR_PROMTOOL"], "check", "rules", file.name],
                                  capture_output=True, text=True, timeout=60)
        self.assertEqual(said.returncode, 0, said.stdout + said.stderr)

    def test_the_page_is_whole_and_asks_nobody_else(self):
        code, body, fields = page(self.server, "/status")
        self.assertEqual((code, fields["content-type"]), (200, "text/html; charset=utf-8"))
        self.assertEqual(page(self.server, "/")[:2], (code, body))
        self.assertEqual(body, (ROOT / "src/server/serve/status.html").read_text(encoding="utf-8"))
        links, ids = [], []

        class Reader(html.parser.HTMLParser):
            def handle_starttag(self, tag, attributes):
                found = dict(attributes)
                links.extend(found[name] for name in ("href", "src", "action") if name in found)
                ids.extend(found[name] for name in ("id",) if name in found)

        Reader().feed(body)
        self.assertEqual(set(links), {"data:,", "status.json", "metrics", "readyz"})
        self.assertEqual(len(ids), len(set(ids)))
        self.assertEqual(set(re.findall(r'\bat\("([\w-]+)"\)', body)) - set(ids), set())
        self.assertEqual(re.findall(r"https?://(?!www\.w3\.org/2000/svg)", body), [])
        self.assertNotIn("innerHTML", body)


class Reloads(unittest.TestCase):
    def test_counts_go_on_and_keys_are_forgotten(self):
        """Names move to other places; a key that was shown may not be shown any more."""
        with Server(AWAY) as server:
            take(server, "plain", "was-shown", 3)
            take(server, "api", "k", 2)
            changed = server.config.replace("log_keys: plain", "log_keys: hashed").replace(
                "  hidden:", '  added: {store: main, rule: "quota:1/1d"}\n  hidden:')
            server.write(changed)
            server.await_log("is in use now")
            await_that(lambda: "added" in page(server)[1] and "was-shown" not in page(server)[1], "the reload")
            told = status(server)
            self.assertEqual(told["generation"], 2)
            self.assertEqual([row(told, name)["allowed"] for name in ("plain", "api", "added")], [1, 2, 0])
            self.assertEqual(row(told, "plain")["denied"], 2)
            take(server, "plain", "was-shown", 1)
            self.assertNotIn("was-shown", page(server)[1])
            server.write("nonsense\n")
            server.await_log("is not used")
            self.assertEqual(status(server)["reload_failures"], 1)
            self.assertEqual(server.metric('weir_serve_reloads_total{result="refused"}'), 1)


    def test_what_a_configuration_is_warned_of_stands_there_until_it_is_mended(self):
        plans = 'plans: {store: main, rule: "sliding-window:100/1m", tiers: {pro: "sliding-window:5000/1m"}'
        with Server(AWAY.replace("  hidden:", "  %s}\n  hidden:" % plans)) as server:
            [told] = [text for text in status(server)["warnings"] if "counts" in text]
            self.assertRegex(told, r"warning: limiters\.plans\.tiers\.pro: .*: give both most=5000; a key that moves")
            server.write(server.config.replace("}}\n  hidden:", "}, most: 5000}\n  hidden:"))
            server.await_log("is in use now")
            await_that(lambda: "give both" not in page(server)[1], "the mend")

    def test_no_count_goes_back_while_all_changes(self):
        """Loops change their tables at different times, while pages add them up."""
        with Server(AWAY.replace("logged_denials: 1000000", "logged_denials: 1")) as server:
            sent = [0] * 4
            over = threading.Event()

            def load(i):
                client = server.connect()
                while not over.is_set() or sent[i] < 100:
                    client.ask("WEIR.TAKE", "plain", "key%d" % (sent[i] % 100))
                    sent[i] += 1
                client.close()

            threads = [threading.Thread(target=load, args=(i,)) for i in range(len(sent))]
            for thread in threads:
                thread.start()
            before = 0
            for generation in range(2, 6):
                added = "".join("  n%d: {store: main, rule: quota:1/1s}\n" % i for i in range(generation % 3))
                server.write(server.config.replace("  hidden:", added + "  hidden:"))
                server.process.send_signal(signal.SIGHUP)
                while status(server)["generation"] < generation:
                    plain = row(status(server), "plain")
                    now = plain["allowed"] + plain["denied"]
                    self.assertLessEqual(before, now)
                    before = now
            over.set()
            for thread in threads:
                thread.join()
            plain = row(status(server), "plain")
            self.assertEqual(plain["allowed"] + plain["denied"], sum(sent))
            self.assertEqual(plain["allowed"], 100)
            self.assertEqual(status(server)["denied_keys"]["limiters_shown"], 2)


class Denials(unittest.TestCase):
    def test_the_log_is_limited(self):
        with Server(BASE + "limits: {logged_denials: 3}\n") as server:
            began = time.monotonic()
            take(server, "api", "k", 2003)
            seconds = time.monotonic() - began + 2  # those that have begun
            await_that(lambda: "more denials are not in this log" in server.log(), "what was left out")

            def told():
                log = server.log()
                left = sum(int(n) for n in re.findall(r"(\d+) more denials", log))
                return log.count("denied limiter=api"), left
            await_that(lambda: sum(told()) == 2000, "each denial, logged or left out")
            self.assertLessEqual(told()[0], 3 * seconds)

    def test_none_are_logged_where_none_are_wanted(self):
        with Server(BASE + "limits: {logged_denials: 0}\n") as server:
            take(server, "api", "k", 50)
            self.assertEqual(row(status(server), "api")["denied"], 47)
            self.assertNotIn("deni", server.log())


class Tokens(unittest.TestCase):
    def test_the_page_needs_none_and_its_figures_do(self):
        config = BASE.replace('admin: {address: "127.0.0.1:0"}', 'admin: {address: "127.0.0.1:0", auth: "s3cret-token"}')
        with Server(config) as server:
            self.assertEqual(page(server, "/status")[0], 200)
            self.assertEqual(page(server, "/")[0], 200)
            for path in ("/status.json", "/metrics", "/readyz", "/status/", "/status.html"):
                self.assertEqual(page(server, path)[0], 401, path)
            token = "Authorization: Bearer s3cret-token"
            self.assertEqual(page(server, "/status.json", token)[0], 200)
            self.assertEqual(page(server, "/status/", token)[0], 404)


if __name__ == "__main__":
    unittest.main()
