#!/usr/bin/env python3
"""Runs the model checker and holds docs/model.md against its tables.

    tables.py CHECKER PAGE          1 when something was found, or the page says something else
    tables.py CHECKER PAGE --write  puts the tables into the page

How many states there are depends a little on the compiler, which may leave different bytes in memory
that is not used any more: what is compared is which scopes and mutants there are and how they ended. How
long the shortest run is that shows a mutant is looked for with --write alone, as it takes far longer than
to see that its check catches it.
"""

import re
import subprocess
import sys

BEGIN, END = "<!-- weir_model --tables -->\n", "<!-- end -->\n"


def comparable(tables):
    without_counts = re.sub(r"(?m)^(\|[^|]*\|)( \d+ \|){3}", r"\1", tables)
    without_steps = re.sub(r"(?m)\| \d+ \|$", "|", without_counts)
    return re.sub(r"\d+ states", "states", without_steps).strip()


def main():
    checker, page = sys.argv[1:3]
    write = sys.argv[3:] == ["--write"]
    run = subprocess.run([checker, "--tables" if write else "--brief"], stdout=subprocess.PIPE, text=True)
    tables = run.stdout + "\n"
    print(tables)
    before, _, rest = open(page).read().partition(BEGIN)
    kept, _, after = rest.partition(END)
    if run.returncode != 0:
        return 1
    if write:
        with open(page, "w") as file:
            file.write(before + BEGIN + "\n" + tables + END + after)
    elif comparable(kept) != comparable(tables):
        print(f"{page} tells something else; tables.py --write puts these there")
        return 1
    return 0


sys.exit(main())
