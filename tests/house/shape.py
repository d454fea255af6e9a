"""The shape of the code: how many functions, how long, how many have one small use, how much is comment.

    python3 tests/house/shape.py [ROOT]             of a checkout, by default this one: a line for each folder, and one for all
    python3 tests/house/shape.py --small FOLDER...  the small functions of these folders that have one use
    python3 tests/house/shape.py --tables TYPE      of each constant of this type the members that it leaves out

A function begins at a line in the first column that ends in "{" and ends at a "}" there; comments within
it count. One of at most six lines that one place of its file uses has been cut off a story rather than
shared. Names of types that stand in several headers are listed. It reports, and fails at nothing.
"""

import collections
import pathlib
import re
import sys

HEAD = re.compile(r"^(?:static |const |inline |unsigned |struct |enum )*[A-Za-z_][\w \*]*?\b(\w+)\([^;{}]*\)\s*\{$",
                  re.MULTILINE)
TYPE = re.compile(r"^(?:typedef (?:struct|enum|union) (\w+) \{|\} (\w+);)", re.MULTILINE)
COMMENT = re.compile(r'"(?:\\.|[^"\\\n])*"|/\*.*?\*/', re.DOTALL)
HIDING = re.compile(r"\b(?:nobody|whoever|whom|he)\b", re.IGNORECASE)
SMALL = 6
CHECKOUT = pathlib.Path(__file__).resolve().parents[2]


def bare(text):
    """Without comments, line by line as before."""
    return COMMENT.sub(lambda found: found.group() if found.group()[0] == '"'
                       else "\n" * found.group().count("\n"), text)


def functions(text):
    """(name, lines, whether it is static)"""
    for head in HEAD.finditer(text):
        if head.group().startswith((" ", "}")):
            continue
        end = text.index("\n}", head.end())
        inside = text[head.end():end].count("\n")
        yield head.group(1), head.group().count("\n") + inside + 2, head.group().startswith("static")


def small(code):
    return [name for name, whole, static in functions(code)
            if static and whole <= SMALL and len(re.findall(rf"\b{name}\b", code)) == 2]


def measure(path):
    text = path.read_text(encoding="utf-8")
    code = bare(text)
    return collections.Counter(
        files=1, code=sum(1 for line in code.splitlines() if line.strip()),
        text=sum(1 for line in text.splitlines() if line.strip()),
        comment=sum(found.group().count("\n") + 1 for found in COMMENT.finditer(text) if found.group()[0] == "/"),
        functions=sum(1 for _ in functions(code)), lengths=sum(whole for _, whole, _ in functions(code)),
        small=len(small(code)), hiding=sum(1 for line in text.splitlines() if HIDING.search(line)))


def report(name, found):
    many = max(found["functions"], 1)
    print(f"{name:28} {found['files']:5} {found['code']:6} {found['functions']:6} {1000 * many / found['code']:6.1f} "
          f"{found['lengths'] / many:6.1f} {100 * found['small'] / many:5.1f} "
          f"{100 * found['comment'] / found['text']:5.1f} {found['hiding']:5}")


def sources_of(root):
    found = [path for part in ("src", "backends") for path in sorted(pathlib.Path(root, part).rglob("*.[ch]"))
             if "bindings" not in path.relative_to(root).parts]
    if not found:
        sys.exit(f"shape.py: {root} has no sources below src and backends: accepted is a checkout")
    return found


def members_of(code, kind):
    """The members of a struct, as far as they are constants, pointers or functions."""
    body = re.search(rf"struct {kind} \{{(.*?)\n\}}", code, re.DOTALL).group(1)
    for declared in body.split(";"):
        function = re.search(r"\(\*(\w+)\)\(", declared)
        names = [function.group(1)] if function else re.findall(r"\b(\w+)(?=,|$)", declared.strip())
        yield from names


def report_tables(kind):
    texts = [bare(path.read_text(encoding="utf-8")) for path in sources_of(CHECKOUT)]
    members = list(members_of(next(text for text in texts if f"struct {kind} {{" in text), kind))
    print(f"{kind}: {len(members)} members")
    for text in texts:
        for name, body in re.findall(rf"^(?:static )?const {kind} (\w+) = \{{(.*?)\n\}};", text, re.DOTALL | re.MULTILINE):
            left_out = [member for member in members if not re.search(rf"\.{member} = ", body)]
            print(f"{name}: {len(left_out)} left out:", *left_out)


def main(root=CHECKOUT):
    folders, types = collections.defaultdict(collections.Counter), collections.Counter()
    for path in sources_of(root):
        folders[str(path.parent.relative_to(root))] += measure(path)
        if path.suffix == ".h":
            types.update({one or other for one, other in TYPE.findall(bare(path.read_text(encoding="utf-8")))})
    print(f"{'':28} {'files':>5} {'code':>6} {'funcs':>6} {'/1000':>6} {'mean':>6} {'small':>5} {'notes':>5} {'whom':>5}")
    for name, found in sorted(folders.items()):
        report(name, found)
    report("all", sum(folders.values(), collections.Counter()))
    print("small: % of at most six lines with one use; notes: % of lines with a comment; whom: lines that hide who acts")
    print("types of the same name in several headers:", *sorted(name for name in types if types[name] > 1))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--small"]:
        for folder in sys.argv[2:]:
            for path in sorted(pathlib.Path(folder).rglob("*.[ch]")):
                for name in small(bare(path.read_text(encoding="utf-8"))):
                    print(f"{path}: {name}")
    elif sys.argv[1:2] == ["--tables"]:
        report_tables(sys.argv[2])
    else:
        main(*sys.argv[1:])
