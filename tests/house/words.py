"""How plain the pages are: the words in a sentence.

    python3 tests/house/words.py ROOT           a line for each page; fails if one is hard to read
    python3 tests/house/words.py ROOT PAGE...   the sentences of these that are too long

A sentence ends at a full stop, a question or an exclamation mark, or with its paragraph or list item; a colon
and a semicolon end none. Tables, blocks of code, headings and pictures are left out. What stands in backquotes,
and a link without its address, count as they are read: code as one word, a link as its text.
"""
import pathlib
import re
import statistics
import sys

MEDIAN_MOST, LONG, LONG_SHARE = 16, 30, 0.10
ITEM = re.compile(r"(?:[-*+]|\d+\.|\([a-z0-9]+\))\s+")
ABBREVIATION = re.compile(r"\b(?:e\.g|i\.e|etc|vs|cf|no)\.$", re.IGNORECASE)


def paragraphs(page):
    """The prose of a page, one paragraph or list item at a time."""
    lines, fenced = [], False
    for line in [*page.splitlines(), ""]:
        if line.lstrip().startswith("```"):
            fenced, line = not fenced, ""
        item = ITEM.match(line.lstrip())
        ends = not line.strip() or item or line.startswith(("#", "|", "![", "<"))
        if fenced or ends or (line.startswith("    ") and not lines):
            if lines:
                yield " ".join(lines)
            lines = [line.lstrip()[item.end():]] if item and not fenced else []
        else:
            lines.append(line.strip(" >"))


def sentences(page):
    for paragraph in paragraphs(page):
        text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", paragraph)
        text = re.sub(r"(`+)(.+?)\1", "code", text)
        start = 0
        for end in re.finditer(r"[.?!][*_\")]*(?=\s|$)", text):
            if not ABBREVIATION.search(text[start:end.end()]):
                yield text[start:end.end()].strip()
                start = end.end()
        if text[start:].strip():
            yield text[start:].strip()


def length(sentence):
    return sum(1 for word in sentence.split() if re.search(r"\w", word))


def prose(page):
    """Its sentences with their lengths; a lone word or figure is none."""
    return [(length(sentence), sentence) for sentence in sentences(page) if length(sentence) > 1]


def main(root, only):
    root = pathlib.Path(root)
    if only:
        for name in only:
            for count, sentence in prose((root / name).read_text()):
                if count > LONG:
                    print(f"{name}: {count}: {sentence}")
        return 0
    pages = [root / "README.md", *sorted((root / "docs").rglob("*.md"))]
    faults, all_lengths = [], []
    for path in pages:
        name, text = str(path.relative_to(root)), path.read_text()
        lengths = [count for count, _ in prose(text)]
        all_lengths += lengths
        middle = statistics.median(lengths)
        share = sum(count > LONG for count in lengths) / len(lengths)
        print(f"{name:48} {len(lengths):4} sentences, median {middle:4}, over {LONG}: {100 * share:4.1f} %")
        if middle > MEDIAN_MOST or share > LONG_SHARE:
            faults.append(f"{name}: sentences are too long")
    share = sum(count > LONG for count in all_lengths) / len(all_lengths)
    print(f"{'all':48} {len(all_lengths):4} sentences, median {statistics.median(all_lengths):4}, "
          f"over {LONG}: {100 * share:4.1f} %")
    print("\n".join(faults))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
