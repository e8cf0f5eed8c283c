"""Files with bytes flipped, cut, added or forged: refused with words or read for what they are, and nothing else."""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from random import Random

import numpy as np
import official_files as official
from tiny import numbers, tiny_file

from attacks import forge, forgeries, kills
from attacks.driver import BrokenPromiseError, check

ANY_SHAPE = """
import torch

class AnyShape(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.out = torch.nn.Linear(2, 10)

    def forward(self, x):
        x = x.float().flatten(1)
        return self.out(torch.stack([x.mean(1), x.square().mean(1)], 1))

def model():
    return AnyShape()
"""


KNOWN = "ants/image_0001.jpg,ants\nants/image_0002.jpg,ants\nbees/image_0001.jpg,bees\n"
KEPT: list[tempfile.TemporaryDirectory[str]] = []


@cache
def originals() -> Path:
    """A folder of all that is to be spoilt, whole; kept until this process ends."""
    KEPT.append(tempfile.TemporaryDirectory(prefix="jostle-originals-"))
    home = Path(KEPT[0].name)
    (home / "own.py").write_text(ANY_SHAPE, encoding="utf-8")
    write_data(home / "data")
    official.write_classes(home / "photos", {"ants": 4, "bees": 4}, 12, 12)
    official.picture(12, 12, seed=9).save(home / "photos" / "bees" / "last.png")
    write_table(home / "table.csv")
    (home / "known.csv").write_text("name,label\n" + KNOWN, encoding="utf-8")
    tiny_file(home)
    for words in (kills.WORDS, "label import known.csv photos --classes ants,bees"):
        code, said = forge.run(words, home)
        check(code == 0, f"{words} on files that nobody spoilt ended with {code}: {said}")
    return home


def write_data(root: Path) -> None:
    """Small copies of data sets in the formats of the published ones."""
    official.write_files(root / "cifar10" / "cifar-10-batches-py", official.cifar10_files())
    files = {f"cifar-100-python/{name}": content for name, content in official.cifar100_files().items()}
    official.write_files(root / "cifar100", {"cifar-100-python.tar.gz": official.tar_gz(files)})
    official.write_mnist(root / "mnist")
    official.write_svhn(root / "svhn")


def write_table(path: Path) -> None:
    rng = np.random.default_rng(0)
    rows = [f"{a:.3f},{b:.3f},{'red' if a > 0 else 'blue'},{int(b > 0)}" for a, b in rng.normal(size=(30, 2))]
    path.write_text("\n".join(["a,b,color,label", *rows, ""]), encoding="utf-8")


def attack(chance: Random, folder: Path) -> str:
    """Spoil one file, then use it."""
    box = folder / "box"
    shutil.copytree(originals(), box)
    victim, use = chance.choice(TARGETS)(chance, box)
    content = victim.read_bytes() if victim.exists() else b""
    how, spoilt = forgeries.spoilt(chance, victim, content)
    victim.write_bytes(spoilt)
    before = listing(folder)
    try:
        outcome = use(box)
        stray(before, listing(folder))
    except BrokenPromiseError as broken:
        raise BrokenPromiseError(f"{victim.relative_to(box)}, {how}: {broken}") from None
    return outcome


Use = Callable[[Path], str]


def a_run(chance: Random, box: Path) -> tuple[Path, Use]:
    return chance.choice(sorted((box / "runs").glob("*/*.jsonl"))), chance.choice([gone_on_with, reported])


def a_manifest(chance: Random, box: Path) -> tuple[Path, Use]:
    return box / "runs" / "manifest.json", chance.choice([gone_on_with, reported])


def a_protocol(chance: Random, box: Path) -> tuple[Path, Use]:
    return box / "tiny.toml", command("show tiny.toml")


def a_photo(chance: Random, box: Path) -> tuple[Path, Use]:
    spec = chance.choice(["folder:photos", "folder:photos(size=8)", "folder:photos(mode=L)"])
    return chance.choice(sorted((box / "photos").rglob("*.*"))), picked(spec, chance)


def a_table(chance: Random, box: Path) -> tuple[Path, Use]:
    spec = chance.choice(["csv:table.csv", "csv:table.csv(target=label)", "csv:table.csv(target=b)"])
    return box / "table.csv", picked(spec, chance)


def a_data_set(chance: Random, box: Path) -> tuple[Path, Use]:
    name = chance.choice(["cifar10", "cifar100", "mnist", "svhn"])
    files = [path for path in (box / "data" / name).rglob("*") if path.is_file()]
    return chance.choice(sorted(files)), picked(name, chance)


def an_earlier_round(chance: Random, box: Path) -> tuple[Path, Use]:
    names = "\n".join(f"ants/image_000{i}.jpg,{i},{i},0.5" for i in range(3))
    (box / "before.csv").write_text(f"name,position,order,score\n{names}\n", encoding="utf-8")
    return box / "before.csv", picked("folder:photos", chance, "--exclude", "before.csv")


def a_label_database(chance: Random, box: Path) -> tuple[Path, Use]:
    kind = chance.choice(["csv", "json", "parquet"])
    return box / "photos.labels" / "labels.db", command(f"label export out/labels.{kind}")


def labels_from_elsewhere(chance: Random, box: Path) -> tuple[Path, Use]:
    return box / "known.csv", command("label import known.csv")


def a_manifest_with_code(chance: Random, box: Path) -> tuple[Path, Use]:
    """Somebody else's runs, whose manifest names a file that does harm when it is run."""
    (box / "evil.py").write_text("open('escaped', 'w').write('here')\ndef data(): ...\n", encoding="utf-8")
    path = box / "runs" / "manifest.json"
    manifest = json.loads(path.read_text(encoding="utf-8"))
    part = chance.choice([manifest["protocol"], *manifest["protocol"]["strategies"].values()])
    part["dataset" if part is manifest["protocol"] else "use"] = f"{box}/evil.py:data"
    path.write_text(json.dumps(manifest), encoding="utf-8")
    return box / "unread.txt", reported


TARGETS: list[Callable[[Random, Path], tuple[Path, Use]]] = [
    a_run, a_run, a_manifest, a_manifest_with_code, a_protocol, a_photo, a_table, a_data_set, a_data_set,
    an_earlier_round, a_label_database, labels_from_elsewhere,
]  # fmt: skip


def command(words: str | list[str]) -> Use:
    """A use of the box by a command, which succeeds or is refused with words."""
    return lambda box: judged(*forge.run(words, box))


reported = command("report runs")


def gone_on_with(box: Path) -> str:
    """The same command again: refused, or the numbers that were there."""
    truth = numbers(originals() / "runs")
    code, said = forge.run(kills.WORDS, box)
    same = json.dumps(numbers(box / "runs")) == json.dumps(truth) if code == 0 else True
    check(same, "other numbers were taken for true")
    return judged(code, said)


def picked(spec: str, chance: Random, *more: str) -> Use:
    """A batch picked from what is there; its csv appears if and only if all went well."""
    strategy = chance.choice(["random", "margin", "noise-stability(num_perturbations=2)"])
    words = ["pick", "--model", "own.py:model", "--pool", spec, "-n", "2", "--strategy", strategy]
    words += ["--data", "data", "--out", "out/picks.csv", *more]

    def use(box: Path) -> str:
        outcome = command(words)(box)
        there = (box / "out" / "picks.csv").exists()
        check(there == (outcome == "read"), f"{outcome}, and picks.csv {'is' if there else 'is not'} there")
        return outcome

    return use


def judged(code: int, said: str) -> str:
    """Return how a command ended; a refusal has words of ours."""
    refused = code == 2 and "jostle: " in said and "Error: " not in said.replace("DataError: ", "")
    check(code == 0 or refused, f"it ended with {code}: {said[-1500:]}")
    return "refused with words" if refused else "read"


def listing(folder: Path) -> dict[str, str]:
    """Every file with the sum of its bytes."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return {str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest() for p in files}


OURS = ("box/runs/", "box/out/", "box/photos.labels/")  # where commands may write


def stray(before: dict[str, str], after: dict[str, str]) -> None:
    """Refuse what was written where nothing should be."""
    changed = {name for name, _ in before.items() ^ after.items() if not name.startswith(OURS)}
    check(not changed, f"written or lost outside of the folders that were named: {changed}")
