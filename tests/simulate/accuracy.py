"""Makes the tables and pictures of docs/accuracy.md from what `weir simulate` says.

    WEIR_PROGRAM=build/weir python3 tests/simulate/accuracy.py           writes them; needs gnuplot
    WEIR_PROGRAM=build/weir python3 tests/simulate/accuracy.py --check   compares the tables with the page

--check TABLE... compares those tables only. In the page a table stands between two comments that name it.
"""

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "accuracy.md"
PLOTS = ROOT / "docs" / "plots"
TRACE = "tests/replay/data/nasa1995aug01.txt.gz"
CELLS = (1, 4, 16, 64)
KINDS = ("uniform", "poisson", "diurnal", "bursts", "pages", "boundary", "paced")
LIMITS = ("5/1m", "10/1m", "20/1m", "10/5m", "10/10m", "50/1h", "100/1h")
ATTACKED = (10, 50, 1000)


def program(*arguments):
    return subprocess.run([os.environ["WEIR_PROGRAM"], *arguments], cwd=ROOT, check=True, text=True,
                          stdout=subprocess.PIPE).stdout


def simulate(rules, *source):
    """The words about each rule."""
    given = [part for rule in rules for part in ("--rule", rule)]
    lines = program("simulate", "--json", *given, *source).splitlines()
    found = [json.loads(line) for line in lines]
    return found if "--attack" in source else found[1:]


def sliding(rate, cells):
    return f"sliding-window:{rate},cells={cells}"


def all_rules(rate):
    return ([f"fixed-window:{rate}", f"quota:{rate}"] + [sliding(rate, cells) for cells in CELLS] +
            [f"sliding-window:{rate},strict", f"token-bucket:{rate}", f"sliding-log:{rate}"])


def percent(part, whole, digits=2):
    return f"{100 * part / whole:.{digits}f} %" if whole else "-"


def table(head, rows):
    lines = [head, ["---"] + ["---:"] * (len(head) - 1), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def decisions(results):
    head = ["rule", "denied", "wrongly allowed", "wrongly denied", "admitted, of exact",
            "off exact, by key", "most in a period", "error, mean", "error, 99 of 100"]
    rows = []
    for r in results:
        measured = "error_mean" in r
        rows.append([f"`{r['rule']}`", percent(r["requests"] - r["allowed"], r["requests"]),
                     percent(r["wrongly_allowed"], r["requests"], 3),
                     percent(r["wrongly_denied"], r["requests"], 3),
                     percent(r["cost_allowed"], r["cost_exactly_allowed"]),
                     percent(r["cost_differing"], r["cost_exactly_allowed"]),
                     f"{r['most_admitted'] / r['limit']:.2f} L",
                     percent(r["error_mean"], 1) if measured else "",
                     percent(r["error_p99"], 1, 1) if measured else ""])
    return table(head, rows)


def wrong(result):
    return result["wrongly_allowed"] + result["wrongly_denied"]


def ratio(part, whole):
    return f"{part / whole:.2f}" if whole else "-"


def compare_cells(name, rate, *source):
    """One row: how many decisions are wrong with 1, 4, 16 and 64 cells, and under strict."""
    results = simulate([sliding(rate, cells) for cells in CELLS] + [f"sliding-window:{rate},strict"],
                       *source)
    requests = results[0]["requests"]
    exact = results[0]["cost_exactly_allowed"]
    return ([name, percent(requests - exact, requests, 1)] +
            [percent(wrong(r), requests, 3) for r in results[:4]] +
            [ratio(wrong(r), wrong(results[0])) for r in results[1:4]] +
            [results[4]["wrongly_allowed"]])


CELLS_HEAD = ["exact window denies", "N = 1", "N = 4", "N = 16", "N = 64", "4 : 1", "16 : 1", "64 : 1",
              "strict wrongly allows"]


def nasa_table():
    return decisions(simulate(all_rules("10/1m"), TRACE))


def cells_table():
    return table(["limit", *CELLS_HEAD], [compare_cells(f"`{rate}`", rate, TRACE) for rate in LIMITS])


def together(rows):
    """All kinds, each counting alike: the mean shares, and their ratios."""
    means = [sum(float(row[column].split()[0]) for row in rows) / len(rows) for column in range(1, 6)]
    return (["all, alike", f"{means[0]:.1f} %"] + [f"{mean:.3f} %" for mean in means[1:]] +
            [ratio(mean, means[1]) for mean in means[2:]] + [sum(row[9] for row in rows)])


def made_up_table(load):
    rows = [compare_cells(kind, "10/1m", "--generate", f"{kind}:load={load}") for kind in KINDS]
    return table(["traffic", *CELLS_HEAD], rows + [together(rows)])


def attacked_rules(limit):
    return all_rules(f"{limit}/1m") + [f"token-bucket:{limit}/1m,burst={limit // 5}",
                                       f"leaky-bucket:{limit}/1m,queue={limit // 5}"]


def attack_table():
    rows = []
    columns = [simulate(attacked_rules(limit), "--attack") for limit in ATTACKED]
    for results in zip(*columns):
        row = ["`" + results[0]["rule"].replace(":10/", ":L/").replace("=2", "=L/5") + "`"]
        for r in results:
            row += [r["most_admitted"], r["bound"]]
        rows.append(row)
    head = ["rule"] + [text for limit in ATTACKED for text in (f"L = {limit}: found", "bound")]
    return table(head, rows)


def costs_table():
    rate, source = "100/1m", ("--generate", "poisson:keys=50,load=50")
    rows = [[f"`{r['rule']}`", f"{r['operations'] / r['requests']:.2f}",
             f"{r['trips'] / r['requests']:.2f}", f"{r['entries_mean']:.1f}",
             f"{r['state_bytes_mean']:.0f}"] for r in simulate(all_rules(rate), *source)]
    return table(["rule", "operations per request", "round trips per request", "entries per key",
                  "bytes per key"], rows)


TABLES = {"nasa": nasa_table, "cells": cells_table, "load 50": lambda: made_up_table(50),
          "load 200": lambda: made_up_table(200), "attack": attack_table, "costs": costs_table}


def parts(name, page):
    """The page before, in and after that table."""
    match = re.search(rf"(.*<!-- table: {name} -->\n)(.*?)(\n<!-- end -->.*)", page, re.DOTALL)
    if not match:
        raise SystemExit(f"{PAGE} has no table {name}")
    return match.groups()


def draw_estimates():
    rules = [part for cells in (1, 4, 16) for part in ("--rule", sliding("10/1m", cells))]
    program("simulate", *rules, "--plot", str(PLOTS / "nasa.svg"), TRACE)
    rules = [part for cells in (1, 4, 16) for part in ("--rule", sliding("50/1m", cells))]
    program("simulate", *rules, "--plot", str(PLOTS / "bursts.svg"), "--generate",
            "bursts:keys=20,load=50,requests=20000")


def draw_cells():
    """Wrong decisions by the number of cells, on logarithmic axes: one line for each limit."""
    counts = (1, 2, 4, 8, 16, 32, 64)
    chosen = ("5/1m", "10/1m", "10/10m", "50/1h", "100/1h")
    script = ["set terminal svg size 760,430 font 'sans,13' background '#ffffff' noenhanced",
              "set logscale xy", "set xlabel 'cells per period (N)'",
              "set ylabel 'wrong decisions, % of requests'", "set grid ytics lc rgb '#dddddd'",
              "set border 3", "set tics nomirror", "set xrange [0.9:72]", "set yrange [0.003:12]",
              "set xtics (" + ", ".join(map(str, counts)) + ")",
              "set key outside right center title 'limit' samplen 3"]
    plots = []
    for i, rate in enumerate(chosen):
        results = simulate([sliding(rate, cells) for cells in counts], TRACE)
        script += [f"$d{i} << END", *(f"{cells} {100 * wrong(r) / r['requests']}"
                                      for cells, r in zip(counts, results)), "END"]
        plots.append(f"$d{i} using 1:2 with linespoints lw 1.6 pt {4 + i} dt {i + 1} "
                     f"lc rgb '{['#004488', '#bb2200', '#000000', '#117733', '#884400'][i]}' "
                     f"title '{rate}'")
    script.append("plot " + ", ".join(plots))
    with open(PLOTS / "cells.svg", "wb") as picture:
        subprocess.run(["gnuplot"], input="\n".join(script).encode(), stdout=picture, check=True)


def write():
    PLOTS.mkdir(exist_ok=True)
    page = PAGE.read_text()
    for name, make in TABLES.items():
        before, _, after = parts(name, page)
        page = before + make() + after
    PAGE.write_text(page)
    draw_estimates()
    draw_cells()


def check(names):
    page = PAGE.read_text()
    stale = []
    for name in names:
        made = TABLES[name]()
        if parts(name, page)[1] != made:
            stale.append(name)
            print(f"table {name} of {PAGE} is not what the program says now:\n{made}")
    print(f"{len(names) - len(stale)} of {len(names)} tables are what the program says")
    return 1 if stale else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", nargs="*", metavar="TABLE", choices=list(TABLES))
    asked = parser.parse_args()
    if asked.check is None:
        write()
        return 0
    return check(asked.check or list(TABLES))


if __name__ == "__main__":
    sys.exit(main())
