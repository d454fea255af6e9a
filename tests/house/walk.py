"""Checks the walks of src/README.md, "One take, step by step" and those like it, against the sources.

Each step names a file and a function: the function must be defined in that file, and the file of
that step or of an earlier one of its walk must call it, by its name or as a member of a table that
holds it. A walk begins with step 1.
"""

import pathlib
import re
import sys

STEP = re.compile(r"^(\d+)\. `([^`]+\.[ch])` `(\w+)`")
HEAD = r"^(?:static |const |inline )*[\w \*]+?\b{}\([^;{{}}]*\)\s*{{$"


def calls_of(text, function):
    """What calls of the function look like: its name, and the members of tables that hold it."""
    members = re.findall(r"\.(\w+) = " + function + r"\b", text)
    return [rf"\b{function}\("] + [rf"(?:->|\.){member}\(" for member in members]


def main(root):
    steps = [match.groups() for line in (root / "src" / "README.md").read_text().splitlines()
             if (match := STEP.match(line))]
    faults, met = [], []
    for number, file, function in steps:
        path = root / file
        text = path.read_text() if path.is_file() else ""
        head = re.search(HEAD.format(function), text, re.MULTILINE)
        if head is None:
            faults.append(f"step {number}: {file} does not define {function}")
            continue
        met = (met if number != "1" else []) + [text.replace(head.group(), "")]
        called = any(re.search(call, other) for call in calls_of(text, function) for other in met)
        if number != "1" and not called:
            faults.append(f"step {number}: neither {file} nor an earlier step's file calls {function}")
    print("\n".join(faults) or f"{len(steps)} steps are as the sources have them")
    return 1 if faults or len(steps) < 10 else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
