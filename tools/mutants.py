"""Change one line of the package at a time, and report changes that no test notices: `make mutants`.

A mutant is found by its text, so that it survives when its module moves. Each is applied to a copy of src/, and the
test files that protect the line run against that copy.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
SECONDS = 1800  # after which a run is given up


@dataclass(frozen=True)
class Mutant:
    """A change of one piece of text, and the test files that must notice it."""

    old: str
    """Text that occurs once in src/."""
    new: str
    """Text in its place."""
    tests: str
    """Test files, folders or tests of a file under tests/, separated by blanks."""


ORACLE = "attacks/test_oracles.py::test_picks_are_those_of_the_definition"
PERTURBED = "embeddings/test_deviations.py embeddings/test_perturbations.py"
STORE = "labeling/test_store.py labeling/test_session.py labeling/test_session_answers.py"
STATISTICS = "experiments/test_statistics.py experiments/test_results.py"

MUTANTS = (
    # noise stability: scale, directions, restored weights
    Mutant("scale = math.sqrt(noise.entries / self.num_perturbations)", "scale = 1.0", PERTURBED),
    Mutant(
        "self.relative((output(x) - clean) / noise.size, clean)",
        "self.relative(output(x) - clean, clean)",
        PERTURBED,
    ),
    Mutant(
        'self.context.rng("jolt", k, device=device)',
        'self.context.rng("jolt", 0, device=device)',
        PERTURBED,
    ),
    Mutant(
        "steps = [1 / math.sqrt(sum(squared_length(tensor) for tensor in into))] * len(into)",
        "steps = [1.0] * len(into)",
        PERTURBED,
    ),
    Mutant("for p in self.moving:\n                p.restore()", "pass", PERTURBED),
    # k-center and its bounds
    Mutant(
        "values[:late] = torch.minimum(values[:late], measure(rows[:late], centers))",
        "values[:late] = measure(rows[:late], centers)",
        "selectors/test_k_center.py selectors/test_selectors.py",
    ),
    Mutant(
        "return Picks(picks.positions, picks.scores.sqrt())",
        "return picks",
        "selectors/test_k_center.py selectors/test_selectors.py",
    ),
    Mutant(
        "if distance < level or (distance == level and among.keys[winner] > rival):",
        "if False:",
        "selectors/test_shards.py selectors/test_k_center.py",
    ),
    # ties
    Mutant(
        "return int(tied[keys[tied].argmin()]) if len(tied) > 1 else int(tied)",
        "return int(tied[0])",
        "selectors/test_ties.py strategies/test_registry.py",
    ),
    Mutant(
        "order = kept[tie_keys(seed, kept if places is None else places[kept]).argsort()]",
        "order = kept",
        "selectors/test_ties.py selectors/test_top_k.py",
    ),
    # herding
    Mutant(
        "(nearness - self.covered).clamp_(min=0) @ self.weights",
        "nearness @ self.weights",
        "selectors/test_herding_selector.py",
    ),
    Mutant(
        "torch.maximum(weights[few].double(), threshold)",
        "weights[few].double()",
        "selectors/test_herding_selector.py",
    ),
    # scores
    Mutant("return 1 - (first.squeeze(-1) - second)", "return 1 - first.squeeze(-1)", f"{ORACLE}[margin]"),
    Mutant("torch.special.entr(p).sum(-1)", "torch.special.entr(p).amax(-1)", f"{ORACLE}[entropy]"),
    Mutant("return (of_mean - expected).clamp(min=0)", "return of_mean", "strategies/test_peers.py"),
    Mutant(
        "left.scatter_(1, predicted, -left.sum(1, keepdim=True))",
        "left.scatter_(1, predicted, left.sum(1, keepdim=True))",
        "strategies/test_peers.py",
    ),
    Mutant("return sizes * (p * lengths).sum(1)", "return sizes * lengths.mean(1)", f"{ORACLE}[egl]"),
    # draws of k-means++, seeds
    Mutant(
        "ratios = times if only_copies else times / distances",
        "ratios = times if only_copies else times / distances**0.5",
        "selectors/test_k_means_pp.py",
    ),
    Mutant(
        '"\\x1f".join([str(int(seed)), *map(str, purpose)])',
        '"\\x1f".join([*map(str, purpose)])',
        "test_rng.py",
    ),
    Mutant('"\\x1f".join([str(int(seed)), *map(str, purpose)])', "str(int(seed))", "test_rng.py"),
    Mutant("random.setstate(python)", "pass", "test_rng.py"),
    # the pool and the labeled set
    Mutant("self.positions[~torch.isin(self.positions, gone)]", "self.positions", "inputs/test_pool.py"),
    Mutant(
        "return rows[:n], (rows[n:] if len(rows) > n else None)",
        "return rows[:n], None",
        "strategies/test_peers.py strategies/test_methods.py",
    ),
    # the row cache, memory, shards
    Mutant("if digest([rows[before:end]]) != rows_digest:", "if False:", "embeddings/test_resuming.py"),
    Mutant(
        "if self._digest(batches, end) != inputs_digest or self.done != end:",
        "if not self._digest(batches, end) or self.done != end:",
        "embeddings/test_resuming.py",
    ),
    Mutant(
        "needed = self.held + max(self.computing, self.selecting)",
        "needed = 0",
        "test_plans.py embeddings/test_large_pools.py",
    ),
    Mutant("return size > self.allowed // 2", "return False", "inference/test_budget.py"),
    Mutant(
        "(torch.cat(column) for column in zip(*found, strict=True))\n    if",
        "(torch.cat(column) for column in zip(*found[:1], strict=True))\n    if",
        "selectors/test_shards.py",
    ),
    # runs and their statistics
    Mutant(
        "fits = stated is None or stated == checksum(fields)",
        "fits = True",
        "experiments/test_store.py",
    ),
    Mutant("if cycle.cycle != place:", "if False:", "experiments/test_store.py"),
    Mutant("priority[labeled] = torch.inf", "pass", "experiments/test_loop.py"),
    Mutant(
        "(curves[..., 1:] + curves[..., :-1]) / 2 @ np.diff(n)", "curves[..., 1:] @ np.diff(n)", STATISTICS
    ),
    Mutant(
        "rank += np.where(same(mine, theirs), 0.5, theirs > mine)",
        "rank += np.where(same(mine, theirs), 0.0, theirs > mine)",
        STATISTICS,
    ),
    Mutant(
        "np.maximum.accumulate(p[made] * np.arange(len(made), 0, -1))",
        "np.maximum.accumulate(p[made])",
        STATISTICS,
    ),
    Mutant(
        "differences.mean(axis=0) > stats.t.ppf(1 - LEVEL / 2, n - 1) * error",
        "differences.mean(axis=0) > 0 * error",
        STATISTICS,
    ),
    # stored answers: append-only, undo, leases
    Mutant("if before is not None and before.act in DECIDED:", "if False:", STORE),
    Mutant(
        "if there := tx.execute(select(events).where(events.c.id == id)).one_or_none():",
        "if there := None:",
        STORE,
    ),
    Mutant("self._lease(tx, person, keys)\n        return keys", "return keys", STORE),
    Mutant("tx.execute(update(leases).where(open_ones).values(until=self._lease_end(tx)))", "pass", STORE),
    # the audit and the advice to stop
    Mutant(
        "kept = counts[averaged - given < math.log(1 / alpha)]",
        "kept = counts[averaged - given < 0]",
        "statistics/test_confidence.py",
    ),
    Mutant("limit = math.log(1 / alpha)", "limit = 0.0", "statistics/test_confidence.py"),
    Mutant(
        "stop = left == 0 or accuracy.reached or (stable and flat and not provable)",
        "stop = left == 0 or accuracy.reached or flat",
        "labeling/test_stopping.py",
    ),
    Mutant("(observed - expected) / (1 - expected)", "observed", "labeling/test_stopping.py"),
    # label noise, recall, and examples that are found
    Mutant("ratio = classes / (classes - 1)", "ratio = 1.0", "statistics/test_agreement.py"),
    Mutant(
        "joint[:, said] = belief[:, said] * (1 - answer_error)",
        "joint[:, said] = belief[:, said]",
        "statistics/test_agreement.py",
    ),
    Mutant(
        "missed = max(math.floor(most + 1e-6) - self.found, 0)", "missed = 0", "statistics/test_quality.py"
    ),
    Mutant(
        "shown = [key for key in keys if key not in audited]", "shown = list(keys)", "labeling/test_find.py"
    ),
    Mutant("[*page, *(key for key in reached if key in audited)]", "page", "labeling/test_find.py"),
    Mutant(
        "for key, v in session.snapshot().labels.items() if key not in audited}",
        "for key, v in session.snapshot().labels.items()}",
        "labeling/test_find.py",
    ),
    Mutant("clean = None  # an emptied note is withdrawn", "pass", "labeling/test_edits.py"),
    Mutant("new = _unsure_keys(tx, person, n, store.clock())", "new = list[str]()", "labeling/test_edits.py"),
    # access to the server
    Mutant("return name == self.host.lower()", "return True", "labeling/test_security.py"),
    Mutant(
        'return origin is not None and urlsplit(origin).netloc != headers.get("host")',
        "return False",
        "labeling/test_security.py",
    ),
    Mutant(
        "return hmac.compare_digest(token.encode(), self.token.encode())",
        "return True",
        "labeling/test_security.py",
    ),
    # files of users
    Mutant('if row.get("by") != "model"]', "]", "labeling/test_label_files.py"),
    Mutant(
        'for key, row in found.items() if row.get("purpose") == "audit"}',
        "for key, row in found.items() if False}",
        "labeling/test_label_files.py",
    ),
    Mutant(
        'plain = plain.replace(",", "")', 'plain = plain.replace(",", ".")', "labeling/test_label_files.py"
    ),
    Mutant(
        "(np.where(finite, values, low) - low) / (high - low or 1.0)",
        "(np.where(finite, values, low) - low) / 65535",
        "datasets/test_images.py labeling/test_encoders.py",
    ),
    Mutant(
        'return TASKS["binary" if labels.kind == "yes or no" else "regression"]',
        'return TASKS["regression"]',
        "tasks/test_labels.py",
    ),
    Mutant(
        "if all(size == 1 for size in outputs.shape[2:]):", "if outputs.ndim < 4:", "tasks/test_labels.py"
    ),
)


def main(given: Sequence[str] | None = None) -> int:
    """Run the mutants; return 1 if one survives."""
    parser = argparse.ArgumentParser(prog="make mutants", description=__doc__)
    parser.add_argument("--only", default="", help="mutants whose text contains this")
    parser.add_argument("--jobs", type=int, default=2, help="how many at once")
    options = parser.parse_args(given)
    chosen = [mutant for mutant in MUTANTS if options.only in mutant.old]
    with (
        tempfile.TemporaryDirectory(prefix="jostle-mutants-") as folder,
        ThreadPoolExecutor(options.jobs) as pool,
    ):
        plain = run_tests(ROOT / "src", sorted({test for mutant in chosen for test in test_files(mutant)}))
        if plain.returncode:
            print(plain.stdout[-3000:], "\nthese tests fail without any mutant", sep="")
            return 1
        survivors = list(
            filter(None, pool.map(lambda numbered: survivor(Path(folder), *numbered), enumerate(chosen)))
        )
    print(f"{len(chosen) - len(survivors)} of {len(chosen)} mutants killed", *survivors, sep="\n  survived: ")
    return 1 if survivors else 0


def survivor(folder: Path, number: int, mutant: Mutant) -> str:
    """Run a mutant; return its text if no test notices it, "" otherwise."""
    start, source = time.monotonic(), folder / str(number)
    shutil.copytree(ROOT / "src", source, ignore=shutil.ignore_patterns("__pycache__"))
    path = source / find(mutant).relative_to(ROOT / "src")
    path.write_text(path.read_text(encoding="utf-8").replace(mutant.old, mutant.new), encoding="utf-8")
    killed = run_tests(source, test_files(mutant)).returncode
    shutil.rmtree(source)
    what = mutant.old.splitlines()[0]
    print(
        f"{'killed' if killed else 'SURVIVED':8} {time.monotonic() - start:4.0f} s  {path.name}: {what}",
        flush=True,
    )
    return "" if killed else f"{what} -> {mutant.new}"


def run_tests(source: Path, tests: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Run test files against the package in `source`, up to the first failure."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist", *tests]
    environment = {**os.environ, "PYTHONPATH": str(source), "OMP_NUM_THREADS": "1", "JOSTLE_DATA": ""}
    try:
        return subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=SECONDS
        )
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 0, f"no end within {SECONDS} seconds")


def test_files(mutant: Mutant) -> list[str]:
    """Return the paths of a mutant's tests."""
    return [f"tests/{name}" for name in mutant.tests.split()]


def find(mutant: Mutant) -> Path:
    """Return the one file of src/ that contains a mutant's text; raise ValueError unless it occurs once."""
    found = [path for path, text in sources() for _ in range(text.count(mutant.old))]
    if len(found) != 1:
        raise ValueError(f"{mutant.old!r} must occur once in src/, got {[path.name for path in found]}")
    return found[0]


def sources() -> Iterator[tuple[Path, str]]:
    """Yield the modules of the package with their text."""
    for path in sorted((ROOT / "src").rglob("*.py")):
        yield path, path.read_text(encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
