"""All that the tables of docs/performance.md, and the first two of docs/leases.md, show, in one evening.

    python3 tests/bench/evening.py BUILD [--only PART...] [--short] [--modules FOLDER]
    python3 tests/bench/evening.py BUILD --fill     puts what was measured into the pages
    python3 tests/bench/evening.py --check          whether each row has a place in the pages, and each line a row

BUILD is a release's folder that was built with its tests. Rows, their goals and their order are those of
page_rows.py; a part is a table of a page or some. Wants two quiet cores and what the programs ask for:
valgrind, redis-server, memcached, nginx, h2load, nghttpd. The part `walk` wants a build of the preset `dev`,
and `beside` takes the FOLDER that side_by_side.py names. Servers run on free ports and are ended by their
ids. The figures are in BUILD/evening.json, where parts that are measured again take the place of what was
there, and in BUILD/evening.md, with a miss in bold. Exits 1, with a line for each, if something could not be
measured. --short shows in a few minutes that all can be; its figures are worth nothing.
"""

import argparse
import datetime
import json
import os
import re
import socket
import subprocess
import sys
import time

from page_rows import PARTS, PROGRAMS, ROWS, RUNS, SHORT, STORES

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


# --- servers -------------------------------------------------------------------------------------


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Stores:
    """A memcached with one thread and a redis-server for each core that is asked for."""

    def __init__(self):
        self.processes, self.urls = [], {}

    def start(self, core, *command):
        pinned = ["taskset", "-c", str(core)] if core != "free" else []
        self.processes.append(subprocess.Popen([*pinned, *command], stdout=subprocess.DEVNULL))

    def of(self, core):
        if core not in self.urls:
            memcached, redis = free_port(), free_port()
            self.start(core, "memcached", "-u", "root", "-l", "127.0.0.1", "-p", str(memcached), "-t", "1", "-m", "512")
            self.start(core, "redis-server", "--bind", "127.0.0.1", "--port", str(redis), "--save", "")
            for port in (memcached, redis):
                until = time.monotonic() + 10
                while socket.socket().connect_ex(("127.0.0.1", port)) != 0:
                    if time.monotonic() > until:
                        raise RuntimeError(f"a server on core {core} does not accept connections")
                    time.sleep(0.05)
            self.urls[core] = {"memcached": f"memcached://127.0.0.1:{memcached}", "Redis": f"redis://127.0.0.1:{redis}"}
        return self.urls[core]

    def end(self):
        for process in self.processes:
            process.terminate()
            process.wait()


def ask_bench(program, name, *options):
    """The contestants, as --json has them."""
    done = subprocess.run([*program, "bench", "--json", "--quiet", *options], capture_output=True, text=True, timeout=600)
    if done.returncode != 0:
        raise RuntimeError(f"weir bench ({name}): {done.stderr.strip()}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def lasting(seconds, rounds):
    return "--duration", f"{int(seconds * 1000)}ms", "--rounds", str(rounds)


def run_bench(program, stores, name, seconds, rounds, alone=False):
    """The contestants of a run, with the store's name in place of its URL. `alone`: without raw loops."""
    run = RUNS[name]
    urls = {"memory:": "memory:"}
    if run.stores != "E":
        urls.update(stores.of(0 if name == "one core" else "free" if run.core == "free" else 1))
    wanted = {STORES[letter]: urls[STORES[letter]] for letter in run.stores}
    if "m" in run.stores:
        wanted["memcached"] += "?pipelining=off"
    options = [word for word in run.options.split() if not alone or not word.startswith("--baseline")]
    for url in wanted.values():
        options += ["--store", url]
    pinned = ["taskset", "-c", "0"] if run.core == 0 else []
    found = ask_bench([*pinned, program], name, "--rule", run.rule, *lasting(seconds, rounds), *options)
    for line in found:
        line["store"] = next(store for store, url in wanted.items() if url.split("?")[0] == line["store"])
    return found


# --- what was found ------------------------------------------------------------------------------


class Found:
    """Runs each program once, when a row first asks for it; what failed stays failed."""

    def __init__(self, options):
        self.options, self.stores, self.kept = options, Stores(), {}
        self.program = os.path.abspath(os.path.join(options.build, "weir"))

    def once(self, name, make):
        if name not in self.kept:
            began = time.monotonic()
            try:
                self.kept[name] = make()
            except Exception as error: # whatever it is: the other rows are measured
                self.kept[name] = error
            print(f"  {name}: {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
        if isinstance(self.kept[name], Exception):
            raise self.kept[name]
        return self.kept[name]

    def bench(self, run):
        turns = (0.1, 1) if self.options.short else (RUNS[run].seconds or self.options.seconds, RUNS[run].rounds)
        return self.once(f"bench {run}", lambda: run_bench(self.program, self.stores, run, *turns))

    def text(self, name):
        return self.once(name, lambda: self.run(name))

    def run(self, name):
        if name.startswith("serve "):
            command = ["python3", "-B", "tests/bench/serve_figures.py", "WEIR", "--only", name[6:],
                       "--rounds", "1" if self.options.short else "5"]
        else:
            command = list(PROGRAMS[name])
            short = SHORT.get(name.split(",")[0]) if self.options.short else None
            if short and short[0].startswith("-"):
                command += short
            elif short:
                command[1:] = short
        if "MODULES" in command and self.options.modules is None:
            del command[command.index("MODULES") - 1:command.index("MODULES") + 1]
        folders = {"BUILD": os.path.abspath(self.options.build), "DEV": os.path.join(ROOT, "build/dev"),
                   "MODULES": self.options.modules or ""}
        command = [self.program if word == "WEIR" else re.sub(r"^(BUILD|DEV|MODULES)(?=/|$)", lambda m: folders[m[1]], word)
                   for word in command]
        for word in command:
            if word.startswith(tuple(folders[name] for name in ("BUILD", "DEV"))) and not os.path.exists(word):
                raise RuntimeError(f"{name}: {word} is not there, build it first")
        for _ in range(2):  # a machine that stands still for a moment lets a server be late, which ends some programs
            done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=900, check=False, env={
                **os.environ, "WEIR_PROGRAM": self.program, "WEIR_SANITIZED": "",
                "WEIR_SERVE": os.path.join(folders["BUILD"], "tests/cli/serve")})
            if done.returncode == 0:
                return done.stdout
        said = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        raise RuntimeError(f"{name}: exit {done.returncode}: {' / '.join(said[-3:]) or 'no word'}")

    def served(self, figure, title, row):
        inside = False
        for line in self.text("serve " + figure).splitlines():
            cells = [cell.strip() for cell in line.strip("|").split("|")] if line.startswith("|") else [""]
            inside = cells[0] == title or inside and line.startswith("|")
            if inside and cells[0] == row:
                return float(re.match(r"([\d.]+)x", cells[2])[1])
        raise LookupError(f"serve {figure}: no row \"{row}\" under \"{title}\"")


def write_cells(row, found, errors):
    """The text of the row's cells, and their goals."""
    texts, goals = [], []
    for cell in row.cells:
        try:
            value = cell.figure(found)
        except Exception as error:
            if str(error) not in errors:
                errors.append(str(error) or repr(error))
            texts.append(f"{cell.label} not measured".strip())
            continue
        missed = cell.most is not None and value > cell.most or cell.least is not None and value < cell.least
        figure = cell.form(value)
        texts.append(f"{cell.label} {f'**{figure}**' if missed else figure}".strip())
        goals += [f"{word} {cell.form(goal)}" for word, goal in (("at most", cell.most), ("at least", cell.least)) if goal is not None]
    return ", ".join(texts), ", ".join(goals)


def commit():
    named = subprocess.run(["git", "describe", "--always", "--dirty", "--abbrev=12"], cwd=ROOT, capture_output=True, text=True)
    return named.stdout.strip() or "unknown"


def measure(options, part, found):
    began, errors = time.time(), []
    print(f"{part}:", file=sys.stderr, flush=True)
    rows = [[row.name, row.column, *write_cells(row, found, errors)] for row in ROWS if row.part == part]
    tables = None
    if part == "beside":
        try:
            tables = found.text("side by side")
        except Exception as error:
            errors.append(str(error))
    return {"commit": commit(), "began": datetime.datetime.fromtimestamp(began).isoformat(" ", "minutes"),
            "short": options.short, "seconds": round(time.time() - began), "rows": rows, "tables": tables, "errors": errors}


# --- pages ---------------------------------------------------------------------------------------


def as_markdown(evening):
    for part, (page, heading) in PARTS.items():
        if part not in evening["parts"]:
            continue
        done = evening["parts"][part]
        yield f"{'#' * 2} {part}: docs/{page}, {heading.lstrip('# ')}\n\n{done['commit']}, {done['began']}, {done['seconds']} s" + (
            ", in short: worth nothing" if done["short"] else "") + "\n"
        if done["rows"]:
            yield "| figure | column | goal | measured |\n|---|---|---|---|"
        for name, column, text, goal in done["rows"]:
            yield f"| {name} | {column} | {goal} | {text} |"
        yield (done["tables"] or "") + "".join(f"\nnot measured: {error}" for error in done["errors"]) + "\n"


class Page:
    """The tables of a page by the heading that they stand under."""

    def __init__(self, name):
        self.path, self.places, self.lines = os.path.join(ROOT, "docs", name), {}, []
        with open(self.path, encoding="utf-8") as file:
            self.lines = file.read().splitlines()
        heading, columns = "", None
        for number, line in enumerate(self.lines):
            if line.startswith("#"):
                heading = line
            if not line.startswith("|"):
                columns = None
            elif columns is None:
                columns = self.cells(line)
            elif not line.startswith("|--"):
                self.places.setdefault((heading, self.cells(line)[0]), []).append((number, columns))

    @staticmethod
    def cells(line):
        return [cell.strip() for cell in line.strip().strip("|").split("|")]

    def find(self, heading, name, column):
        """The line and the number of the cell; None: there is not one such."""
        found = [(number, columns.index(column)) for number, columns in self.places.get((heading, name), []) if column in columns]
        return found[0] if len(found) == 1 else None

    def put(self, place, text):
        number, at = place
        cells = self.cells(self.lines[number])
        cells[at] = text
        self.lines[number] = f"| {' | '.join(cells)} |"

    def put_tables(self, heading, text):
        """Tables with the same heads take the place of those that are there."""
        for table in text.strip().split("\n\n"):
            head = table.splitlines()[0]
            at = [i for i, line in enumerate(self.lines) if line == head and self.lines.index(heading) < i]
            if not at:
                return False
            end = next(i for i in range(at[0], len(self.lines) + 1) if i == len(self.lines) or not self.lines[i].startswith("|"))
            self.lines[at[0]:end] = table.splitlines()
        return True


def check():
    """Prints what is in one of pages and rows alone. Tables that name their commands have other rows too."""
    pages = {name: Page(name) for name, _ in PARTS.values()}
    faults = [f"docs/{PARTS[row.part][0]}, \"{PARTS[row.part][1]}\": no line \"{row.name}\" with a column \"{row.column}\""
              for row in ROWS if pages[PARTS[row.part][0]].find(PARTS[row.part][1], row.name, row.column) is None]
    known = {(*PARTS[row.part], row.name) for row in ROWS}
    headings = {place for part, place in PARTS.items() if any(row.part == part for row in ROWS)}
    for name, page in pages.items():
        faults += [f"docs/{name}, \"{heading}\": no row of page_rows.py measures \"{line}\""
                   for (heading, line), places in page.places.items() for _, columns in places
                   if (name, heading) in headings and "command" not in columns and (name, heading, line) not in known]
    print("\n".join(faults) if faults else f"{len(ROWS)} rows, each with its place")
    return 1 if faults else 0


def fill(evening):
    commits = {done["commit"] for done in evening["parts"].values()}
    if len(commits) > 1 or any(done["short"] for done in evening["parts"].values()):
        print(f"rows of several commits, or of a short run, are not put into a page: {', '.join(sorted(commits))}", file=sys.stderr)
        return 1
    for name in sorted({page for page, _ in PARTS.values()}):
        page = Page(name)
        for part, done in evening["parts"].items():
            if PARTS[part][0] != name:
                continue
            for row, column, text, _ in done["rows"]:
                place = page.find(PARTS[part][1], row, column)
                if place is None or "not measured" in text:
                    print(f"docs/{name}: \"{row}\" is left as it was", file=sys.stderr)
                else:
                    page.put(place, text)
            if done["tables"] and not page.put_tables(PARTS[part][1], done["tables"]):
                print(f"docs/{name}: the tables of {part} have no place", file=sys.stderr)
        with open(page.path, "w", encoding="utf-8") as file:
            file.write("\n".join(page.lines) + "\n")
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", nargs="?", default=os.path.join(ROOT, "build"))
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--seconds", type=float, default=2, help="of each contestant of weir bench (2)")
    parser.add_argument("--modules", help="where npm installed what side_by_side.py names")
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--fill", action="store_true")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    if options.check:
        return check()
    path = os.path.join(options.build, "evening.json")
    evening = {"parts": {}, "raw": {}}
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            evening = json.load(file)
    if options.fill:
        return fill(evening)
    began, found, errors = time.monotonic(), Found(options), []
    try:
        for part in options.only:
            evening["parts"][part] = measure(options, part, found)
            errors += evening["parts"][part]["errors"]
            evening["raw"].update({name: raw for name, raw in found.kept.items() if not isinstance(raw, Exception)})
            with open(path, "w", encoding="utf-8") as file:
                json.dump(evening, file)
            with open(path[:-4] + "md", "w", encoding="utf-8") as file:
                file.write("\n".join(as_markdown(evening)))
    finally:
        found.stores.end()
    for error in errors:
        print(f"not measured: {error}", file=sys.stderr)
    print(f"{path[:-4]}md: {sum(len(done['rows']) for done in evening['parts'].values())} rows, {len(errors)} errors, "
          f"{time.monotonic() - began:.0f} s")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
