"""simulate decides as replay does, and counts right and wrong as the definition says."""

import json
import pathlib
import random
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "cli"))

from against_exact import Expected  # noqa: E402
from program import ProgramTest, run  # noqa: E402

NASA = str(HERE.parent / "replay" / "data" / "nasa1995aug01.txt.gz")
PERIOD_US = {"1m": 60_000_000, "10s": 10_000_000}


def made_up(seed, lines, costs):
    """Keys that come in turn, in bursts and pauses; short enough for every rule to deny some."""
    chance = random.Random(seed)
    now_ms, text = 1_600_000_000_000, []
    for _ in range(lines):
        now_ms += chance.choice((0, 0, 3, 40, 700, 2500, 9000 if chance.random() < 0.2 else 1))
        text.append(f"{now_ms} k{chance.randrange(4)} {chance.choice(costs)}\n")
    return "".join(text).encode()


class AgainstReplay(ProgramTest):
    def compare(self, rules, limit, period, path):
        given = [part for rule in rules for part in ("--rule", rule)]
        simulated = run("simulate", "--json", *given, path)
        self.assert_ends(simulated, 0)
        reports = [json.loads(line) for line in simulated.stdout.splitlines()][1:]
        self.assertEqual([report["rule"] for report in reports], rules)
        for report in reports:
            replayed = run("replay", "--rule", report["rule"], path)
            self.assert_ends(replayed, 0)
            expected = Expected(limit, PERIOD_US[period])
            requests = 0
            for line in replayed.stdout.splitlines():
                time_ms, key, cost, decision = line.split(b"\t")[:4]
                expected.feed(int(time_ms) * 1000, key, int(cost), decision == b"allowed")
                requests += 1
            found = (report["requests"], report["cost_allowed"], report["cost_wrongly_allowed"],
                     report["cost_wrongly_denied"], report["cost_exactly_allowed"],
                     report["most_admitted"])
            self.assertEqual(found, (requests, expected.allowed, expected.wrongly_allowed,
                                     expected.wrongly_denied, expected.exactly_allowed,
                                     expected.most), report["rule"])

    def rules(self, rate):
        return [f"fixed-window:{rate}", f"quota:{rate}", f"sliding-window:{rate}",
                f"sliding-window:{rate},cells=1", f"sliding-window:{rate},cells=16",
                f"sliding-window:{rate},strict", f"token-bucket:{rate}", f"leaky-bucket:{rate},queue=3",
                f"sliding-window:{rate},lease=1s", f"token-bucket:{rate},lease=500ms"]

    def test_on_a_real_trace(self):
        self.compare([*self.rules("10/1m"), "sliding-log:10/1m"], 10, "1m", NASA)

    def test_with_costs(self):
        for seed in range(3):
            with tempfile.NamedTemporaryFile() as trace:
                trace.write(made_up(seed, 1500, (1, 1, 2, 5, 13, 30)))
                trace.flush()
                self.compare(self.rules("20/10s"), 20, "10s", trace.name)

    def test_tenants_are_admitted_as_by_the_library(self):
        # Each tenant apart, under limits that stop some by the level and some by the bound.
        weights = "weights=k0:4|k1:1|k2:1"
        for rule in (f"shared-window:150/15s,cells=8,floors=60%,{weights}", f"shared-window:600/50s,cells=20,{weights}"):
            for seed, costs in ((1, (1,)), (2, (1, 1, 3))):
                with self.subTest(rule, seed=seed), tempfile.NamedTemporaryFile() as trace:
                    # At most 100 ms apart: some 10 ask in each second, and k3 is not named.
                    chance, now_ms = random.Random(seed), 1_600_000_000_000
                    for _ in range(4000):
                        now_ms += chance.choice((0, 0, 1, 10, 30, 100))
                        trace.write(f"{now_ms} k{chance.choice((0, 1, 1, 2, 3, 3, 3))} {chance.choice(costs)}\n".encode())
                    trace.flush()
                    given = ("--tenant", "key", "--deadline", "100ms", "--rule", rule)
                    simulated = run("simulate", "--json", "--processes", "1", *given, trace.name)
                    self.assert_ends(simulated, 0)
                    shares = json.loads(simulated.stdout.splitlines()[1])["shares"]
                    replayed = run("replay", *given, trace.name)
                    self.assert_ends(replayed, 0)
                    admitted = {}
                    for line in replayed.stdout.splitlines():
                        _, key, cost, decision = line.split(b"\t")[:4]
                        admitted[key] = admitted.get(key, 0) + (int(cost) if decision == b"allowed" else 0)
                    self.assertEqual({one["tenant"].encode(): one["admitted"] for one in shares}, admitted)
                    self.assertLess(sum(admitted.values()), sum(one["cost"] for one in shares))

    def test_in_bursts(self):
        for seed in range(3):
            with tempfile.NamedTemporaryFile() as trace:
                trace.write(made_up(seed, 1500, (1,)))
                trace.flush()
                self.compare([*self.rules("5/10s"), "sliding-log:5/10s"], 5, "10s", trace.name)


if __name__ == "__main__":
    unittest.main()
