"""What users ask for by mistake: refused in a sentence, before anything is written."""

from pathlib import Path

import pytest
from commands import run_cli
from tiny import OWN, tiny_file


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--set", "pick=2000", "--set", "candidates=all"], "1297 training examples, but the budget is 6010"),
        (["--dataset", "ames", "--data", "."], "train.csv"),
        (["--strategies", "own.py:Own(depth=3)"], "unknown setting of own.py:Own 'depth'"),
        (
            ["--strategies", "own.py:Own(num_perturbations=3)", "--set", "model.use=mlp"],
            "the network mlp cannot be trained",
        ),
        (["--strategies", "own.py:points"], "points in own.py is list; expected a function or a class"),
        (["--strategies", "own.py:data"], "own.py:data made tuple; expected a jostle.Strategy"),
        (
            ["--strategies", "own.py:Raising"],
            "Raising does not work in tiny: KeyError: 'color' (",
        ),
        (["--dataset", "own.py:dat"], "'data'? (known: Own, Raising, data)"),
        (["--dataset", "own.py:data(rows=abc)"], "own.py:data(rows='abc'): "),
        (["--dataset", "own.py:data(color=abc)"], "unknown setting of own.py:data 'color'"),
        (["--set", "model.use=resnet"], "unknown model 'resnet'"),
        (["--set", "model.depth=3"], "depth"),
        (["--seeds", "0"], "--seeds takes a number"),
    ],
)
def test_a_users_mistake_ends_with_2_and_writes_nothing(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
    said: str,
):
    monkeypatch.delenv("JOSTLE_DATA", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.py").write_text(OWN)
    assert run_cli("run", tiny_file(tmp_path), *words, "--out-dir", tmp_path / "runs") == 2
    error = capsys.readouterr().err
    assert said in error
    assert len(error.splitlines()) == 1
    assert "Traceback" not in error
    assert not (tmp_path / "runs").exists()
