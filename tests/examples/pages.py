"""Runs what the pages show. A fenced block whose first line says so is tried:

    ```sh run       a shell script that must succeed, from the first line to the last
    ```console run  commands after "$ ", each followed by what it prints; "..." stands for anything,
                    a number of eight digits or more for any number, reset-after for any time
    ```c run        statements: `store`, `status` and `message` are there, and the status must end as WEIR_OK;
                    or a whole program, which must succeed
    ```python run   a script that must succeed
    ```js run       the same for Node, with the package that was built beside the library

Every other block of commands says in a comment above it why not, or which test runs it:

    <!-- not run: it needs a server of yours -->
    <!-- run by: serve/envoy -->

and each `sh tests/prove.sh ...` of a page must find tests, which the check runs, or a program, and a
scope or a mutant of the model by its name. Every `weir VERB --option`, also one in a sentence, must be
a verb and options that the program's help has. A block must have a language that is known here.

memcached://localhost and redis://localhost are private servers here, weir is the one that was built,
and access.log lies in the folder. Every page is also held to lines of 100 columns, but for tables,
code and pictures, but for those that are older than this. And what people ask is found from README
within two links; what answers.md answers, from docs/README.md by one; each theorem, from its rule's
row in README.
"""
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
COMMENTS = "<!-- not run: WHY --> or <!-- run by: FOLDER/TEST -->"
BLOCK = re.compile(r"^```(sh|console|c|python|js) run\n(.*?)^```$", re.MULTILINE | re.DOTALL)
WIDE = ["docs/changelog.md", "docs/configuration.md", "docs/contributing.md",
        "docs/guarantees.md", "docs/performance.md", "docs/redis-commands.md", "docs/scale.md",
        "docs/serve.md", "src/README.md", "tests/model/README.md"]
FENCE = re.compile(r"^( *)(?:<!-- ([^\n]*) -->\n\1)?```(\S*)([^\n]*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
COMMANDS = ("sh", "console", "c", "python", "js", "php", "ruby", "go", "java")
TEXTS = ("text", "yaml", "json", "ini", "nginx", "haproxy", "caddy", "lua")
PROVE = re.compile(r"sh tests/prove\.sh ([^`\n#|]*)")
EXPLORED = re.compile(r"run weir_model \"([^\"]*)\"")
CALL = re.compile(r"(?:^|(?<=[\s(]))[\w./]*\bweir ([a-z]+)\b((?:[^\n|;#&']|'[^'\n]*')*)", re.MULTILINE)
# Pages whose blocks are all tried by a test of their own.
TRIED = {"docs/serve/clients.md": "serve/clients"}
LINK = re.compile(r"\]\(([^)#\s]*)(?:#([^)\s]+))?\)")

# Questions that people ask, and where they are answered.
ANSWERS = {
    "which rule": "choosing.md",
    "how large a memcached": "deploying.md#memcached",
    "eviction and restarts": "deploying.md#memcached",
    "Redis without scripts": "deploying.md#redis-without-scripts",
    "monitoring and alerts": "monitoring.md",
    "failure policies": "answers.md#while-the-store-is-away",
    "several services and languages": "answers.md#several-services-and-languages",
    "customers with limits of their own": "answers.md#customers-with-limits-of-their-own",
    "allow lists": "answers.md#allow-lists",
    "IPv6": "answers.md#ipv6",
    "some addresses unlimited on one endpoint": "answers.md#some-addresses-unlimited-on-one-endpoint",
    "several keys at once": "answers.md#several-keys-at-once",
    "block for an hour after N": "answers.md#block-for-an-hour-after-too-many",
    "escalating bans": "answers.md#bans-that-grow",
    "a penalty past the limit": "answers.md#a-penalty-past-the-limit",
    "in flight": "answers.md#at-most-so-many-in-flight",
    "charge failures only": "answers.md#charge-failures-only",
    "remaining per rule of a stack": "answers.md#what-remains-under-each-rule",
    "what a key has used": "answers.md#what-a-key-has-used",
    "a fake clock in my tests": "answers.md#a-clock-of-my-own-in-tests",
    "a cost that is known afterwards": "settling.md",
    "calendar days": "answers.md#calendar-days",
    "shadow mode": "answers.md#shadow-mode",
    "migration from Lua": "answers.md#coming-from-lua",
    "dry runs on logs": "answers.md#dry-runs-on-logs",
}
C_PROGRAM = """#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weir/weir.h>

int main(void) {{
  weir_message message = {{""}};
  weir_store *store = NULL;
  weir_status status = weir_store_open("{url}", &store, &message);
  if (status != WEIR_OK) return 2;
{{
{block}
}}
  weir_store_close(store);
  if (status != WEIR_OK) fprintf(stderr, "%s: %s\\n", weir_status_name(status), message.text);
  return status == WEIR_OK ? 0 : 1;
}}
"""


class Ground:
    """Where blocks run: servers, programs, a folder."""

    def __init__(self, compiler, library, folder, namespace):
        self.compiler, self.library, self.folder = compiler, pathlib.Path(library), pathlib.Path(folder)
        self.servers = {f"{scheme}://localhost": os.environ[f"WEIR_TEST_{name}"]
                        for scheme, name in [("memcached", "MEMCACHED_THREE"), ("redis", "REDIS")]}
        assert not any("?" in url for url in self.servers.values()), self.servers
        programs = str(pathlib.Path(os.environ["WEIR_PROGRAM"]).parent)
        self.environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "WEIR_LIBRARY": library,
                            "PYTHONPATH": str(ROOT / "src/bindings/python"), "LD_LIBRARY_PATH": str(self.library.parent)}
        self.namespace = namespace
        (self.folder / "tests").symlink_to(ROOT / "tests")
        lines = [f'192.0.2.{i % 9} - - [22/Nov/2026:15:00:{i % 60:02} +0000] "GET /p{i % 3} HTTP/1.1" 200 7\n'
                 for i in range(600)]
        (self.folder / "access.log").write_text("".join(sorted(lines, key=lambda line: line[20:45])))

    def located(self, text, quote=""):
        """Each block's keys are its own, however often a page names the same. With time for a busy
        machine, also to pay for places; the shell needs quotes around that where there are none."""
        text = re.sub(r"(in-flight:\d+)/10s", r"\1/90s", text)
        for local, url in self.servers.items():
            def private(found, url=url):
                given = found.group(2) + "&" if found.group(2) else "?"
                whole = f"{url}{given}namespace={self.namespace}&timeout=10s"
                return found.group(1) + whole if found.group(1) else quote + whole + quote
            text = re.sub(r"(['\"]?)" + re.escape(local) + r"(\?[^\s'\"]*)?", private, text)
        return text

    def execute(self, command, **options):
        return subprocess.run(command, cwd=self.folder, env=self.environment, text=True, timeout=120,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, **options)

    def run_sh(self, block):
        done = self.execute(["sh", "-eu", "-c", self.located(block, "'")])
        return None if done.returncode == 0 else f"exit {done.returncode}\n{done.stdout}"

    def run_console(self, block):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, expected = part.partition("\n")
            while command.endswith("\\"):
                more, _, expected = expected.partition("\n")
                command = command[:-1] + more
            said = self.execute(["sh", "-c", self.located(command, "'")]).stdout
            said = re.sub(r"weir: warning: the deadline is 10s, .*\n", "", said)  # which is our own
            pattern = ".*".join(re.escape(piece) for piece in expected.strip().split("..."))
            pattern = re.sub(r"\d{8,}|(?<=reset\\-after\\ )[\dmsh]+", r"\\w+", pattern)  # the clock's own
            if not re.fullmatch(pattern, said.strip(), re.DOTALL):
                return f"{command}\nsays\n{said}\nand not\n{expected}"
        return None

    def run_c(self, block):
        source, program = self.folder / "block.c", self.folder / "block"
        whole = "int main(" in block
        source.write_text(block if whole else C_PROGRAM.format(url=self.located("memcached://localhost"), block=block))
        done = self.execute([self.compiler, "-std=c11", "-Wall", "-Wextra", "-Werror", f"-I{ROOT / 'include'}",
                             "-o", str(program), str(source), str(self.library)])
        if done.returncode == 0:
            done = self.execute([str(program)])
        return None if done.returncode == 0 else f"exit {done.returncode}\n{done.stdout}"

    def run_python(self, block):
        done = self.execute([sys.executable, "-B", "-c", self.located(block)])
        return None if done.returncode == 0 else f"exit {done.returncode}\n{done.stdout}"

    def run_js(self, block):
        modules = self.folder / "node_modules"
        modules.mkdir()
        (modules / "weir").symlink_to(ROOT / "src/bindings/node")
        self.environment["WEIR_NODE_ADDON"] = str(self.library.parent / "tests/bindings/weir_node.node")
        done = self.execute(["node", "-e", self.located(block)])
        return None if done.returncode == 0 else f"exit {done.returncode}\n{done.stdout}"


def wide_lines(page):
    inside = False
    for number, line in enumerate(page.splitlines(), 1):
        if line.startswith("```"):
            inside = not inside
        if len(line) > 100 and not inside and not line.startswith(("|", "![", "    ", "<!--")):
            yield number


def anchors(page):
    """The names of its headings in links."""
    heads = re.findall(r"^#+ (.*)$", page, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


def links(page):
    """Target and heading of each; either may be empty."""
    return LINK.findall(re.sub(r"```.*?```", "", page, flags=re.DOTALL))


def targets(path):
    """Where the links of a page lead to, each with its heading and without."""
    for target, anchor in links(path.read_text()):
        to = (path.parent / target).resolve() if target else path
        yield to, ""
        yield to, anchor


def hidden_answers():
    """Answers that are more than two links away from README, and pages that an entry leaves out."""
    readme, index = ROOT / "README.md", ROOT / "docs" / "README.md"
    near = set(targets(readme))
    for page in {to for to, _ in near if to.suffix == ".md" and to.exists()}:
        near |= set(targets(page))
    for question, place in ANSWERS.items():
        name, _, anchor = place.partition("#")
        if (ROOT / "docs" / name, anchor) not in near:
            yield f"{question}: {place} is more than two links from README.md"
    proofs = ROOT / "docs" / "guarantees.md"
    for heading in re.findall(r"^### (.*)\n\nExplore it: ", proofs.read_text(), re.MULTILINE):
        if (proofs, heading.lower().replace(" ", "-")) not in set(targets(readme)):
            yield f"no row of README.md links the theorem: {heading}"
    answers = ROOT / "docs" / "answers.md"
    for anchor in re.findall(r"^## (.*)$", answers.read_text(), re.MULTILINE):
        anchor = re.sub(r"[^\w\- ]", "", anchor.lower()).replace(" ", "-")
        if (answers, anchor) not in set(targets(index)):
            yield f"docs/README.md does not link answers.md#{anchor}"
    for page in sorted((ROOT / "docs").glob("*.md")):
        if page != index and (page, "") not in set(targets(index)):
            yield f"docs/README.md does not link {page.name}"


def broken_links(path, page):
    """Links to files that are not there, or to headings that these do not have."""
    for target, anchor in links(page):
        to = path.parent / target if target else path
        if "://" in target:
            continue
        if not to.exists():
            yield f"no file {target}"
        elif anchor and anchor not in anchors(to.read_text()):
            yield f"no heading {target}#{anchor}"


def indented(page):
    """First lines of blocks that only their indent makes one."""
    fenced, width, before = False, 0, ""
    for line in page.expandtabs(4).splitlines():
        item = re.match(r" *([-*+]|\d+\.) ", line)
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif fenced:
            continue
        elif line.startswith(" " * (width + 4)) and not before:
            yield line
        elif item:
            width = len(item.group())
        elif line and not line.startswith(" "):
            width = 0
        before = line


def stray_items(page):
    """Lines in the middle of a paragraph that would begin a list, as a sum cut before its sign does."""
    fenced = False
    before = ""
    for line in page.splitlines():
        if line.startswith("```"):
            fenced = not fenced
        elif not fenced and re.match(r"[-+*] ", line) and re.match(r"[^\s|#<>+*-]", before):
            yield line
        before = line


def untried(name, page, known):
    """Blocks of commands that no test runs, and that do not say why."""
    for line in indented(page):
        yield f"a block without a fence, so without a language: {line}"
    for line in stray_items(page):
        yield f"in a paragraph, a line that begins a list: {line}"
    run = len(BLOCK.findall(page))
    for indent, mark, language, rest, block in FENCE.findall(page):
        kind, _, what = mark.partition(": ")
        first = block.strip().partition("\n")[0]
        if language not in COMMANDS + TEXTS:
            yield f"a block of a language that is none of {', '.join(COMMANDS + TEXTS)}: {first}"
        elif language in TEXTS and re.search(r"^\s*\$ ", block, re.MULTILINE):
            yield f"commands in a block of {language}: {first}"
        elif rest == " run" and not indent:
            run -= 1
        elif language in COMMANDS and TRIED.get(name) not in known and not (
                kind == "not run" and what or kind == "run by" and what in known):
            yield f"neither run nor marked by {COMMENTS}: {first}"
    if run != 0 or sum(map(page.count, ("```", "~~~", "<pre"))) != 2 * len(FENCE.findall(page)):
        yield "a block whose fence is not read as one, or that is to be run in a language that is not"


class Help:
    """Which verbs and options the program has."""

    def __init__(self):
        self.options = {}

    def knows(self, verb, option):
        if verb not in self.options:
            told = subprocess.run([os.environ["WEIR_PROGRAM"], verb, "--help"], capture_output=True, text=True, check=False)
            self.options[verb] = told.stdout if told.returncode == 0 else None
        said = self.options[verb]
        return said is not None and (not option or re.search(re.escape(option) + r"(?![a-z-])", said) is not None)


def unheard(page, program):
    """Calls of weir by a verb or an option that it does not have."""
    code = [block.replace("\\\n", " ") for _, _, language, _, block in FENCE.findall(page) if language in ("sh", "console")]
    spans = re.findall(r"`([^`]+)`", re.sub(r"^ *```.*?^ *```$", "", page, flags=re.DOTALL | re.MULTILINE))
    for verb, rest in CALL.findall("\n".join(code + [span.replace("\n", " ") for span in spans])):
        for option in ["", *re.findall(r"(?<=\s)--[a-z][a-z-]*", rest.partition(" -- ")[0])]:
            if not program.knows(verb, option):
                yield f"weir has no {verb} {option}".rstrip()


def unproved(page, library):
    """Commands of tests/prove.sh that find nothing to run in this build, or in the model."""
    explored = (ROOT / "docs/model.md").read_text()
    for name in EXPLORED.findall(page):
        if f"| {name} |" not in explored:
            yield f"docs/model.md has no scope or mutant {name}"
    environment = {**os.environ, "WEIR_BUILD": str(pathlib.Path(library).parent)}
    for arguments in sorted(set(PROVE.findall(page))):
        words = arguments.split()
        done = subprocess.run(["sh", str(ROOT / "tests/prove.sh"), "names", *words[:2 if words[0] == "run" else 1]],
                              env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if done.returncode != 0:
            yield f"sh tests/prove.sh {arguments}: {done.stdout}"


def attempt(compiler, library, name, line, language, block):
    """Each in a folder and a namespace of its own, so that some can run at once: many only wait."""
    with tempfile.TemporaryDirectory() as folder:
        namespace = re.sub(r"\W", "_", f"{pathlib.Path(name).stem}-{line}")
        fault = getattr(Ground(compiler, library, folder, namespace), f"run_{language}")(block)
    return f"{name}:{line}: {fault}" if fault else None


def main(compiler, library):
    faults, tries = list(hidden_answers()), []
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")),
             *sorted((ROOT / "docs/decisions").glob("*.md")), *sorted((ROOT / "src/bindings").glob("*/README.md")),
             ROOT / "src/README.md", ROOT / "tests/model/README.md"]
    known = set((ROOT / "tests/check.list").read_text().split())
    pages += sorted((ROOT / "docs/serve").glob("*.md"))
    program = Help()
    with concurrent.futures.ThreadPoolExecutor(4) as threads:
        for path in pages:
            name, page = str(path.relative_to(ROOT)), path.read_text()
            said = [*broken_links(path, page), *untried(name, page, known), *unproved(page, library), *unheard(page, program)]
            faults += [f"{name}: {fault}" for fault in said]
            if name not in WIDE and not name.startswith("docs/serve/"):
                faults += [f"{name}:{number}: more than 100 columns" for number in wide_lines(page)]
            for block in BLOCK.finditer(page):
                line = page[:block.start()].count("\n") + 1
                tries.append(threads.submit(attempt, compiler, library, name, line, *block.groups()))
    faults += filter(None, (each.result() for each in tries))
    print("\n".join(faults) or f"{len(pages)} pages, {len(tries)} blocks tried")
    return 1 if faults or len(tries) < 10 else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
