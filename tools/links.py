"""Links of the pages on the site: a page that is named by its file there, `cli.md`, is named by its title here."""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING, Any

from docutils import nodes

if TYPE_CHECKING:
    from sphinx.application import Sphinx


def name_pages(app: Sphinx, page: nodes.document, name: str) -> None:
    """Give links whose words are a file's name the title of the page that they lead to."""
    for link in page.findall(nodes.reference):
        if link.astext().endswith(".md") and link.get("internal"):
            target, _, _ = link["refuri"].partition("#")
            title = app.env.titles.get(
                posixpath.normpath(posixpath.join(posixpath.dirname(name), target)[:-5])
            )
            if title is not None:
                link.children = [nodes.inline("", title.astext())]


def setup(app: Sphinx) -> dict[str, Any]:
    """Tell Sphinx."""
    app.connect("doctree-resolved", name_pages)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
