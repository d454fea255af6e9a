"""How much there is to read: lines of code and of comments, by folder.

    python3 tests/house/lines.py [ROOT]

A line that holds code counts as code, one that holds nothing but a comment as comment, empty ones as
neither. The share is comments of both. Files longer than 400 lines are named.
"""

import collections
import os
import re
import sys

PLACES = ("include", "src", "backends")
FILE_MOST = 400
# Strings and characters first, so that a comment inside one is none.
TOKEN = re.compile(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|/\*.*?\*/|//[^\n]*', re.DOTALL)


def count(text):
    """(code, comment) lines."""
    def blank(match):
        token = match.group()
        return token if token[0] in "\"'" else "\n" * token.count("\n")
    bare = TOKEN.sub(blank, text).split("\n")
    full = text.split("\n")
    code = sum(1 for line in bare if line.strip())
    comment = sum(1 for with_it, without in zip(full, bare) if with_it.strip() and not without.strip())
    return code, comment


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else "."
    folders = collections.defaultdict(lambda: [0, 0])
    long_files = []
    for place in PLACES:
        for folder, _, files in os.walk(os.path.join(root, place)):
            for name in sorted(files):
                if not name.endswith((".c", ".h")):
                    continue
                path = os.path.join(folder, name)
                with open(path, encoding="utf-8") as source:
                    text = source.read()
                code, comment = count(text)
                folders[os.path.relpath(folder, root)][0] += code
                folders[os.path.relpath(folder, root)][1] += comment
                if text.count("\n") > FILE_MOST:
                    long_files.append(f"{os.path.relpath(path, root)}: {text.count(chr(10))} lines")
    folders["all"] = [sum(pair[0] for pair in folders.values()), sum(pair[1] for pair in folders.values())]
    for folder, (code, comment) in folders.items():
        print(f"{folder:22} {code:6} code {comment:6} comments {100 * comment / (code + comment):4.1f} %")
    for line in long_files:
        print("over", FILE_MOST, "lines:", line)


if __name__ == "__main__":
    main()
