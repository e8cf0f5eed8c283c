"""Guidelines of a project, written in Markdown: rules for everybody, and a section with examples for each class.

A heading of the second level that names a class begins its section. The page gets nodes, never HTML: raw HTML stays
text, and pictures come from the guide's own folder or from the data.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from markdown_it import MarkdownIt
from markdown_it.tree import SyntaxTreeNode

from jostle.labeling.sources.contents import (
    Content,
    UnreadableError,
    digest,
    make_thumbnail,
    shown_json,
    to_browser_format,
)

if TYPE_CHECKING:
    from jostle.labeling.session import Session

NO_GUIDE = "none"  # on the command line: the project has no guide any more
MAX_GUIDE_BYTES = 2**20
TAGGED = {  # parts of a text that become an element; of any other, the inside is shown
    "paragraph", "bullet_list", "ordered_list", "list_item", "blockquote", "em", "strong", "code_inline", "code_block",
    "fence", "hr", "hardbreak", "table", "thead", "tbody", "tr", "th", "td",
}  # fmt: skip
PICTURE_SIDE = 720  # pixels of the longer side of a picture
LINKS = ("http", "https", "mailto")  # that a click may follow

Node = str | dict[str, Any]  # a text, or an element: its tag, its attributes, and `inside`


@dataclass
class Section:
    """Part of a guide: what is said before the first class, or about one class."""

    name: str = ""
    """Class that it is about; empty for general rules."""
    nodes: list[Node] = field(default_factory=list)
    examples: list[dict[str, Any]] = field(default_factory=list)
    """Examples of a class: pictures of the guide, and examples of the data, as the page draws them."""
    sentence: str = ""
    """First paragraph, as plain text."""


@dataclass
class Guide:
    """Guide as it was read."""

    sections: list[Section] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    """What its author should mend, in words."""
    digest: str = ""
    pictures: dict[str, Content] = field(default_factory=dict)
    """Pictures by the digest of their bytes; the page may fetch these and no others."""


def check_guide(path: str) -> str:
    """Return the absolute path of a guide; raise ValueError if it cannot be read."""
    if path == NO_GUIDE:
        return path
    file = Path(path).expanduser().absolute()
    if not file.is_file():
        raise ValueError(f"--guide {path}: there is no such file; name a Markdown file, or none for no guide")
    read_source(file)
    return str(file)


def read_source(file: Path) -> str:
    """Read the text of a guide; raise ValueError if it is too large or not UTF-8."""
    data = file.read_bytes()
    if len(data) > MAX_GUIDE_BYTES:
        raise ValueError(f"{file.name} has {len(data):,} bytes; a guide has at most {MAX_GUIDE_BYTES:,}")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as wrong:
        raise ValueError(f"{file.name} must be a text in UTF-8: {wrong}") from None


class GuideReader:
    """Guide of a session, read again when its file or the classes change."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self._lock = threading.Lock()
        self._read: tuple[Any, Guide] | None = None

    def get(self) -> Guide:
        """Return the guide; an empty one where the project has none."""
        if self.session.settings.guide in (None, NO_GUIDE):
            return Guide()
        file = Path(str(self.session.settings.guide))
        with self._lock:
            found = file.stat() if file.is_file() else None
            indexed = self.session.store.setting("indexed", False)  # then examples of the data can be marked
            stamp = found and (found.st_mtime_ns, found.st_size), indexed, tuple(self.session.classes())
            if self._read is None or self._read[0] != stamp:
                try:
                    guide = GuideBuilder(self.session, file).build(read_source(file))
                except (OSError, ValueError) as wrong:
                    guide = Guide(problems=[f"The guide cannot be read: {wrong}"])
                self._read = stamp, guide
            return self._read[1]


class GuideBuilder:
    """Turns the Markdown of a guide into sections of nodes."""

    def __init__(self, session: Session, file: Path) -> None:
        self.session, self.folder = session, file.parent.resolve()
        self.guide = Guide()
        self.seen: list[str] = []  # keys of all that the guide shows

    def build(self, text: str) -> Guide:
        """Return the guide of a text."""
        tree = SyntaxTreeNode(MarkdownIt("commonmark", {"html": False}).enable("table").parse(text))
        section, unknown = Section(), list[str]()
        self.guide.sections.append(section)
        for block in tree.children:
            made, begins = self.convert(block, section), block.type == "heading" and block.tag in ("h1", "h2")
            if begins:
                name = self.class_name(words(made)) if block.tag == "h2" else None
                if block.tag == "h2" and name is None and self.session.type.has_classes:
                    unknown.append(words(made))
                section = Section(name or "")
                self.guide.sections.append(section)
            if not (begins and section.name):
                section.nodes += made
            if block.type == "paragraph":
                section.sentence = section.sentence or words(made)
        if unknown:
            self.guide.problems.append(f"No class is called {', '.join(unknown)}.")
        self.guide.sections = [each for each in self.guide.sections if each.nodes or each.examples]
        self.session.store.mark_wanted(self.seen)  # whoever has seen its class cannot measure with it
        shown = [asdict(each) for each in self.guide.sections], self.guide.problems
        self.guide.digest = digest(repr(shown).encode())
        return self.guide

    def class_name(self, heading: str) -> str | None:
        """Return the current name of the class that a heading names; an earlier name counts too."""
        classes = self.session.book.classes()
        known = classes.find(heading)
        number = classes.numbers.get(heading) if known is None else known
        return None if number is None else classes.names[number]

    def convert(self, node: SyntaxTreeNode, section: Section) -> list[Node]:
        """Return the nodes of a part of the text; what has no tag of its own is shown as its inside."""
        if node.type in ("text", "softbreak"):
            return [node.content or "\n"]
        if node.type == "image":
            return self.picture(unquote(str(node.attrGet("src") or "")), node.content, section)
        inside: list[Node] = [made for child in node.children for made in self.convert(child, section)]
        if node.type == "heading":
            return [{"tag": f"h{min(int(node.tag[1]) + 1, 6)}", "inside": inside}]
        if node.type == "link" and urlsplit(href := str(node.attrGet("href"))).scheme in LINKS:
            return [{"tag": "a", "href": href, "inside": inside}]
        if node.type not in TAGGED or (node.type == "paragraph" and (node.hidden or not words(inside))):
            return inside
        tag = "pre" if node.type in ("code_block", "fence") else node.tag
        return [{"tag": tag, "inside": inside or [node.content]}]

    def picture(self, place: str, alt: str, section: Section) -> list[Node]:
        """Return a picture, or put it with the examples of its class; one that is not there becomes a problem."""
        try:
            found = self.find(place, alt or place)
        except (LookupError, OSError, UnreadableError) as wrong:
            why = str(wrong) if isinstance(wrong, UnreadableError) else "no such file, and no such example"
            self.guide.problems.append(f"{place}: {why}.")
            return [alt]
        if section.name:
            section.examples.append(found)
            return []
        return [{"tag": "example", "example": found}]

    def find(self, place: str, name: str) -> dict[str, Any]:
        """Return a file beside the guide, or an example of the data by its name, as the page draws it."""
        file = (self.folder / place).resolve()
        if urlsplit(place).scheme in LINKS or PurePath(place).is_absolute() or not place:
            raise UnreadableError("put the picture beside the guide and name it by its path from there")
        if file.is_file() and file.is_relative_to(self.folder):
            content = Content("image", name, file.read_bytes())
        else:
            content = self.session.source.read(place)
        self.seen.append(content.key)
        if content.kind != "image":
            return {"name": name, "content": shown_json(content)}
        self.guide.pictures[content.key] = to_browser_format(make_thumbnail(content, PICTURE_SIDE))
        return {"name": name, "content": {"kind": "image", "url": f"/api/guide/{content.key}"}}


def words(nodes: Sequence[Node]) -> str:
    """Return the words of some nodes."""
    return " ".join("".join(_texts(nodes)).split())


def _texts(nodes: Sequence[Node]) -> Iterator[str]:
    for node in nodes:
        yield from [node] if isinstance(node, str) else _texts(node.get("inside", []))
