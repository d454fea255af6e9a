"""The shape of the code: how many functions, how long, and how many have one small use.

    python3 tests/house/shape.py [ROOT]

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
SMALL = 6


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


def main(root="."):
    sources = [path for part in ("src", "backends") for path in sorted(pathlib.Path(root, part).rglob("*.[ch]"))
               if "bindings" not in path.parts]
    lines, lengths, once, types = 0, [], 0, collections.Counter()
    for path in sources:
        text = path.read_text(encoding="utf-8")
        code = bare(text)
        lines += sum(1 for line in code.splitlines() if line.strip())
        for name, whole, static in functions(code):
            lengths.append(whole)
            once += static and whole <= SMALL and len(re.findall(rf"\b{name}\b", code)) == 2
        if path.suffix == ".h":
            types.update({one or other for one, other in TYPE.findall(code)})
    print(f"{len(sources)} files, {lines} lines of code, {len(lengths)} functions")
    print(f"{1000 * len(lengths) / lines:.1f} functions per 1,000 lines, {sum(lengths) / len(lengths):.1f} lines each")
    print(f"{100 * once / len(lengths):.1f} % have at most {SMALL} lines and one use in their file")
    print("types of the same name in several headers:", *sorted(name for name in types if types[name] > 1))


if __name__ == "__main__":
    main(*sys.argv[1:])
