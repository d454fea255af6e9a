"""Makes weir_ffi.h: all that <weir/weir.h> declares, in one file without preprocessor.

    python3 flatten.py CC INCLUDE > weir_ffi.h

Foreign-function interfaces (cffi, LuaJIT, PHP's FFI, ctypes by python/weir/native.py) read declarations but
run no preprocessor and evaluate no expressions. So every constant is a number here, every member has
a line of its own, and only what the shared library exports is declared. A test holds the file to
the headers.
"""
import re
import subprocess
import sys

EXPORTED = '__attribute__((visibility("default")))'
HEAD = """/* All that <weir/weir.h> declares, for foreign-function interfaces. Made by flatten.py: do not edit.
 * Where something is unclear, the headers in include/weir say more. */
"""


def own_text(compiler, include):
    """Reads the headers' own text, after the preprocessor."""
    run = subprocess.run([compiler, "-E", f"-I{include}", "-x", "c", "-"], input="#include <weir/weir.h>\n",
                         capture_output=True, text=True, check=True)
    lines, inside = [], False
    for line in run.stdout.splitlines():
        marker = re.match(r'# \d+ "([^"]*)"', line)
        if marker:
            inside = "/weir/" in marker.group(1) and marker.group(1).startswith(include)
        elif inside:
            lines.append(line)
    return " ".join(" ".join(lines).split())


def declarations(text):
    """Splits at the semicolons that stand outside braces."""
    depth, begin = 0, 0
    for at, character in enumerate(text):
        depth += (character == "{") - (character == "}")
        if character == ";" and depth == 0:
            yield text[begin:at].strip()
            begin = at + 1


def number(expression, known):
    """The value of a constant expression: C's agree with Python's as far as headers use them."""
    return eval(re.sub(r"[A-Z_a-z]\w*", lambda name: str(known[name.group()]), expression))  # noqa: S307


def flat_enum(body, known):
    value, rows = -1, []
    for item in filter(None, (part.strip() for part in body.split(","))):
        name, _, expression = (part.strip() for part in item.partition("="))
        value = number(expression, known) if expression else value + 1
        known[name] = value
        rows.append(f"  {name} = {value}")
    return "{\n" + ",\n".join(rows) + "\n}"


def flat_struct(body):
    rows = []
    for member in filter(None, (part.strip() for part in body.split(";"))):
        if "(" in member or "," not in member:
            rows.append(f"  {member};")
            continue
        first, *others = (part.strip() for part in member.split(","))
        kind, _, name = first.rpartition(" ")
        rows += [f"  {kind} {each};" for each in [name, *others]]
    return "{\n" + "\n".join(rows) + "\n}"


def flatten(text):
    known, shown = {}, []
    for each in declarations(text):
        body = re.fullmatch(r"(typedef (?:enum|struct) \w+|enum)\s*\{(.*)\}\s*(\w*)", each)
        if body:
            begin, inside, name = body.groups()
            flat = flat_struct(inside) if "struct" in begin else flat_enum(inside, known)
            each = f"{begin} {flat} {name}".strip()
        elif re.match(r"enum \w+ \{", each):
            name, inside = re.fullmatch(r"enum (\w+) \{(.*)\}", each).groups()
            each = f"enum {name} {flat_enum(inside, known)}"
        elif each.startswith(EXPORTED):
            each = each[len(EXPORTED):].strip()
        elif not each.startswith("typedef"):
            continue  # not in the shared library
        shown.append(re.sub(r"\[([A-Z]\w*)\]", lambda size: f"[{known[size.group(1)]}]", each) + ";\n")
    return HEAD + "\n" + "\n".join(shown)


if __name__ == "__main__":
    sys.stdout.write(flatten(own_text(sys.argv[1], sys.argv[2].rstrip("/"))))
