"""Writes the manual pages of the library from its headers: headers.py INCLUDE DIRECTORY VERSION DATE.

libweir(3) lists the headers; each header has a page, weir_limiter(3) for limiter.h, with its comments
and declarations as they stand there; each function has a page that shows its header's.
"""

import pathlib
import re
import sys

FUNCTION = re.compile(r"^(?!typedef)[\w ]+?[ *](weir_\w+)\s*\(", re.MULTILINE)
COMMENT = re.compile(r"/\*(.*?)\*/", re.DOTALL)
GUARD = re.compile(r"^#(?:ifndef|define|endif).*_H\b.*$|^#ifdef __cplusplus\n.*\n#endif$|^#endif$", re.MULTILINE)


def roff(text):
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq")
    return re.sub(r"^\.", r"\\&.", text, flags=re.MULTILINE)


def prose(comment):
    """A comment's text without the stars at its edge."""
    return "\n".join(re.sub(r"^ \* ?", "", line).rstrip() for line in comment.split("\n")).strip()


def body(text):
    """Comments that stand alone are paragraphs, everything else is shown as it is."""
    out, code = [], []

    def flush():
        shown = "\n".join(code).strip("\n")
        if shown.strip():
            out.append(".PP\n.nf\n.ft CR\n" + roff(shown) + "\n.ft R\n.fi")
        code.clear()

    lines = text.split("\n")
    at = 0
    while at < len(lines):
        if lines[at].startswith("/*"):
            end = at
            while "*/" not in lines[end]:
                end += 1
            flush()
            words = prose(COMMENT.search("\n".join(lines[at:end + 1])).group(1))
            for part in re.split(r"\n\s*\n", words):
                shown = roff(part)
                if re.search(r"^  ", part, re.MULTILINE) or re.search(r"^- ", part, re.MULTILINE):
                    shown = ".nf\n" + shown + "\n.fi"
                out.append(".PP\n" + shown)
            at = end + 1
        else:
            code.append(lines[at])
            at += 1
    flush()
    return "\n".join(out)


def describe(header):
    text = header.read_text()
    first = COMMENT.search(text)
    words = prose(first.group(1))
    summary = re.sub(r"\s+", " ", re.split(r"\.(?:\s|$)|\n\s*\n", words)[0])
    rest = GUARD.sub("", text[first.end():])
    rest = re.sub(r"^#include.*\n", "", rest, flags=re.MULTILINE)
    return summary, words, rest


def write(directory, name, version, date, text):
    title = f'.TH {name} 3 {date} "weir {version}" "weir"\n'
    (directory / f"{name}.3").write_text(title + re.sub(r"\n{2,}", "\n", text))


def main(include, directory, version, date):
    directory = pathlib.Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    pages = []
    for header in sorted(pathlib.Path(include, "weir").glob("*.h")):
        if header.name in ("weir.h", "export.h"):
            continue
        page = "weir_" + header.stem
        summary, words, rest = describe(header)
        rest = rest.replace("WEIR_EXPORT ", "")
        functions = sorted(set(FUNCTION.findall(re.sub(r"/\*.*?\*/", "", rest, flags=re.DOTALL))))
        names = ", ".join([page, *(name for name in functions if name != page)])
        text = (f".SH NAME\n{roff(names)} \\- {roff(summary)}\n.SH SYNOPSIS\n.nf\n#include <weir/{header.name}>\n.fi\n"
                f".SH DESCRIPTION\n{roff(words)}\n{body(rest)}\n"
                ".SH \"SEE ALSO\"\n.BR libweir (3)\n")
        write(directory, page, version, date, text)
        for name in functions:
            if name != page:
                (directory / f"{name}.3").write_text(f".so man3/{page}.3\n")
        pages.append((page, summary))
    listed = "".join(f".TP\n.BR {page} (3)\n{roff(summary)}\n" for page, summary in pages)
    write(directory, "libweir", version, date,
          ".SH NAME\nlibweir \\- rate limits on memcached or Redis, without scripts\n"
          ".SH SYNOPSIS\n.nf\n#include <weir/weir.h>\n.PP\n"
          "cc program.c $(pkg\\-config \\-\\-cflags \\-\\-libs weir)\n.fi\n"
          ".SH DESCRIPTION\nA store is opened by a URL, a limiter is created on it from the text of a rule, and "
          "each request is taken from the limiter, under a key.\n"
          "Each header has a page; each function has one as well.\n" + listed +
          ".SH \"SEE ALSO\"\n.BR weir (1)\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
