"""The built wheel, installed apart from this tree, picks a batch; `make release-check` installs dependencies too."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
PICK = """
import sys, torch, jostle
assert jostle.__file__.startswith(sys.argv[1]), jostle.__file__
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
query = jostle.NoiseStability(num_perturbations=3).select(model, torch.randn(20, 4), n=5, seed=0)
assert len(set(query.indices.tolist())) == 5
"""


def run(*command: str | Path, **options: object) -> str:
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, **options)  # type: ignore[call-overload]
    assert done.returncode == 0, done.stdout + done.stderr
    return str(done.stdout)


def test_the_wheel_picks_a_batch_apart_from_this_tree(tmp_path: Path) -> None:
    place = tmp_path / "installed"
    run(sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", tmp_path, ROOT)
    wheel = next(tmp_path.glob("jostle-*.whl"))
    run(sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", place, wheel)
    measured = {name for name in os.environ if name.startswith("COVERAGE")}  # that of this tree alone
    apart = {name: value for name, value in os.environ.items() if name not in measured}
    apart["PYTHONPATH"] = str(place)
    run(sys.executable, "-c", PICK, place, cwd=tmp_path, env=apart)
    listed = run(place / "bin" / "jostle", "list", "strategies", cwd=tmp_path, env=apart)
    assert "noise-stability" in listed
