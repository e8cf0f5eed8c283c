"""No answer is lost or doubled: the small form of `make soak`."""

from pathlib import Path

from tools.soak import soak


def test_answers_outlive_a_server_that_is_killed(tmp_path: Path) -> None:
    told = soak(tmp_path, people=8, goal=120, kills=2)
    assert told["acknowledged"] >= 120
    assert told["on disk"] >= told["acknowledged"]
