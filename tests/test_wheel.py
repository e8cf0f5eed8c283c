"""The built wheel, installed into a fresh environment, picks a batch."""

import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).parent.parent
PICK = """
import torch, jostle
assert "site-packages" in jostle.__file__, jostle.__file__
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
query = jostle.NoiseStability(num_perturbations=3).select(model, torch.randn(20, 4), n=5, seed=0)
assert len(set(query.indices.tolist())) == 5
"""


def run(*command: str | Path, **options: object) -> str:
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, **options)  # type: ignore[call-overload]
    assert done.returncode == 0, done.stdout + done.stderr
    return str(done.stdout)


def test_the_wheel_picks_a_batch_in_a_fresh_environment(tmp_path: Path) -> None:
    run(sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", tmp_path, ROOT)
    wheel = next(tmp_path.glob("jostle-*.whl"))
    venv.create(tmp_path / "env", with_pip=True)
    python = tmp_path / "env" / "bin" / "python"
    run(python, "-m", "pip", "install", "-q", "-c", ROOT / "constraints.txt", wheel)
    run(python, "-c", PICK, cwd=tmp_path)
    assert "noise-stability" in run(tmp_path / "env" / "bin" / "jostle", "list", "strategies", cwd=tmp_path)
