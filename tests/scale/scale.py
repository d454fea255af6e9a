"""Makes the tables and the picture of docs/scale.md from what weir_scale says.

    WEIR_SCALE=build/tests/scale/weir_scale python3 tests/scale/scale.py     writes them; needs gnuplot
    WEIR_SCALE=... python3 tests/scale/scale.py --check                      the table "held" alone
    WEIR_SCALE=... python3 tests/scale/scale.py --check far --processes 10   those rows of these tables

In the page a table stands between two comments that name it. A row is a run for each of its rules, so that
some rows can be checked without the others.
"""

import argparse
import concurrent.futures
import functools
import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "scale.md"
PLOT = ROOT / "docs" / "plots" / "scale.svg"

LEASES_MS = {10: 20, 100: 100, 1000: 500, 10000: 1000}
KINDS = {"window": 0, "bucket, swap": 0, "bucket, raise": 1}  # raises=


def duration(ms):
    return "1s" if ms == 1000 else f"{ms}ms"


def rule(kind, per_s, lease_ms, window_s=1):
    if kind == "window":
        return f"sliding-window:{per_s * window_s}/{window_s}s"
    return f"token-bucket:{per_s}/1s,burst={per_s * lease_ms * 4 // 1000}"


@functools.lru_cache(maxsize=None)
def run(*given):
    program = os.environ["WEIR_SCALE"]
    return json.loads(subprocess.run([program, *given], check=True, text=True, stdout=subprocess.PIPE).stdout)


def measure(kind, text, lease_ms, **options):
    lease = f",lease={duration(lease_ms)}" if lease_ms else ""
    named = [f"{name.replace('_', '-')}={number}" for name, number in sorted(options.items())]
    return run(f"rule={text}{lease}", f"raises={KINDS[kind]}", *named)


def percent(part, whole, digits=1):
    """A share that is not all and not nothing is never rounded to it."""
    text = f"{100 * part / whole:.{digits}f}"
    if part < whole and float(text) == 100:
        text = str(100 - 10 ** -digits)
    if part > 0 and float(text) == 0:
        text = str(10 ** -digits)
    return f"{text} %" if 0 < part < whole else f"{100 * part // whole} %" if part <= 0 else f"{text} %"


def time(us):
    return "0" if us == 0 else f"{us} us" if us < 1000 else f"{us / 1000:.1f} ms"


def cost(f):
    return f"{f['commands'] / f['asked']:.3f}"


def fair(f):
    return f"{f['fair_ppm'] / 1e6:.2f}"


def figures(f):
    return [percent(f["admitted"], f["allowed"]), cost(f), time(f["p99_us"]),
            percent(f["failed"], f["asked"]), fair(f)]


FIGURES = ["admitted of allowed", "commands a decision", "p99", "no decision", "fairness"]


def compared(processes, per_s, window_s=1, kinds=tuple(KINDS), **options):
    """A row for each kind of rule: without leases, and with."""
    rows = []
    for kind in kinds:
        lease_ms = LEASES_MS[processes]
        text = rule(kind, per_s, lease_ms, window_s)
        both = [figures(measure(kind, text, ms, clients=processes, **options)) for ms in (0, lease_ms)]
        rows.append([f"{processes:,}", kind, *both[0], f"{duration(lease_ms)}: {both[1][0]}", *both[1][1:]])
    return rows


COMPARED = ["processes", "rule", *FIGURES, "with a lease of", *FIGURES[1:]]
LONG = {"span": 2000000, "warm_up": 2000000}


def far(processes):
    return compared(processes, 200000, window_s=4, **LONG)


def over(processes):
    """Where swaps fill the server, a limit changes nothing."""
    kinds = [kind for kind in KINDS if processes <= 100 or kind != "bucket, swap"]
    return compared(processes, 20000, kinds=kinds, **LONG)


def held(processes):
    return compared(processes, 20000, span=100000)


def law(processes):
    """Commands a second beside 2P / lease."""
    lease_ms = LEASES_MS[processes]
    said = 2 * processes * 1000 // lease_ms
    row = [f"{processes:,}", duration(lease_ms), f"{said:,}"]
    for kind in KINDS:
        f = measure(kind, rule(kind, 200000, lease_ms, 4), lease_ms, clients=processes, **LONG)
        row.append(f"{f['commands'] * 1000000 // LONG['span']:,}")
    return [row]


SWAPS_LEAST = (3, 6, 10, 20)  # leases, in round trips of all processes


def swaps(processes):
    """A bucket that is swapped, by the length of its lease."""
    row = [f"{processes:,}"]
    for times in SWAPS_LEAST:
        lease_ms = times * processes * 150 // 1000
        if lease_ms > 1000:
            row += ["-"] * 2
            continue
        text = rule("bucket, swap", 200000, lease_ms)
        f = measure("bucket, swap", text + f",lease={lease_ms}ms", 0, clients=processes, **LONG)
        row += [time(f["p99_us"]), percent(f["failed"], f["asked"], 2)]
    return [row]


FAULTS = {
    "none": {},
    "bursts of 20 from one process": {"burst": 20},
    "round trip 500 us": {"round_trip": 500},
    "1 of 1,000 messages lost": {"lost_ppm": 1000},
    "1 of 100 messages lost": {"lost_ppm": 10000},
    "clocks 1 ms off": {"skew": 1000},
    "clocks 10 ms off": {"skew": 10000},
    "each process dies every second": {"crash_every": 1000000},
    "500 us, 1 of 1,000 lost, 1 ms off, dying": {"round_trip": 500, "lost_ppm": 1000, "skew": 1000,
                                              "crash_every": 1000000},
    "the server restarts, empty": {"forget_at": 3500000},
}


def faults(name):
    row = [name]
    for kind in KINDS:
        f = measure(kind, rule(kind, 20000, 50), 50, clients=20, **LONG, **FAULTS[name])
        row += [percent(f["admitted"], f["allowed"]), percent(f["failed"], f["asked"]), fair(f),
                f"{f['most']:,} of {f['bound']:,}"]
    return [row]


def deaths(kind):
    row = [kind]
    for lease_ms in (0, 50):
        f = measure(kind, rule(kind, 20000, 50), lease_ms, clients=20, crash_every=1000000, **LONG)
        row += [percent(f["admitted"], f["allowed"]), percent(f["died"], f["asked"], 3)]
    return [row]


OF_FAULTS = [text for kind in KINDS for text in (f"{kind}: admitted", "no decision", "fairness", "most")]
TABLES = {
    "far": (COMPARED, far, list(LEASES_MS)),
    "over": (COMPARED, over, list(LEASES_MS)),
    "law": (["processes", "lease", "2P / lease", *KINDS], law, list(LEASES_MS)),
    "swaps": (["processes", *(text for times in SWAPS_LEAST
                              for text in (f"{times} P RTT: p99", "no decision"))], swaps, [20, 100, 300, 1000]),
    "faults": (["20 processes, lease 50 ms", *OF_FAULTS], faults, list(FAULTS)),
    "deaths": (["20 processes", "admitted", "died with it", "lease 50 ms: admitted", "died with it"], deaths,
               list(KINDS)),
    "held": (COMPARED, held, [10, 100]),
}


def line(cells):
    return "| " + " | ".join(str(cell) for cell in cells) + " |"


def table(name, pool):
    head, rows_of, about = TABLES[name]
    rows = [row for some in pool.map(rows_of, about) for row in some]
    return "\n".join(map(line, [head, ["---"] + ["---:"] * (len(head) - 1), *rows]))


def parts(name, page):
    """The page before, in and after that table."""
    match = re.search(rf"(.*<!-- table: {name} -->\n)(.*?)(\n<!-- end -->.*)", page, re.DOTALL)
    if not match:
        raise SystemExit(f"{PAGE} has no table {name}")
    return match.groups()


def draw():
    """Commands a decision by the number of processes, where the limit is not reached."""
    script = ["set terminal svg size 760,430 font 'sans,13' background '#ffffff' noenhanced",
              "set logscale xy", "set xlabel 'processes that share the key'",
              "set ylabel 'commands a decision'", "set grid ytics lc rgb '#dddddd'",
              "set border 3", "set tics nomirror", "set xrange [8:12500]", "set yrange [0.008:12]",
              "set xtics ('10' 10, '100' 100, '1,000' 1000, '10,000' 10000)",
              "set key outside right center samplen 3"]
    plots = []
    colours = ["#004488", "#bb2200", "#117733"]
    for i, kind in enumerate(KINDS):
        for leased in (0, 1):
            name = f"$d{i}{leased}"
            script.append(f"{name} << END")
            for processes, lease_ms in LEASES_MS.items():
                f = measure(kind, rule(kind, 200000, lease_ms, 4), leased * lease_ms, clients=processes, **LONG)
                script.append(f"{processes} {cost(f)}")
            script.append("END")
            plots.append(f"{name} using 1:2 with linespoints lw 1.6 pt {5 + i * 2 - leased} dt {1 + leased} "
                         f"lc rgb '{colours[i]}' title '{kind}{', lease' if leased else ''}'")
    script.append("plot " + ", ".join(plots))
    with open(PLOT, "wb") as picture:
        subprocess.run(["gnuplot"], input="\n".join(script).encode(), stdout=picture, check=True)


def write():
    page = PAGE.read_text()
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for name in TABLES:
            before, _, after = parts(name, page)
            page = before + table(name, pool) + after
    PAGE.write_text(page)
    draw()


def check(names, processes):
    page = PAGE.read_text()
    rows, stale = 0, 0
    for name in names:
        said = parts(name, page)[1].splitlines()
        for what in TABLES[name][2]:
            if processes and what not in processes:
                continue
            for row in map(line, TABLES[name][1](what)):
                rows += 1
                if row in said:
                    continue
                stale += 1
                print(f"table {name} of {PAGE} has not what the simulation says now:\n{row}")
    print(f"{rows - stale} of {rows} rows are what the simulation says")
    return 1 if stale or not rows else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", nargs="*", metavar="TABLE", choices=list(TABLES))
    parser.add_argument("--processes", nargs="*", type=int)
    asked = parser.parse_args()
    if asked.check is None:
        write()
        return 0
    return check(asked.check or ["held"], asked.processes)


if __name__ == "__main__":
    sys.exit(main())
