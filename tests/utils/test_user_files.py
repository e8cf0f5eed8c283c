"""Users' own files: run from the bytes that were hashed, together with what they import from beside them."""

import hashlib
import pickle
import sys
from pathlib import Path

import pytest
import torch

from jostle.utils.user_files import checksums, from_file, kept_sources


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


def test_neighbors_and_packages_are_found_and_loaded_anew(own: Path):
    assert from_file(spec(own))() == 3
    (own / "parts" / "deep.py").write_text("VALUE = 4\n")
    assert from_file(spec(own))() == 4
    assert not list(own.rglob("__pycache__"))
    assert str(own) not in sys.path


def test_a_file_is_loaded_once(own: Path):
    (own / "own.py").write_text("from beside import VALUE\nlog = []\ndef value(): return log\n")
    first = from_file(spec(own))()
    first.append(1)
    assert from_file(spec(own))() is first
    with kept_sources():
        assert from_file(spec(own))() is first
        assert list(checksums(spec(own))) == ["", "beside.py", "parts/__init__.py", "parts/deep.py"]
    (own / "parts" / "deep.py").unlink()
    with pytest.raises(ModuleNotFoundError, match="deep"):
        from_file(spec(own))


def test_classes_of_neighbors_can_be_pickled_whichever_file_was_loaded_last(own: Path, tmp_path: Path):
    (own / "beside.py").write_text("class Thing: pass\n")
    (own / "own.py").write_text("from beside import Thing\ndef value(): return Thing()\n")
    (own / "other.py").write_text("import beside\ndef value(): return beside\n")
    (tmp_path / "far").mkdir()
    (tmp_path / "far" / "own.py").write_text("import beside\ndef value(): return beside\n")
    (tmp_path / "far" / "beside.py").write_text("")
    thing = from_file(spec(own))()
    from_file(spec(tmp_path / "far"))
    assert type(pickle.loads(pickle.dumps(from_file(spec(own))()))) is type(thing)


def test_what_a_file_draws_as_it_is_loaded_does_not_depend_on_what_came_before(own: Path):
    (own / "own.py").write_text("import torch\nDRAWN = torch.rand(3)\ndef value(): return DRAWN\n")
    torch.manual_seed(1)
    first = from_file(spec(own))()
    expected = torch.rand(1)
    (own / "own.py").write_text("import torch\nDRAWN = torch.rand(3)  # again\ndef value(): return DRAWN\n")
    torch.manual_seed(1)
    torch.testing.assert_close(torch.rand(1), expected)  # loading drew nothing
    torch.testing.assert_close(from_file(spec(own))(), first)


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


def test_a_file_that_raises_names_its_line(own: Path):
    (own / "own.py").write_text("\n\n1 / 0\n")
    with pytest.raises(ZeroDivisionError) as error:
        from_file(spec(own))
    assert error.traceback[-1].lineno == 2
    assert str(error.traceback[-1].path) == str(own / "own.py")


def test_names_that_are_no_functions_are_errors(own: Path):
    with pytest.raises(ValueError, match=r"unknown function in .*'nothing'"):
        from_file(spec(own, "nothing"))
    with pytest.raises(ValueError, match=r"VALUE in .* is int; expected a function"):
        from_file(spec(own, "VALUE"))
