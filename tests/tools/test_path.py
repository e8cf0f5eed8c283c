"""The figures of the way of one call: code lines are counted as they should be, and the way stays short."""

from pathlib import Path

from tools.path import CallPath, calls, code_lines


def test_code_lines_leave_out_blanks_comments_and_docstrings(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text(
        '"""About\nit."""\n\n# why\nx = (\n    1,\n)  # here\n\n\ndef f():\n    """Do."""\n    return """a\nb"""\n'
    )
    assert code_lines(module) == 6


def test_a_call_of_noise_stability_stays_within_twenty_files() -> None:
    path = CallPath.of(calls()["NoiseStability().select"])
    assert path.files[0] == "embeddings/deviations.py"
    assert len(path.files) <= 20
    assert path.changes < len(path.functions)
