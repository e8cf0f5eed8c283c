"""What is free is read where the system tells, and guessed where it does not."""

import pytest
import torch

from jostle.inference import memory

CPU = torch.device("cpu")


def test_the_least_of_all_readings_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_available", lambda: 5000)
    monkeypatch.setattr(memory, "_left_in_group", lambda: 3000)  # a container's limit
    assert memory.free_bytes(CPU) == 3000
    notes: list[str] = []
    memory.MemoryBudget.of(None, CPU, notes).check("bait", 1500, "it", "less")
    with pytest.raises(
        ValueError, match=r"bait would need 1,501 bytes for it, more than half of the 3,000 that are"
    ):
        memory.MemoryBudget.of(None, CPU, notes).check("bait", 1501, "it", "less")
    memory.MemoryBudget.of(1501, CPU, notes).check("bait", 1501, "it", "less")  # said so


def test_a_system_that_says_nothing_is_guessed(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails() -> int:
        raise OSError

    for name in ("_available", "_left_in_group", "_pages", "_windows"):
        monkeypatch.setattr(memory, name, fails)
    assert memory.free_bytes(CPU) == memory.UNKNOWN
