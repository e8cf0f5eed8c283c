"""The site builds without a warning, needs nothing from the network, and holds every public name."""

import importlib
import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from pydoc import locate
from urllib.parse import unquote, urlsplit

import pytest
from docutils.nodes import make_id
from sphinx.util.inventory import InventoryFile

ROOT = Path(__file__).parent.parent
API = sorted((ROOT / "docs" / "reference" / "api").glob("*.md"))
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
REMOTE = re.compile(r"^(https?:)?//")
CSS_URL = re.compile(r"""(?:url\(|@import)\s*["']?([^"')\s;]+)""")


class Addresses(HTMLParser):
    """What a page loads, what it links to, and what can be linked to in it."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.loads: set[str] = set()
        self.links: set[str] = set()
        self.anchors: set[str] = set()
        self.text = page.read_text()
        self.feed(self.text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {key: value or "" for key, value in attrs}
        self.anchors |= {given[key] for key in ("id", "name") if key in given}
        if tag == "a":
            self.links |= {given["href"]} if "href" in given else set()
        else:
            self.loads |= {given[key] for key in ("href", "src", "data", "poster", "srcset") if key in given}
        self.loads |= set(CSS_URL.findall(given.get("style", "")))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("site")
    quick = ["-D", "gallery_quick=1", "-t", "quick"]  # short examples, no pages of the source
    build = [sys.executable, "-m", "sphinx", "-q", "-W", "-n", "--keep-going", *quick]
    done = subprocess.run(
        [*build, "-d", out / "trees", ROOT / "docs", out / "html"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return out / "html"


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Addresses]:
    return {path: Addresses(path) for path in sorted(site.rglob("*.html"))}


def local(page: Path, address: str) -> tuple[Path, str]:
    """The file that an address on a page means, and the place in it."""
    parts = urlsplit(address)
    return ((page.parent / unquote(parts.path)).resolve() if parts.path else page), unquote(parts.fragment)


def test_no_page_loads_anything_from_elsewhere(pages: dict[Path, Addresses], site: Path) -> None:
    assert site / "index.html" in pages
    styles = {path.name: set(CSS_URL.findall(path.read_text())) for path in site.rglob("*.css")}
    assert "jostle.css" in styles
    loads = styles | {page.name: seen.loads for page, seen in pages.items()}
    assert not [f"{name}: {url}" for name, urls in loads.items() for url in urls if REMOTE.match(url)]


def test_what_pages_load_and_link_to_is_there(pages: dict[Path, Addresses]) -> None:
    broken = [
        f"{page.name}: {address}"
        for page, seen in pages.items()
        for address in (*seen.loads, *seen.links)
        if not urlsplit(address).scheme and not exists(*local(page, address), pages)
    ]
    assert not broken


def exists(path: Path, place: str, pages: dict[Path, Addresses]) -> bool:
    """Whether there is such a file, with such a place in it."""
    if not path.exists():
        return False
    return not place or path not in pages or place in pages[path].anchors


def public_names() -> Iterator[str]:
    """What a module lists in `__all__`, or else defines, of every module that the reference shows."""
    modules = [name for page in API for name in re.findall(r"automodule:: (\S+)", page.read_text())]
    for each in ("jostle", *modules):
        module = importlib.import_module(each)
        own = [name for name, thing in vars(module).items() if getattr(thing, "__module__", "") == each]
        yield from (f"{each}.{name}" for name in getattr(module, "__all__", own) if name[0] != "_")


def test_every_public_name_is_documented(site: Path) -> None:
    inventory = InventoryFile.loads((site / "objects.inv").read_bytes(), uri="")
    documented = {name for kind in inventory.data if kind.startswith("py:") for name in inventory.data[kind]}
    things = {id(locate(name)) for name in documented}  # a thing may have several names, of which one will do
    names = set(public_names())
    assert {"jostle.NoiseStability", "jostle.selectors.k_center"} <= names
    assert not [name for name in names - documented if id(locate(name)) not in things]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_examples_run_and_show_what_they_printed(
    example: Path, pages: dict[Path, Addresses], site: Path
) -> None:
    text = pages[site / "tutorials" / "examples.html"].text
    run = re.search(rf'id="{make_id(f"output of {example.stem}")}">.*?<pre>(.*?)</pre>', text, re.DOTALL)
    assert run, "every example is on the page"
    assert re.sub("<[^>]*>", "", run[1]).strip(), "and prints something"
