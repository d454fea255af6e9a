#!/usr/bin/env python3
"""Mistakes of a shared window that the hunt of test_shared.c must find, or another of its tests.

    shared_mutants.py CC LIBRARY              with the seed that found each before; else as below
    shared_mutants.py CC LIBRARY --hunt N     N seeds of each, from 1 on, and says which one found it

Each mutant is one text of a source in the place of another, compiled before LIBRARY, libweir.a. 1 when one
survives.
"""

import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
SHARED = os.path.join(ROOT, "src/limits/algorithm/shared.c")
FAKE = os.path.join(HERE, "fake.c")
HUNT = os.path.join(HERE, "test_shared.c")
LIBRARIES = ["-lcmocka", "-lsodium", "-lpthread", "-lm"]

# Name, source, what stands there, what stands there instead, the seed that found it; 0: the hunt
# seldom does, and another test finds it.
MUTANTS = [
    ("forgets the floors of this cell", SHARED,
     "current = rule->cells, open = 1;", "current = rule->cells, open = 0;", 19),
    ("forgets the floors on their way to the last cell", SHARED,
     "final = is_final(rule, cells, first, j, final_us);", "final = true;", 3187),
    ("forgets the floors of later cells", SHARED,
     "(open + j) * room", "open * room", 1),
    ("does not look at the cell ahead", SHARED,
     "if (ahead) plan_pool(r, WEIR_GET, current + 1, POOL_LENT);", "(void)ahead;", 0),
    ("reads before it adds", SHARED,
     "  if (lent > 0) plan_pool(r, WEIR_ADD, r->place, POOL_LENT)->delta = lent;\n  if (lent > 0) plan_lending(r);\n",
     "  if (lent > 0) plan_lending(r);\n  if (lent > 0) plan_pool(r, WEIR_ADD, r->place, POOL_LENT)->delta = lent;\n", 0),
    ("moves to what is lent without a look", SHARED,
     "state->newcomers -= newcomers;\n  plan_lending(r);", "state->newcomers -= newcomers;\n  state->reads = true;", 0),
    ("has floors that come to more than Cf", SHARED,
     "return weir_rule_floor_of(r->rule, floors_of_cell(r), asking(r)->weight);",
     "return weir_rule_floor_of(r->rule, floors_of_cell(r), asking(r)->weight) + 1;", 81),
    ("admits by a late answer", FAKE,
     "bool late = world->now_us > client->deadline_us;", "bool late = false;", 0),
    ("takes a cell for final at its end", SHARED,
     "(first + i + 1) * rule->cell_us + final_us;", "(first + i + 1) * rule->cell_us;", 738),
    ("lets the far cell out at once", SHARED, "for (int j = current; j >= 0; j--)",
     "for (int j = current; j > 0; j--)", 17),
    ("does not count in the pool what floors take", SHARED,
     "    cell->floors = found_without(operation, &state->floors);",
     "    cell->floors = found_without(operation, &state->floors) * (operation->kind == WEIR_ADD);", 1),
    ("takes out of B what is in F", SHARED,
     "if (lent > r->unused) lent = r->unused;", "lent = r->unused;", 1036),
    ("finds a floor by a count that it remembers", SHARED,
     "    memory->own = weir_count_of(found - added);",
     "    if (added == 0) memory->own = weir_count_of(found);", 19),
    ("takes a part of a cell for all of it", SHARED, "bool whole = part == all ||", "bool whole = true ||", 1487),
    ("lends an overrun whatever there is", SHARED, "  int64_t room = lendable(r) + r->rule->debt;",
     "  int64_t room = cost;", 16),
    ("takes a cell for final once it was read", SHARED,
     "bool known = read_us >= (cell + 1) * width + settings->final_us && settings->cached_cells;",
     "bool known = read_us > 0 && settings->cached_cells;", 5),
    ("goes by its own division", SHARED, "return knows_division(r) ? memory->division : r->rule->division;",
     "return r->rule->division;", 0),
    ("says nothing of other weights", SHARED,
     "plan_pool(r, WEIR_CREATE, period_of(r), POOL_DISPUTED)", "plan_pool(r, WEIR_CREATE, period_of(r) + 9, POOL_DISPUTED)", 0),
    ("does not ask who divides otherwise", SHARED,
     "  if (state->among + state->floors <= named_floors(r) || state->asks_for_dispute) return false;", "  return false;", 0),
    ("has larger floors at once", SHARED,
     "  if (floors > division_room(before)) floors = division_room(before);\n", "", 0),
    ("leaves room for smaller floors at once", SHARED,
     "  if (room < division_floors(before)) room = division_floors(before);\n", "", 0),
    ("lends what it leaves by its own floors", SHARED,
     "  int64_t percent = division_room(division_of(r));", "  int64_t percent = r->rule->floors;", 65),
    ("borrows a lot", SHARED, "if (state->reads && !weir_ask_is_ahead(ask)) {", "if (state->reads) {", 44),
]


def compile_one(cc, source, text, folder):
    """The object of a source, with this text in its place."""
    name = os.path.join(folder, os.path.basename(source))
    with open(name, "w") as file:
        file.write(text)
    flags = ["-D_GNU_SOURCE", "-O0", "-w", "-I" + HERE, "-I" + os.path.join(ROOT, "tests")]
    flags += ["-I" + os.path.join(ROOT, path) for path in ("include", "src/common", "src/limits", "src/server")]
    subprocess.run([cc, *flags, "-c", "-o", name + ".o", name], check=True)
    return name + ".o"


def read(source):
    with open(source) as file:
        return file.read()


def found(program, first, seeds):
    """What the hunt says of a seed; None: the mutant survives. What else the hunt asks of its seeds together, few
    of the right code need not have."""
    if first == 0:
        run = subprocess.run([program], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        message = re.search(r"FAILED  \] (\w+)", run.stdout)
        return message.group(1) if message else None
    environment = dict(os.environ, WEIR_SHARED_FIRST=str(first), WEIR_SHARED_SEEDS=str(seeds))
    run = subprocess.run([program], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment)
    message = re.search(r"(seed \d+: .*)", run.stdout)
    return message.group(1) if message else None


def main():
    cc, library = sys.argv[1:3]
    hunt = int(sys.argv[4]) if sys.argv[3:4] == ["--hunt"] else 0
    survived = 0
    with tempfile.TemporaryDirectory() as right, tempfile.TemporaryDirectory() as wrong:
        objects = {source: compile_one(cc, source, read(source), right) for source in (SHARED, FAKE, HUNT)}
        for name, source, text, instead, seed in MUTANTS:
            if read(source).count(text) != 1:
                sys.exit(f"{name}: what it changes stands {read(source).count(text)} times in {source}")
            mutated = objects | {source: compile_one(cc, source, read(source).replace(text, instead), wrong)}
            program = os.path.join(wrong, "hunt")
            subprocess.run([cc, "-fno-lto", "-o", program, *mutated.values(), library, *LIBRARIES], check=True)
            message = None if hunt and seed else found(program, seed, 1)
            message = message or found(program, 1, hunt or 5000)
            print(f"{name}: {message or 'SURVIVES'}", flush=True)
            survived += message is None
    return 1 if survived else 0


if __name__ == "__main__":
    sys.exit(main())
