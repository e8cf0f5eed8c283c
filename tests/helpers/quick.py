"""Settings that make a strategy cheap; they change no promise."""

from typing import Any

QUICK: dict[str, dict[str, Any]] = {
    "noise-stability": {"num_perturbations": 4},
    "noise-stability-relative": {"num_perturbations": 4},
    "noise-stability-m": {"num_perturbations": 4},
    "noise-stability-d": {"num_perturbations": 4},
    "bald": {"passes": 4},
    "entropy-dropout": {"passes": 4},
    "batch-bald": {"passes": 4},
    "qbc": {"committee": 3},
    "core-gcn": {"epochs": 5},
    "uncertain-gcn": {"epochs": 5},
    "vaal": {"steps": 3},
    "sraal": {"steps": 3},
    "lcmd": {"sketch": 16},
    "epig": {"samples": 4},
    "ldm-s": {"patience": 2},
}
