"""Checks every #include of the library against the table in src/README.md, whose order it must keep."""

import pathlib
import re
import sys

PLAIN = {"assert.h", "inttypes.h", "limits.h", "stdbool.h", "stddef.h", "stdint.h", "string.h"}
PARTS = ("src/limits", "src/server", "src/tools", "backends")
COMMON = "src/common"  # a part of one folder, which every other may include
BINDINGS = "src/bindings"  # beside the table: of the project's own, the installed headers alone
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)


def read_table(readme):
    """Folder to the set of what it may include, beside itself."""
    table = {}
    for line in readme.read_text().splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        if len(cells) == 7 and cells[2].startswith("`"):
            table[cells[2].strip("`")] = set(re.findall(r"`([^`]+)`", cells[4]))
    return table


def name_target(root, table, source, quote, name):
    """What the table calls the included header: a folder, weir, system, or None for a plain one."""
    if quote == "<":
        if name.startswith("weir/"):
            return "weir"
        return None if name in PLAIN else "system"
    for base in (source.parent, *(root / part for part in (*PARTS, COMMON))):
        header = base / name
        if header.is_file():
            inside = header.resolve().parent.relative_to(root)
            while str(inside) not in table and inside.name:
                inside = inside.parent  # folders within a folder are of it
            return str(inside)
    return f'"{name}", which is in no folder of the library'


def main(root):
    table = read_table(root / "src" / "README.md")
    folders = {
        str(path.relative_to(root))
        for part in PARTS
        for path in (root / part).iterdir()
        if path.is_dir()
    } | {COMMON}
    faults = [f"{folder} has no row in src/README.md" for folder in sorted(folders - set(table))]
    faults += [f"{folder} of src/README.md does not exist" for folder in sorted(set(table) - folders)]
    rows = list(table)
    for place, folder in enumerate(rows):
        faults += [f"{folder} may not include {above}, a row above it"
                   for above in rows[:place] if above in table[folder]]
    checked = 0
    for folder in sorted(folders & set(table)):
        for source in sorted((root / folder).rglob("*.[ch]")):
            for quote, name in INCLUDE.findall(source.read_text()):
                target = name_target(root, table, source, quote, name)
                checked += 1
                if target not in table[folder] | {folder, COMMON, None}:
                    faults.append(f"{source.relative_to(root)} may not include {target} ({name})")
    for source in sorted((root / BINDINGS).rglob("*.[ch]")):
        for quote, name in INCLUDE.findall(source.read_text()):
            checked += 1
            if quote == '"' and not (source.parent / name).is_file():
                faults.append(f"{source.relative_to(root)} may not include {name}")
    print("\n".join(faults) or f"{checked} includes of {len(table)} folders follow the table")
    return 1 if faults or checked == 0 else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]).resolve()))
