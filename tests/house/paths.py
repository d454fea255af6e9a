"""Every path of the tree that the pages for contributors name is there: paths.py ROOT PAGE..."""

import pathlib
import re
import sys

PATH = re.compile(r"(?<![\w/])((?:src|tests|docs|include|backends)/[\w./-]*\w|CMakePresets\.json|CMakeLists\.txt)")


def main(root, *pages):
    found = 0
    missing = []
    for page in pages:
        for path in PATH.findall(pathlib.Path(root, page).read_text()):
            if path.split("/")[-1].isupper() or "NAME" in path or "FOLDER" in path:
                continue  # stands for many
            found += 1
            if not pathlib.Path(root, path).exists():
                missing.append(f"{page} names {path}, which is not there")
    print("\n".join(missing) or f"{found} paths, all there")
    return 1 if missing or found < 20 else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
