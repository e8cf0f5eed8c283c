"""Results that several tests read."""

from pathlib import Path

import pytest
from synthetic_runs import FOUR, write_runs

from jostle.experiments.results import Results, load


@pytest.fixture
def four(tmp_path: Path) -> Results:
    """Four strategies with three seeds each."""
    return load(write_runs(tmp_path / "digits", FOUR))
