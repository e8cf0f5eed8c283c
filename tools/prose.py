"""Report long sentences and docstrings that do not stand alone: `make prose`. To be read, not obeyed."""

from __future__ import annotations

import ast
import json
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
MAX_WORDS = 30
SENTENCE_END = re.compile(
    r"(?<=[.!?])(?<!e\.g\.)(?<!i\.e\.)(?<! al\.)(?<! vs\.)[)*\"']*\s+"  # a full stop
    r"|\n\s*\n|\n\s*(?=(?:[*-]|\d+\.) )|\n\s*(?=\w+:)"  # a paragraph, an item of a list, an argument
)
CODE_BLOCK = re.compile(r"^( *)(`{3,}).*?^\1\2|^<!--.*?-->", re.MULTILINE | re.DOTALL)
DEPENDENT_START = re.compile(
    r"(What|Whether|Where|How|That of|Those|These|This|It|They|And|But|Also|As|Then|Such|Else|The same|Another)\b|[a-z]"
)


class Passage(NamedTuple):
    """A piece of prose: the file and line where it starts, its text, and whether it is a docstring."""

    path: Path
    line: int
    text: str
    is_docstring: bool = False


def find_files(root: Path = ROOT) -> list[Path]:
    """Return the pages and the Python files of users: README, docs, notebooks, examples and the package."""
    pages = [*root.glob("*.md"), *(root / "docs").rglob("*.md"), *(root / "docs").rglob("*.ipynb")]
    return sorted(pages) + sorted([*(root / "examples").glob("*.py"), *(root / "src").rglob("*.py")])


def read_passages(path: Path) -> Iterator[Passage]:
    """Yield the prose of a page, a notebook, or the docstrings and messages of a Python file."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        yield from python_passages(path, text)
    elif path.suffix == ".ipynb":
        cells = json.loads(text)["cells"]
        yield from (
            Passage(path, 1, "".join(cell["source"])) for cell in cells if cell["cell_type"] != "code"
        )
    else:
        yield Passage(path, 1, text)


def python_passages(path: Path, source: str) -> Iterator[Passage]:
    """Yield docstrings, strings below settings, and every other string of several words."""
    nodes = list(ast.walk(ast.parse(source)))
    documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    bodies = [node.body[0] for node in nodes if isinstance(node, documented) and node.body]
    docstrings = {id(first.value) for first in bodies if isinstance(first, ast.Expr)}
    inside = {id(part) for node in nodes if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in nodes:
        if isinstance(node, ast.JoinedStr):
            parts = (part.value if isinstance(part, ast.Constant) else "X" for part in node.values)
            yield Passage(path, node.lineno, "".join(map(str, parts)))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inside:
            yield Passage(path, node.lineno, node.value, id(node) in docstrings)


def strip_code(text: str) -> str:
    """Blank code blocks, comments of pages and table rows, keeping line numbers; a span of code counts as one word."""
    text = CODE_BLOCK.sub(lambda block: "\n" * block[0].count("\n"), text)
    text = re.sub(r"^ *\|.*$|^#.*$|^ {4,}\S.*$", "", text, flags=re.MULTILINE)
    text = re.sub(r"`[^`\n]*`", "code", text)
    return re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)


def long_sentences(passage: Passage) -> Iterator[tuple[int, int, str]]:
    """Yield line, number of words and text of every sentence over MAX_WORDS words."""
    text = passage.text if passage.is_docstring or passage.path.suffix == ".py" else strip_code(passage.text)
    start = 0
    for end in [*(match.end() for match in SENTENCE_END.finditer(text)), len(text)]:
        sentence = text[start:end]
        words = [word for word in sentence.split() if re.search(r"\w", word)]
        if len(words) > MAX_WORDS:
            leading = len(sentence) - len(sentence.lstrip())
            yield passage.line + text[: start + leading].count("\n"), len(words), " ".join(sentence.split())
        start = end


def stands_alone(docstring: str) -> bool:
    """Return whether a docstring starts with a verb or a noun phrase that needs no other docstring."""
    return DEPENDENT_START.match(docstring.strip()) is None


def report(paths: Iterable[Path]) -> Iterator[str]:
    """Yield a line for each finding, then the totals."""
    long, dependent = 0, 0
    for path in paths:
        shown = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
        for passage in read_passages(path):
            for line, words, sentence in long_sentences(passage):
                long += 1
                yield f"{shown}:{line}: {words} words: {sentence[:80]}"
            if passage.is_docstring and not stands_alone(passage.text):
                dependent += 1
                yield f"{shown}:{passage.line}: does not stand alone: {passage.text.strip().splitlines()[0][:80]}"
    yield f"{long} sentences over {MAX_WORDS} words, {dependent} docstrings that do not stand alone"


def main() -> None:
    """Print the report for the files that are named, or for all."""
    print("\n".join(report([Path(name).resolve() for name in sys.argv[1:]] or find_files())))


if __name__ == "__main__":
    main()
