"""Makes the tables and the picture of docs/sites.md from what weir_scale says.

    WEIR_SCALE=build/tests/scale/weir_scale python3 tests/scale/sites.py     writes them; needs gnuplot
    WEIR_SCALE=... python3 tests/scale/sites.py --check sites --processes 5  that row of this table

Each site is one process with a limiter of its own, far from the one store; each asks twice as often as the
next. The limit is 500 a second, and three times as much is asked, once a window is full.
"""

import subprocess
import sys

import scale

scale.PAGE = scale.ROOT / "docs" / "sites.md"
scale.PLOT = scale.ROOT / "docs" / "plots" / "sites.svg"

RULE = "sliding-window:300000/10m"
LEASES_MS = [100, 250, 500, 1000]
FIGURES = ["waited", "used", "commands a second", "fairness", "most"]


def run(rule, lease_ms, trip_ms=80, sites=5, asked=1500, raises=0):
    return scale.run(f"rule={rule},lease={scale.duration(lease_ms)}", f"raises={raises}", f"clients={sites}",
                     "uneven=2", f"asked={asked}", f"round-trip={trip_ms * 1000}", "deadline=500000",
                     "warm-up=600000000", "span=300000000")


def waited(f):
    return scale.percent(f["waited"], f["asked"], 3)


def figures(f):
    return [waited(f), scale.percent(f["admitted"], f["allowed"]), f"{f['commands'] / 300:.0f}",
            f"{f['fair_ppm'] / 1e6:.2f}", f"{f['most']:,} of {f['bound']:,}"]


def distance(trip_ms):
    row = [f"{trip_ms} ms"]
    for lease_ms in LEASES_MS:
        f = run(RULE, lease_ms, trip_ms)
        row += [waited(f), scale.percent(f["admitted"], f["allowed"])]
    return [row]


def sites(count):
    return [[count, *figures(run(RULE, 1000, sites=count))]]


RULES = {
    "sliding-window:300000/10m": {},
    "sliding-window:300000/10m,strict": {},
    "sliding-window:30000/1m": {},
    "sliding-window:5000/10s": {},
    "fixed-window:30000/1m": {},
    "quota:30000/1m": {},
    "token-bucket:500/1s,burst=5000": {"raises": 1},
}


def rules(rule):
    """Three times over the limit, and a tenth below it."""
    over, under = (run(rule, 1000, asked=asked, **RULES[rule]) for asked in (1500, 450))
    return [[f"`{rule}`", *figures(over), waited(under)]]


DISTANCES_MS = [10, 40, 80, 150]
scale.TABLES = {
    "distance": (["there and back", *(text for ms in LEASES_MS
                                      for text in (f"lease {scale.duration(ms)}: waited", "used"))],
                 distance, DISTANCES_MS),
    "sites": (["sites", *FIGURES], sites, [2, 5, 10, 20]),
    "rules": (["5 sites, 80 ms", *FIGURES, "below the limit: waited"], rules, list(RULES)),
}


def draw():
    """The requests that waited, by the length of the lease."""
    script = ["set terminal svg size 760,430 font 'sans,13' background '#ffffff' noenhanced",
              "set logscale xy", "set xlabel 'lease, in milliseconds'",
              "set ylabel 'requests that waited for the store, in %'", "set grid ytics lc rgb '#dddddd'",
              "set border 3", "set tics nomirror", "set xrange [90:1100]", "set yrange [0.01:100]",
              "set xtics (" + ", ".join(str(ms) for ms in LEASES_MS) + ")",
              "set key outside right center samplen 3"]
    plots = []
    for i, (trip_ms, colour) in enumerate(zip(DISTANCES_MS, ["#004488", "#bb2200", "#117733", "#aa6600"])):
        script.append(f"$d{i} << END")
        for lease_ms in LEASES_MS:
            f = run(RULE, lease_ms, trip_ms)
            script.append(f"{lease_ms} {100 * f['waited'] / f['asked']:.4f}")
        script.append("END")
        plots.append(f"$d{i} using 1:2 with linespoints lw 1.6 pt {4 + i} dt {i + 1} lc rgb '{colour}' "
                     f"title '{trip_ms} ms there and back'")
    script.append("plot " + ", ".join(plots))
    with open(scale.PLOT, "wb") as picture:
        subprocess.run(["gnuplot"], input="\n".join(script).encode(), stdout=picture, check=True)


scale.draw = draw

if __name__ == "__main__":
    sys.exit(scale.main())
