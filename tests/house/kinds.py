"""A new algorithm touches few places, which src/README.md names. So the name of a kind of rule stands
where those are, and nowhere else: whoever tells kinds apart asks a question of src/limits/rule/rule.h."""

import pathlib
import re
import sys

ENUM = re.compile(r"typedef enum weir_rule_kind \{([^}]*)\}")
COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
HOMES = ("src/limits/algorithm/", "src/limits/rule/rule.h", "src/limits/rule/kind.c")


def main(root):
    kinds = re.findall(r"WEIR_\w+", ENUM.search((root / "src/limits/rule/rule.h").read_text()).group(1))
    named = re.compile(r"\b(" + "|".join(kinds) + r")\b")
    known = set(named.findall((root / "src/limits/rule/kind.c").read_text()))
    faults = [f"{kind} has no row in src/limits/rule/kind.c" for kind in kinds if kind not in known]
    files = 0
    for folder in ("src", "backends", "include"):
        for source in sorted((root / folder).rglob("*.[ch]")):
            name = str(source.relative_to(root))
            files += 1
            if name.startswith(HOMES):
                continue
            text = COMMENT.sub(lambda found: "\n" * found.group().count("\n"), source.read_text())
            for number, line in enumerate(text.splitlines(), 1):
                faults += [f"{name}:{number} names {kind}" for kind in named.findall(line)]
    print("\n".join(faults) or f"{len(kinds)} kinds, named by none of {files} files but their own")
    return 1 if faults or len(kinds) < 2 or files == 0 else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]).resolve()))
