#!/usr/bin/env python3
"""Writes copies of src/limits/algorithm/shared.c with one mistake each, for the model checker.

    mutate.py OUTPUT/shared_MISTAKE.c ...

The mistakes are those of tests/algorithm/shared_mutants.py and those below, with _ between words. What a copy has
for others is renamed: weir_shared_method to MISTAKE, all else to a name that nobody uses.
"""

import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "algorithm"))
from shared_mutants import MUTANTS, SHARED  # noqa: E402

# Mistakes that no run of the hunt in tests/algorithm can tell: of settlements it knows no more than what they charge,
# and what steers is none of its promises.
MORE = [
    ("settles down in the cell of now", "  r->place = cell;\n  r->unused = cost;", "  r->unused = cost;"),
    ("makes a level that is there", "plan_pool(r, WEIR_CREATE, r->place, POOL_LEVEL)",
     "plan_pool(r, WEIR_PUT, r->place, POOL_LEVEL)"),
    ("looks at F before it says so",
     "    plan_pool(r, WEIR_CREATE, period_of(r), POOL_DISPUTED)->value = 1;\n"
     "    plan_pool(r, WEIR_GET, r->place, POOL_FLOORS);\n",
     "    plan_pool(r, WEIR_GET, r->place, POOL_FLOORS);\n"
     "    plan_pool(r, WEIR_CREATE, period_of(r), POOL_DISPUTED)->value = 1;\n"),
    ("gives less of a floor nothing", "      within = floor;\n", "      continue;\n"),
    ("has floors that it has not counted", "  plan_floors(r, WEIR_ADD, more, state->comes ? more : 0);\n",
     "  state->floors += more;\n"),
    ("counts who has a mark", "state->tells_seen = operation->outcome == WEIR_DONE;", "state->tells_seen = true;"),
]


def main():
    texts = {name.replace(" ", "_"): (text, instead) for name, source, text, instead, _ in MUTANTS if source == SHARED}
    texts |= {name.replace(" ", "_"): (text, instead) for name, text, instead in MORE}
    with open(SHARED) as file:
        right = file.read()
    public = re.findall(r"(?m)^(?:const )?\w+ (weir_\w+)(?:\(| = )", right)
    for output in sys.argv[1:]:
        mistake = os.path.basename(output)[len("shared_"):-len(".c")]
        text, instead = texts[mistake]
        if right.count(text) != 1:
            sys.exit(f"{mistake}: what it changes stands {right.count(text)} times in {SHARED}")
        names = {name: f"{name}_{mistake}" for name in public} | {"weir_shared_method": mistake}
        with open(output, "w") as file:
            file.writelines(f"#define {name} {new}\n" for name, new in names.items())
            file.write(right.replace(text, instead))


main()
