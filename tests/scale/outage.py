"""Makes the table "outage" of docs/scale.md and docs/plots/outage.svg from what weir_outage says.

    WEIR_OUTAGE=build/tests/scale/weir_outage python3 tests/scale/outage.py   writes them; needs gnuplot
    WEIR_OUTAGE=... python3 tests/scale/outage.py --check                     compares the table
"""

import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "scale.md"
PLOT = ROOT / "docs" / "plots" / "outage.svg"

AWAY_S = 3


def run(what):
    return subprocess.run([os.environ["WEIR_OUTAGE"], what], check=True, text=True,
                          stdout=subprocess.PIPE).stdout


def parts(page):
    """The page before, in and after the table."""
    match = re.search(r"(.*<!-- table: outage -->\n)(.*?)(<!-- end -->.*)", page, re.DOTALL)
    if not match:
        raise SystemExit(f"{PAGE} has no table outage")
    return match.groups()


# Where its name stands: x, y, and which end of it that is.
CURVES = [("each process its limit anew", 2, "#bb2200", "1.1,6.9 left"),
          ("each an eighth of it anew (peers=8)", 4, "#996600", "-0.1,1.86 right"),
          ("each its share of what was left", 6, "#004488", "-0.1,0.5 right")]


def draw():
    """Steps: a window of a second each, the mean; points: the worst of all runs."""
    course = run("course").splitlines()
    last = course[-1].split()
    course.append(" ".join([str(int(last[0]) + 1), *last[1:]]))  # the end of its step
    script = ["set terminal svg size 760,430 font 'sans,13' background '#ffffff' noenhanced",
              "set xlabel 'windows of 1 s; the store is killed between 0 and 1; points: the worst of 80 runs'",
              "set ylabel 'admitted by 8 processes, in limits'", "set grid ytics lc rgb '#dddddd'",
              "set border 3", "set tics nomirror", "set xrange [-3:5]", "set yrange [0:9.6]", "set ytics 1",
              "unset key",
              f"set object rectangle from 0.5,0 to {0.5 + AWAY_S},9.6 fc rgb '#eeeeee' fillstyle solid noborder behind",
              f"set label 'away for {AWAY_S} s' at {0.5 + AWAY_S / 2},9.2 center tc rgb '#555555'",
              "$course << END", *course, "END"]
    plots = []
    for name, column, colour, place in CURVES:
        script.append(f"set label '{name}' at {place} tc rgb '{colour}'")
        plots.append(f"$course using 1:{column} with steps lw 2.4 lc rgb '{colour}'")
        plots.append(f"$course using ($1+.5):{column + 1} with points pt 7 ps .5 lc rgb '{colour}'")
    script.append("plot " + ", ".join(plots))
    with open(PLOT, "wb") as picture:
        subprocess.run(["gnuplot"], input="\n".join(script).encode(), stdout=picture, check=True)


def write():
    before, _, after = parts(PAGE.read_text())
    PAGE.write_text(before + run("table") + after)
    draw()


def check():
    if parts(PAGE.read_text())[1] == run("table"):
        return 0
    print(f"table outage of {PAGE} has not what the simulation says now")
    return 1


if __name__ == "__main__":
    sys.exit(check() if sys.argv[1:] == ["--check"] else write())
