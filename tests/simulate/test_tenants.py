"""weir simulate --tenant: shares, held against a division that this file makes itself."""

import json
import pathlib
import random
import re
import resource
import shlex
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE.parent / "cli"))

from program import ProgramTest, run  # noqa: E402

BEGIN_MS = 1764028800000
PERIOD_MS = 15000


def traffic(rates, seconds, seed=1, cost=1):
    """(ms, tenant, cost) in order: each tenant asks at independent moments, so often in a second."""
    chance, made = random.Random(seed), []
    for tenant, (rate, on_s, off_s) in rates.items():
        now = 0.0
        while True:
            now += chance.expovariate(rate)
            if now >= seconds:
                break
            if on_s == 0 or now % (on_s + off_s) < on_s:
                made.append((BEGIN_MS + int(now * 1000), tenant, chance.randint(1, cost)))
    return sorted(made)


def trace(made):
    return "".join("%d %s %d\n" % one for one in made).encode()


class Division:
    """What each tenant would have by max-min in each cell, by a fixed split and by first come first served."""

    def __init__(self, limit, period_ms, cells, weights, made, others=0):
        self.limit, self.cells, self.weights, self.others = limit, cells, weights, others
        self.cell_ms = -(-period_ms // cells)
        self.fair, self.split, self.first = {}, {}, {}
        asked, by_split, by_order = {}, {}, {}
        for ms, tenant, cost in made:
            cell = ms // self.cell_ms
            asked.setdefault(cell, {}).setdefault(tenant, 0)
            asked[cell][tenant] += cost
            part = limit * weights.get(tenant, others) // (sum(weights.values()) + others)
            own = tenant if tenant in weights or not others else "all others"
            self.take(by_split.setdefault(own, {}), cell, cost, part, tenant, self.split)
            self.take(by_order, cell, cost, limit, tenant, self.first)
        self.asked = asked
        for demands in asked.values():
            for tenant, got in self.fill(demands, limit / cells).items():
                self.fair[tenant] = self.fair.get(tenant, 0) + got

    def take(self, counts, cell, cost, limit, tenant, admitted):
        admitted.setdefault(tenant, 0)
        if sum(counts.get(c, 0) for c in range(cell - self.cells + 1, cell + 1)) + cost <= limit:
            counts[cell] = counts.get(cell, 0) + cost
            admitted[tenant] += cost

    def fill(self, demands, left):
        """The level by halving, where weir sorts."""
        unnamed = self.others / (len(demands.keys() - self.weights.keys()) or 1) if self.others else 1
        weight = {tenant: self.weights.get(tenant, unnamed) for tenant in demands}
        low, high = 0.0, max(demand / weight[tenant] for tenant, demand in demands.items())
        if sum(demands.values()) > left:
            for _ in range(60):
                level = (low + high) / 2
                if sum(min(demand, level * weight[tenant]) for tenant, demand in demands.items()) > left:
                    high = level
                else:
                    low = level
        return {tenant: min(demand, high * weight[tenant]) for tenant, demand in demands.items()}


    def floors_of_others(self, floors=50):
        """The mean floor of each, in the cells in which it asked; 0 in its first epoch, of four cells."""
        of_cell = self.limit * floors // (100 * (self.cells + 2)) * self.others // (sum(self.weights.values()) + self.others)
        for_all, seen, found = of_cell - max(1, of_cell // 20), {}, {}
        for cell, demands in self.asked.items():
            seen.setdefault(cell // 4, set()).update(demands.keys() - self.weights.keys())
        for cell, demands in self.asked.items():
            before = seen.get(cell // 4 - 1, ())
            for tenant in demands.keys() - self.weights.keys():
                found.setdefault(tenant, []).append(for_all // len(before) if tenant in before else 0)
        return {tenant: sum(each) // len(each) for tenant, each in found.items()}


def rule_of(limit, cells, weights, floors=50, others=0):
    return "shared-window:%d/15s,floors=%d%%,cells=%d,weights=%s%s" % (
        limit, floors, cells, "|".join("%s:%d" % one for one in weights.items()), ",others=%d" % others if others else "")


class Tenants(ProgramTest):
    def reports(self, *arguments, stdin=b""):
        result = run("simulate", "--json", *arguments, stdin=stdin)
        self.assert_ends(result, 0)
        return [json.loads(line) for line in result.stdout.splitlines()]

    def refused(self, says, *arguments, stdin=b""):
        result = run("simulate", *arguments, stdin=stdin)
        self.assert_ends(result, 2)
        self.assertEqual(len(result.stderr.splitlines()), 1)
        self.assertIn(says, result.stderr)

    def divided(self, rule, made):
        """The promises, and what is reported of each tenant."""
        _, found = self.reports("--tenant", "key", "--top", "1000", "--rule", rule, stdin=trace(made))
        self.assertLessEqual(found["most_admitted"], found["limit"])
        self.assertEqual(found["floor_denied"], 0)
        self.assertEqual(found["cost"], sum(cost for _, _, cost in made))
        self.assertEqual(found["cost_allowed"], sum(one["admitted"] for one in found["shares"]))
        return found, {one["tenant"]: one for one in found["shares"]}

    # --- against a second implementation

    def test_the_ways_beside_it_divide_as_counted_here(self):
        scenes = [
            (1200, 30, {"a": 1, "b": 1}, {"a": (240, 0, 0), "b": (32, 0, 0)}, 1),
            (900, 8, {"a": 5, "b": 3, "c": 2}, {"a": (90, 0, 0), "b": (60, 2, 3), "c": (5, 0, 0), "new": (9, 0, 0)}, 1),
            (3000, 20, {"a": 1, "b": 4}, {"a": (30, 5, 9), "b": (99, 0, 0)}, 9),
            (3000, 30, {"a": 2}, {"a": (90, 4, 9), "new": (9, 3, 9), "now": (250, 0, 0), "old": (30, 0, 0)}, 1, 3),
            (3000, 12, {"a": 2}, {"a": (30, 0, 0), "new": (9, 9, 9), "now": (70, 0, 0), "old": (9, 0, 0)}, 5, 1),
        ]
        for limit, cells, weights, rates, cost, *others in scenes:
            with self.subTest(limit=limit, cells=cells):
                made = traffic(rates, 60, seed=cells, cost=cost)
                want = Division(limit, PERIOD_MS, cells, weights, made, *others)
                found, shares = self.divided(rule_of(limit, cells, weights, others=sum(others)), made)
                floors = want.floors_of_others() if others else {}
                self.assertEqual({tenant: share["floor"] for tenant, share in shares.items() if tenant in floors}, floors)
                self.assertEqual(sorted(shares), sorted(rates))
                for tenant, share in shares.items():
                    self.assertEqual(share["weight"], weights.get(tenant, 0))
                    self.assertEqual(share["fixed_split"], want.split[tenant])
                    self.assertEqual(share["first_come"], want.first[tenant])
                    self.assertAlmostEqual(share["max_min"], want.fair[tenant], delta=1e-6 * want.fair[tenant])
                self.assertAlmostEqual(found["max_min"], sum(want.fair.values()), delta=1e-6 * found["max_min"])
                worst = min(share["admitted"] / share["max_min"] for share in shares.values() if share["max_min"] > 20 * cost)
                self.assertAlmostEqual(found["worst"], min(1, worst), delta=1e-6)
                self.assertGreater(found["first_come"]["floor_denied"], 0)  # so 0 of the rule says something

    def test_it_uses_what_max_min_would_and_a_greedy_one_harms_nobody(self):
        weights = {"a": 1, "b": 1}
        made = traffic({"a": (600, 0, 0), "b": (80, 0, 0)}, 75)
        found, shares = self.divided(rule_of(3000, 30, weights, floors=80), made)
        self.assertGreater(found["cost_allowed"], 0.96 * found["max_min"])
        self.assertGreater(shares["b"]["admitted"], 0.96 * shares["b"]["cost"])
        self.assertLess(shares["b"]["first_come"], 0.4 * shares["b"]["cost"])
        # One alone has nearly all.
        found, _ = self.divided(rule_of(3000, 30, weights), [one for one in made if one[1] == "a"])
        self.assertGreater(found["cost_allowed"], 0.96 * found["max_min"])
        self.assertLess(found["fixed_split"]["admitted"], 0.6 * found["max_min"])

    def test_it_is_the_same_every_time_and_from_several_files(self):
        made = traffic({"t%d" % i: (5 + i, i % 3, 4) for i in range(9)}, 40)
        rule = ("--tenant", "key", "--rule", rule_of(900, 30, {"t0": 1, "t1": 2, "t8": 5}))
        first, again = (run("simulate", "--json", *rule, stdin=trace(made)).stdout for _ in range(2))
        self.assertEqual(first, again)
        with tempfile.TemporaryDirectory() as folder:
            for part in (0, 1):
                # Requests of one moment come in the order of the files.
                pathlib.Path(folder, str(part)).write_bytes(trace([one for one in made if (one[0] // 7 % 2) == part]))
            split = run("simulate", "--json", *rule, folder + "/0", folder + "/1").stdout
        self.assertEqual(split.splitlines()[1], first.splitlines()[1])

    # --- input

    def test_pools_by_key_and_fields_of_logs(self):
        lines = b"".join(b'{"time": %d, "org": "o%d", "team": "%s"}\n' % (1764028800 + i // 8, i % 2, team)
                         for i, team in enumerate([b"red", b"blue", b"-", b"red"] * 30))
        rule = ("--rule", "shared-window:600/15s,weights=red:1|blue:1", "--format", "json", "--tenant", "team")
        source, found = self.reports(*rule, "--key", "org", stdin=lines)
        self.assertEqual((source["requests"], source["without_key"], source["keys_most"]), (90, 30, 2))
        self.assertEqual([(one["pool"], one["tenant"], one["cost"], one["admitted"]) for one in found["shares"]],
                         [("o0", "red", 30, 30), ("o1", "blue", 30, 30), ("o1", "red", 30, 30)])
        source, found = self.reports(*rule, stdin=lines)  # all are one pool
        self.assertEqual([(one["pool"], one["tenant"]) for one in found["shares"]], [("all", "red"), ("all", "blue")])
        log = b"192.0.2.1 1764028800.5 red\n192.0.2.2 1764028800.7 blue\n"
        pattern = ("--format", "$remote_addr $msec $http_x_team", "--tenant", "$http_x_team")
        found = self.reports(*rule[:2], *pattern, stdin=log)[1]
        self.assertEqual([one["tenant"] for one in found["shares"]], ["blue", "red"])
        made_up = self.reports("--rule", "shared-window:600/15s,weights=key1:9|key2:1", "--tenant", "key", "--generate",
                               "poisson:keys=3,load=50,requests=3000")[1]
        self.assertEqual(sorted(one["weight"] for one in made_up["shares"]), [0, 1, 9])

    def test_a_report_and_a_picture(self):
        made = traffic({"t%02d" % i: (20, 0, 0) for i in range(30)}, 20)
        with tempfile.TemporaryDirectory() as folder:
            log, picture = folder + "/log", folder + "/shares.svg"
            pathlib.Path(log).write_bytes(trace(made))
            rules = [word for floors in (50, 80) for word in ("--rule", rule_of(900, 30, {"t00": 1, "t01": 2}, floors))]
            result = run("simulate", "--tenant", "key", *rules, "--plot", picture, log)
            self.assert_ends(result, 0)
            for says in (b"\ntenants: 30\n", b"\n  fixed split ", b"\n  first come ", b"  tenant\n", b"\nand 10 tenants more: --top"):
                self.assertIn(says, result.stdout)
            drawn = pathlib.Path(picture).read_text()
            for says in ("max-min", "floors=50%", "floors=80%", "fixed split", "first come"):
                self.assertIn(says, drawn)

    def test_the_page_says_what_the_program_says(self):
        page = (ROOT / "docs/shares.md").read_text()
        command, said = re.search(r"```sh\n(weir simulate --tenant .*?)```.*?```text\n(.*?)```", page, re.DOTALL).groups()
        arguments = shlex.split(command.replace("\\\n", "").replace("tests/replay", str(ROOT / "tests/replay")))[1:]
        self.assertIn(said, run(*arguments).stdout.decode())

    def test_what_is_refused(self):
        rule = ("--rule", "shared-window:600/15s,weights=a:1|b:1")
        self.refused(b'--tenant is for rules that have tenants: "quota:5/1d" has none', *rule, "--rule", "quota:5/1d",
                     "--tenant", "key", stdin=b"1 a\n")
        self.refused(b"the requests do not say who their tenants are; --tenant FIELD", *rule, stdin=b"1 a\n")
        self.refused(b'--tenant "nobody": accepted are client, user', *rule, "--tenant", "nobody", stdin=b"1 a\n")
        self.refused(b"a trace names its keys and costs itself", *rule, "--tenant", "user", stdin=b"1 a\n")
        self.refused(b"--tenant key is of a trace", *rule, "--tenant", "key", stdin=b'{"time": 5, "client": "a"}\n')
        self.refused(b"--key, --cost or --tenant: ", *rule, "--format", "$remote_addr $msec", "--tenant", "$team")
        self.refused(b'--key "all", and --tenant: no line has it', *rule, "--format", "json", "--tenant", "team",
                     stdin=b'{"time": 5, "client": "a"}\n')
        self.refused(b"--tenant is for logs: --generate does not go with it", *rule, "--tenant", "user", "--generate", "poisson")
        for name in (("--attack",), ("--recommend", "1%"), ("--real", "bytes"), ("--class", "user"), ("--duration", "took")):
            self.refused(b"does not go with it", *rule, "--tenant", "key", *name, stdin=b"1 a\n")

    # --- what is too much

    def test_a_million_tenants_end_at_a_limit_and_within_memory(self):
        rule = ("--rule", "shared-window:600/15s,weights=a:1|b:1", "--tenant", "key")
        many = b"".join(b"%d t%d\n" % (BEGIN_MS + i // 40, i) for i in range(1000000))
        self.refused(b"weir: stdin:10001: one tenant too many: accepted are up to 10000 of all keys together", *rule, stdin=many)
        found = self.reports(*rule, stdin=b"".join(many.splitlines(keepends=True)[:10000]))[1]
        self.assertEqual((found["tenants"], len(found["shares"])), (10000, 20))
        self.assertLess(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, 200 << 10)  # KiB; asan has its own
        odd = b"%d %s\n%d \xff\x01\n" % (BEGIN_MS, b"x" * 60000, BEGIN_MS)
        self.assertIn("tenant_base64", self.reports(*rule, stdin=odd)[1]["shares"][1])


if __name__ == "__main__":
    unittest.main()
