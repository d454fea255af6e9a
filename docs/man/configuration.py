"""Writes weir.yaml(5) from the page of the server's configuration: configuration.py PAGE FILE VERSION DATE.

A row of a table is an entry of its own, led by its first cell; a link is its words. Other forms of Markdown than
those of the page are not known.
"""

import pathlib
import re
import sys

from headers import roff

LINK = re.compile(r"\[([^\]]+)\]\([^)]*\)")
PIECE = re.compile(r"`([^`]+)`|\*\*([^*]+)\*\*|\*(?!\s)([^*`]+)\*")


def inline(text):
    out, at = [], 0
    text = LINK.sub(r"\1", text)
    for piece in PIECE.finditer(text):
        out.append(roff(text[at:piece.start()]))
        out.append("\\fB%s\\fR" % roff(next(one for one in piece.groups() if one is not None)))
        at = piece.end()
    shown = "".join([*out, roff(text[at:])])
    return re.sub(r"^\.", r"\\&.", shown, flags=re.MULTILINE)


def table(lines):
    cells = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip("|"))] for line in lines]
    heads, rows = cells[0], cells[2:]
    for row in rows:
        between = [cell if cell == "needed" else head + " " + cell for head, cell in zip(heads[1:-1], row[1:-1])]
        yield ".TP\n%s\n%s" % (inline(row[0]), inline(" ".join([row[-1], *("(%s)" % one for one in between)])))


def block(lines):
    """The lines between two empty ones."""
    first = lines[0]
    if first.startswith("#"):
        level, title = first.split(" ", 1)
        yield '.%s "%s"' % ("SH" if len(level) < 3 else "SS", inline(title).replace('"', "\\(dq"))
        yield from block(lines[1:]) if lines[1:] else ()
    elif first.startswith("|"):
        yield from table(lines)
    elif first.startswith("    "):
        yield ".PP\n.RS 4\n.nf\n%s\n.fi\n.RE" % roff("\n".join(line[4:] for line in lines))
    elif first.startswith("- "):
        for item in re.split(r"^- ", "\n".join(lines), flags=re.MULTILINE)[1:]:
            yield ".IP \\(bu 2\n" + inline(re.sub(r"\n\s*", "\n", item.strip()))
    else:
        yield ".PP\n" + inline("\n".join(lines))


def blocks(text):
    for i, part in enumerate(re.split(r"^```\w*\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)):
        if i % 2 == 1:
            part = re.sub(r"^(?=.)", "    ", part, flags=re.MULTILINE)
        yield from (one.strip("\n").split("\n") for one in re.split(r"\n\s*\n", part) if one.strip())


def main(page, file, version, date):
    text = pathlib.Path(page).read_text(encoding="utf-8").split("\n", 1)[1]
    text = re.sub(r"^<!--.*?-->\n", "", text, flags=re.MULTILINE | re.DOTALL)
    shown = "\n".join(line for lines in blocks(text) for line in block(lines))
    shown = re.sub(r"^(\.S[HS] .*\n)\.PP\n", r"\1", ".SH DESCRIPTION\n" + shown, flags=re.MULTILINE)
    pathlib.Path(file).parent.mkdir(parents=True, exist_ok=True)
    pathlib.Path(file).write_text(f'.TH weir.yaml 5 {date} "weir {version}" "weir"\n'
                                  ".SH NAME\nweir.yaml \\- the configuration of weir serve\n"
                                  f"{shown}\n.SH \"SEE ALSO\"\n.BR weir\\-serve (1),\n"
                                  ".BR weir\\-check (1)\n", encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
