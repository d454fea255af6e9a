"""The packages' versions are the library's: versions.py ROOT. Each stands in its folder, which is
installed by itself."""

import json
import pathlib
import re
import sys


def main(root):
    header = (root / "include/weir/version.h").read_text()
    version, = re.findall(r'#define WEIR_VERSION_TEXT "(.*)"', header)
    python, = re.findall(r'^VERSION = "(.*)"$', (root / "src/bindings/python/weir/version.py").read_text(), re.M)
    found = {"python": python}
    package = root / "src/bindings/node/package.json"
    if package.exists():
        found["node"] = json.loads(package.read_text())["version"]
    wrong = {name: each for name, each in found.items() if each != version}
    print(wrong or f"{len(found)} packages of {version}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
