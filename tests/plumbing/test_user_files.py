"""Users' own files: run from the bytes that were hashed, together with what they import from beside them."""

import hashlib
import sys
import time as clock
from pathlib import Path

import pytest

from jostle.plumbing.user_files import checksums, from_file, kept_sources


@pytest.fixture
def own(tmp_path: Path) -> Path:
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "__init__.py").write_text("")
    (tmp_path / "parts" / "deep.py").write_text("VALUE = 3\n")
    (tmp_path / "beside.py").write_text("from parts.deep import VALUE\n")
    (tmp_path / "own.py").write_text("import json\nfrom beside import VALUE\ndef value(): return VALUE\n")
    return tmp_path


def spec(folder: Path, name: str = "value") -> str:
    return f"{folder}/own.py:{name}"


def test_neighbours_and_packages_are_found_and_loaded_anew(own: Path):
    assert from_file(spec(own))() == 3
    (own / "parts" / "deep.py").write_text("VALUE = 4\n")
    assert from_file(spec(own))() == 4
    assert not list(own.rglob("__pycache__"))
    assert str(own) not in sys.path


def test_the_same_name_beside_another_file_is_another_module(own: Path, tmp_path: Path):
    other = tmp_path / "other"
    other.mkdir()
    (other / "own.py").write_text("from beside import VALUE\ndef value(): return VALUE\n")
    (other / "beside.py").write_text("VALUE = 9\n")
    assert [from_file(spec(own))(), from_file(spec(other))()] == [3, 9]


def test_what_was_read_once_is_not_read_again(own: Path):
    with kept_sources() as sources:
        assert from_file(spec(own))() == 3
        for path in own.rglob("*.py"):
            path.unlink()
        assert from_file(spec(own, "value"))() == 3
    with pytest.raises(ValueError, match="there is no file"):
        from_file(spec(own))
    with kept_sources(sources):
        assert from_file(spec(own))() == 3


def test_checksums_are_of_what_runs(own: Path):
    with kept_sources():
        from_file(spec(own))
        (own / "beside.py").write_text("VALUE = 5\n")
        found = checksums(spec(own))
    assert list(found) == ["", "beside.py", "parts/__init__.py", "parts/deep.py"]
    first = b"import json\nfrom beside import VALUE\ndef value(): return VALUE\n"
    assert found[""] == hashlib.sha256(first).hexdigest()
    assert found["beside.py"] == hashlib.sha256(b"from parts.deep import VALUE\n").hexdigest()


def test_what_is_built_in_cannot_be_replaced(own: Path):
    (own / "time.py").write_text("raise RuntimeError('mine')\n")
    (own / "own.py").write_text("import time\ndef value(): return time\n")
    assert from_file(spec(own))() is clock


def test_a_file_that_raises_names_its_line(own: Path):
    (own / "own.py").write_text("\n\n1 / 0\n")
    with pytest.raises(ZeroDivisionError) as error:
        from_file(spec(own))
    assert error.traceback[-1].lineno == 2
    assert str(error.traceback[-1].path) == str(own / "own.py")
