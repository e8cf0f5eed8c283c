"""Random calls: any strategy, network, pool and task; picks keep their promises, or the words are ours."""

from __future__ import annotations

import copy
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import torch
from quick import QUICK
from torch import Tensor, nn
from unchanged import remembered

import jostle
from attacks import networks, pools
from attacks.driver import BrokenPromiseError, check, shortened
from attacks.networks import Keeping, Restless, Selfish, Subject
from attacks.pools import Held
from jostle import embeddings, selectors, strategies
from jostle.core import Query
from jostle.tasks import TASKS

SOURCE = str(Path(jostle.__file__).parent)
BENIGN = ("", "duplicates", "constant", "one outlier")
HAVE_ROWS = sorted(embeddings.names())
SELF_EVIDENT = ("classification", "regression", "segmentation")  # tasks that the outputs' shape tells


@dataclass
class Scene:
    """One call, and whether it must succeed."""

    strategy: str
    settings: dict[str, Any]
    subject: Subject
    model: nn.Module
    held: Held
    n: Any
    options: dict[str, Any]
    value: str
    must_work: bool = False

    def call(self, pool: Any = None) -> Query:
        """Do it, silently."""
        made = strategies.build(self.strategy, **self.settings)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return made.select(self.model, self.held.pool if pool is None else pool, self.n, **self.options)

    def __str__(self) -> str:
        shown = {key: value for key, value in self.options.items() if key not in ("labeled", "fit")}
        return (
            f"{self.strategy}({self.settings}).select(n={self.n!r}, {shown}) on {self.held.how} of "
            f"{self.subject.size}, values {self.value or 'plain'}, task {self.subject.task}\n    "
            + "\n    ".join(self.subject.traits)
        )


def scene(chance: Random, folder: Path, must_work: bool = False) -> Scene:
    """A random call; where `must_work`, one without anything that may be refused."""
    task = chance.choice(sorted(TASKS))
    fitting = [name for name in strategies.names() if task in strategies.describe(name).tasks]
    name = chance.choice(fitting if must_work or chance.random() < 0.9 else strategies.names())
    size = chance.randint(8, 24) if must_work else chance.choice([0, 1, 2, 3, *[chance.randint(8, 40)] * 6])
    subject = networks.subject(chance, task, size)
    value = "" if must_work else chance.choice(["", "", "", *pools.ODD_VALUES])
    if value and isinstance(subject.inputs, Tensor):
        subject.inputs = pools.odd(chance, subject.inputs, value)
    settings = dict(QUICK.get(name, {}))
    if "passes" in settings:
        settings["passes"] = 16  # of layers this narrow, few dropout masks may all be alike by chance
    if not must_work and chance.random() < 0.15:
        settings = {"embedding": chance.choice(HAVE_ROWS), "selector": chance.choice(selectors.names())}
        name = "compose"
    model = joined(name, settings, subject)
    pool, n = pools.held(chance, subject.inputs, folder), chance.randint(1, max(1, size))
    n, value = n if chance.random() < 0.85 else size, value if isinstance(subject.inputs, Tensor) else ""
    made = Scene(name, settings, subject, model, pool, n, options(chance, subject), value)
    made.must_work = works(made)
    return made


def joined(name: str, settings: dict[str, Any], subject: Subject) -> nn.Module:
    """The model as training with this strategy leaves it; one that cannot be joined stays alone."""
    if not subject.size:
        return subject.model
    example: Any = pools.plain(subject.inputs)
    first = {k: v[:2] for k, v in example.items()} if isinstance(example, dict) else example[:2]
    try:
        return strategies.build(name, **settings).join(subject.model, first, 0).model
    except ValueError:
        subject.traits.append("cannot be joined")
        return subject.model


def options(chance: Random, subject: Subject) -> dict[str, Any]:
    """Options of a call that all make sense."""
    told = subject.task if subject.task not in SELF_EVIDENT or chance.random() < 0.5 else None
    found: dict[str, Any] = {"seed": chance.randrange(2**31), "task": told, "progress": False}
    if chance.random() < 0.9:
        found["labeled"] = labeled_set(chance, subject, chance.randint(8, 14))
    if chance.random() < 0.9:
        found["fit"] = committee(subject)
    if chance.random() < 0.3:
        found["batch_size"] = chance.choice([1, 2, 7, 1000])
    if chance.random() < 0.3 and subject.size > 4:
        found["exclude"] = sorted(chance.sample(range(subject.size), chance.randint(0, subject.size // 3)))
    return found


def labeled_set(chance: Random, subject: Subject, size: int) -> Any:
    inputs = subject.inputs
    if isinstance(inputs, dict):
        length = inputs["input_ids"].shape[1]
        ids = torch.randint(1, networks.WORDS, (size, length))
        x: Any = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    else:
        x = torch.randn(size, *inputs.shape[1:])
    return pools.labeled(chance, x, networks.targets_for(subject, size))


def committee(subject: Subject) -> Callable[[Any, int], nn.Module]:
    """A `fit` that trains nothing: the same network with other weights."""

    def fit(dataset: Any, seed: int) -> nn.Module:
        rng = torch.Generator().manual_seed(seed)
        member = copy.deepcopy(
            subject.model, {id(m): m for m in subject.model.modules() if isinstance(m, Keeping)}
        )
        with torch.no_grad():
            for parameter in member.parameters():
                noise = torch.randn(parameter.shape, generator=rng).to(parameter.dtype)
                parameter.copy_(parameter + 0.1 * noise)
        return member

    return fit


def works(scene: Scene) -> bool:
    """Whether nothing about a call gives a reason to refuse it."""
    if scene.strategy == "compose":  # not every selector takes the rows of every embedding
        return False
    card, subject = strategies.describe(scene.strategy), scene.subject
    layers = {type(layer) for layer in subject.model.modules()}
    free = subject.size - len(scene.options.get("exclude", ()))
    return (
        subject.task in card.tasks
        and scene.value in BENIGN
        and subject.size >= 8
        and 1 <= scene.n <= free
        and {"labeled", "fit"} <= scene.options.keys()
        and ("images" not in card.needs or (isinstance(subject.inputs, Tensor) and subject.inputs.ndim == 4))
        and ("dropout" not in card.needs or nn.Dropout in layers)
        and Selfish not in layers
        and "cannot be joined" not in subject.traits
    )


def attack(chance: Random, folder: Path) -> str:
    """One random call, and a mistake in every fifth."""
    made = scene(chance, folder)
    if chance.random() < 0.2:
        return judged_mistake(chance, made)
    compare = everything_stays(made)
    outcome = judged(made)
    compare("a call")
    return outcome


def everything_stays(made: Scene) -> Callable[[str], None]:
    """Return a function that checks that model, pool, labeled set and generators are as they were here."""
    unchanged, before = remembered(made.model), (made.held.fingerprint(), labeled_bytes(made))

    def compare(after: str) -> None:
        try:
            unchanged()
        except AssertionError as changed:
            raise BrokenPromiseError(f"after {after}: {changed}\n{made}") from None
        same = (made.held.fingerprint(), labeled_bytes(made)) == before
        check(same, f"after {after} the pool or the labeled set has other bytes\n{made}")

    return compare


def labeled_bytes(made: Scene) -> str:
    found = made.options.get("labeled")
    items = getattr(found, "dataset", found)
    rows = [item.values() if isinstance(item, dict) else item for item in items or ()]
    leaves = [leaf for row in rows for leaf in row if isinstance(leaf, Tensor)]
    return Held(None, "", leaves).fingerprint()


def judged(made: Scene) -> str:
    try:
        query = made.call()
    except Exception as error:
        refuse_raw(error, made)
        check(not made.must_work, f"refused: {type(error).__name__}: {error}\n{made}")
        return "refused with words"
    check_picks(query, made.subject.size, made.n, made.options, made)
    repeated(query, made, made.held.pool, "the same call")
    restless = any(
        isinstance(layer, Restless) for layer in made.model.modules()
    )  # other batches, other draws
    if not restless and "loader" not in made.held.how:  # a loader's batches are its own, and round otherwise
        repeated(query, made, pools.plain(made.subject.inputs), "the same inputs held plainly")
    return "kept its promises"


def check_picks(query: Query, size: int, n: int, options: dict[str, Any], made: object) -> None:
    positions = query.indices.tolist()
    facts = {
        "int64": query.indices.dtype == np.int64,
        "as many as asked for": len(positions) == n == len(query.scores),
        "distinct": len(set(positions)) == len(positions),
        "of the pool and not excluded": set(positions) <= set(range(size)) - set(options.get("exclude", ())),
        "no infinite score": not np.isinf(query.scores).any(),
    }
    wrong = [fact for fact, holds in facts.items() if not holds]
    check(not wrong, f"picks {positions} are not {wrong}\n{made}")


def repeated(query: Query, made: Scene, pool: Any, how: str) -> None:
    again = made.call(pool)
    found, before = again.indices.tolist(), query.indices.tolist()
    check(found == before, f"{how} gave {found}, before {before}\n{made}")
    same = np.array_equal(again.scores, query.scores, equal_nan=True)
    check(same, f"{how} gave other scores: {again.scores - query.scores}\n{made}")


def refuse_raw(error: Exception, made: object, models_fault: bool = False) -> None:
    """A refusal is a ValueError or TypeError raised by jostle itself, not what some library met inside."""
    if models_fault and any("jostle" in note for note in getattr(error, "__notes__", ())):
        return
    last = traceback.extract_tb(error.__traceback__)[-1]
    ours = last.filename.startswith(SOURCE) and str(last.line).startswith("raise")
    worded = isinstance(error, ValueError | TypeError) and bool(str(error).strip())
    check(ours and worded, f"a raw error: {shortened(error)}\n{made}")


def judged_mistake(chance: Random, made: Scene) -> str:
    """A call with a mistake in it: refused with words of ours."""
    mistake = chance.choice(sorted(MISTAKES))
    name, value = MISTAKES[mistake]
    value = value(made) if callable(value) else value
    if name == "labeled" and value is None:
        made.options.pop("labeled", None)
    elif name == "pool":
        made.held.pool = value
    elif name in ("n", "model"):
        setattr(made, name, value)
    else:
        made.options[name] = value
    try:
        made.call()
    except Exception as error:
        refuse_raw(error, made, models_fault=mistake in THE_MODELS)
        return "a mistake was told"
    harmless = {*THE_MODELS, "no labeled set"}
    check(mistake in harmless or made.strategy == "random", f"the mistake {mistake!r} was not told\n{made}")
    return "a mistake did no harm"  # "random" looks at nothing


MISTAKES: dict[str, tuple[str, Any]] = {
    "n of zero": ("n", 0),
    "n below zero": ("n", -3),
    "n above the pool": ("n", lambda made: made.subject.size + 1),
    "n a fraction": ("n", 1.5),
    "n a word": ("n", "3"),
    "a seed that is a fraction": ("seed", 0.5),
    "a seed that is a word": ("seed", "one"),
    "an unknown task": ("task", "clasification"),
    "a task that is a number": ("task", 3),
    "a batch size of zero": ("batch_size", 0),
    "an option that is none": ("sed", 3),
    "a place outside the pool to exclude": ("exclude", lambda made: [made.subject.size]),
    "a mask to exclude": ("exclude", lambda made: torch.ones(made.subject.size, dtype=torch.bool)),
    "words to exclude": ("exclude", ["one"]),
    "no pool": ("pool", 3),
    "a pool of words": ("pool", ["one", "two", "three"] * 9),
    "a pool of objects": ("pool", np.array([object()] * 20)),
    "a pool without end": ("pool", lambda made: iter(range(3))),
    "a pool of another shape": ("pool", lambda made: torch.randn(20, 13, 2, 5)),
    "a pool of bytes": ("pool", torch.ones(20, 3, dtype=torch.uint8)),
    "a pool of numbers that are complex": ("pool", torch.ones(20, 3, dtype=torch.cfloat)),
    "a sparse pool": ("pool", torch.eye(20).to_sparse()),
    "a pool that is nowhere": ("pool", torch.ones(20, 3, device="meta")),
    "no model": ("model", "a model"),
    "a labeled set without labels": ("labeled", torch.ones(3, 3)),
    "a labeled set of words": ("labeled", [("one", "two")] * 3),
    "no labeled set": ("labeled", None),
    "a device that is none": ("device", "gpu"),
}
THE_MODELS = {  # the model itself may refuse these, in its own words, or be able to take them
    "a pool of another shape", "a pool of bytes", "a pool of numbers that are complex", "a labeled set of words",
    "a labeled set without labels",
}  # fmt: skip
