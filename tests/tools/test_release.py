"""What keeps a tree from being released is found."""

import re

import pytest
from tools.release import NEEDED, ROOT, NotReadyError, check_changelog, check_contents, check_tree

import jostle

INSIDE = [f"jostle-9/{name}" for name in NEEDED]


def test_this_changelog_tells_of_this_version() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    released = re.sub(
        r"^## [\d.]+ \(unreleased\)\n.*?(?=^## )", "", text, count=1, flags=re.MULTILINE | re.DOTALL
    )
    check_changelog(released, jostle.__version__)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("# Changelog\n", "begins with ''"),
        ("## 9.0 (unreleased)\n\n* new\n", "unreleased"),
        ("## 8.0 (2026-01-02)\n\n* new\n\n## 9.0 (2026-01-01)\n\n* old\n", "8.0"),
        ("## 9.0 (2026-01-02)\n\n## 8.0 (2026-01-01)\n\n* old\n", "says nothing of 9.0"),
    ],
)
def test_a_changelog_that_is_not_ready(text: str, words: str) -> None:
    with pytest.raises(NotReadyError, match=words):
        check_changelog(text, "9.0")


def test_what_is_not_committed_is_told() -> None:
    check_tree("")
    with pytest.raises(NotReadyError, match=r"mine\.py"):
        check_tree("?? mine.py")


def test_a_source_distribution_is_whole_and_clean() -> None:
    check_contents([*INSIDE, "jostle-9/tests/runs/test_loop.py"])
    with pytest.raises(NotReadyError, match=r"runs/mnist"):
        check_contents([*INSIDE, "jostle-9/runs/mnist/manifest.json"])
    with pytest.raises(NotReadyError, match=r"lacks \['LICENSE'\]"):
        check_contents([name for name in INSIDE if not name.endswith("LICENSE")])
    with pytest.raises(NotReadyError, match=r"__pycache__/a\.pyc"):
        check_contents([*INSIDE, "jostle-9/src/jostle/__pycache__/a.pyc"])
