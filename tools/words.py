"""Find retired words, British spelling and dead links in pages, docstrings and messages: `python -m tools.words`."""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

from tools.prose import ROOT, Passage, find_files, read_passages

RETIRED = {  # a pattern, and the word of today
    r"(un)?jolt(s|ed|ing)?": "perturbation",
    r"heats?": "round",
    r"keepsakes?": "snapshot",
    r"plumbing": "utils",
    r"rehears(al|e|ed|es)": "profiling",
    r"tryouts?": "smoke test",
    r"level with": "not significantly different from",
    r"cannot be told from": "not significantly different from",
    r"defaults?:? (is |to )?the usual": "a number or a name",
    r"rows_file": "cache_path",
}
BRITISH = re.compile(
    r"cent(re|red|ring)\b|(behavi|neighb|fav|hon|col|flav)our|label(led|ling)|travell|cancell(ed|ing)|\bgrey\b|catalogue"
    r"|licence|judgement|learnt|spelt|artefact|programme\b|analys(e[drs]?|ing)\b|defence"
    r"|(organ|recogn|summar|visual|initial|util|minim|maxim|standard|normal|token|optim|real|general|special|serial)"
    r"is(ation|e[drs]?|ing)\b",
    re.IGNORECASE,
)
LINK = re.compile(r"\]\(([^)\s]+)\)")
PAGE = re.compile(r"\bdocs/[\w/-]+\.md(?:#[\w-]+)?")  # named in a docstring or a message
SEEDED = frozenset({"labelled batches"})  # purposes of random draws: picks depend on their spelling
HISTORY = (
    "CHANGELOG.md",
    "changelog.md",
    "upgrade.md",
    "upgrading.md",
)  # pages that name old words on purpose


def retired_words(passage: Passage) -> Iterator[tuple[int, str]]:
    """Yield line and advice for every retired word, in code of pages too: a setting that has a new name counts."""
    text = passage.text.replace("\n", " ")  # two words may stand on two lines
    for pattern, advice in RETIRED.items():
        for match in re.finditer(rf"\b{pattern}\b", text, re.IGNORECASE):
            yield line_of(passage, match.start()), f"{match[0]!r}: write {advice!r}"


def british_words(passage: Passage) -> Iterator[tuple[int, str]]:
    """Yield line and word of British spelling outside of code."""
    text = re.sub(
        r"^```.*?^```|`[^`]*`", lambda code: re.sub(r"[^\n]", " ", code[0]), passage.text, flags=re.M | re.S
    )
    for match in BRITISH.finditer(text):
        yield line_of(passage, match.start()), f"{match[0]!r}: use American spelling"


def dead_links(passage: Passage) -> Iterator[tuple[int, str]]:
    """Yield line and target of links to files or headings of this project that do not exist."""
    code = passage.path.suffix == ".py"
    text = re.sub(
        r"^```.*?^```", lambda block: re.sub(r"[^\n]", " ", block[0]), passage.text, flags=re.M | re.S
    )
    for match in (PAGE if code else LINK).finditer(text):
        target = match[0] if code else own_path(match[1])
        if target is not None and not exists(passage.path, target, ROOT if code else passage.path.parent):
            yield line_of(passage, match.start()), f"{match[0]!r}: no such file or heading"


def own_path(target: str) -> str | None:
    """Return a link's path in this project; None for other sites. The project's own address counts as its folder."""
    home = project_address()
    if home is not None and target.startswith(f"{home}/blob/"):
        return f"/{target.removeprefix(f'{home}/blob/').partition('/')[2]}"
    return None if re.match(r"\w+:", target) else target


def exists(page: Path, target: str, folder: Path) -> bool:
    """Return whether the file of a link exists and has the heading that the link names."""
    name, _, heading = target.partition("#")
    path = ROOT / name[1:] if name.startswith("/") else folder / name if name else page
    if not path.exists():
        return False
    return not heading or path.suffix != ".md" or heading in headings(path)


@cache
def headings(path: Path) -> frozenset[str]:
    """Return the anchors of a page's headings, as code hosts and the site make them."""
    text = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.M | re.S)
    titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return frozenset(re.sub(r"[^\w\- ]", "", title.strip().lower()).replace(" ", "-") for title in titles)


@cache
def project_address() -> str | None:
    """Return the address of the repository that pyproject.toml names, if it names one."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    address = project.get("urls", {}).get("Repository")
    return None if address is None else str(address).rstrip("/")


@cache
def read_prose(path: Path, modified: int) -> list[Passage]:
    """Return the passages of a file that people read; a file that has not changed is parsed once."""
    return [passage for passage in read_passages(path) if is_prose(passage)]


def is_prose(passage: Passage) -> bool:
    """Return whether people read a passage: a string of one word is a name, which may be stored in files of 0.2."""
    return passage.is_docstring or (" " in passage.text.strip() and passage.text not in SEEDED)


def line_of(passage: Passage, position: int) -> int:
    """Return the line of a character of a passage in its file."""
    return passage.line + passage.text[:position].count("\n")


CHECKS = {"words": retired_words, "spelling": british_words, "links": dead_links}


def find(kind: str, paths: Iterable[Path]) -> Iterator[str]:
    """Yield file, line and advice for each finding of a kind: words, spelling or links."""
    for path in paths:
        if kind == "words" and path.name in HISTORY:
            continue
        for passage in read_prose(path, path.stat().st_mtime_ns):
            for line, advice in CHECKS[kind](passage):
                yield f"{path.relative_to(ROOT) if path.is_relative_to(ROOT) else path}:{line}: {advice}"


def main() -> int:
    """Print every finding; the exit code says whether there is one."""
    found = [line for kind in CHECKS for line in find(kind, find_files())]
    print("\n".join(found))
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
