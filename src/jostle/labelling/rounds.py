"""One round: see what data there is, learn from all answers, say what the model thinks, rank what to ask next.

The same function runs in a notebook and in the page's background process. It writes the model and its predictions into
the project, then swaps in the new ranking whole: until that moment everybody goes on with the last one.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import select

from jostle.labelling import drawing, filling, imports, ranking, verdicts
from jostle.labelling.answers import Classes, Stored, set_of
from jostle.labelling.contents import chance
from jostle.labelling.index import Progress
from jostle.labelling.learners import TASK, Goal, Learner, Model
from jostle.labelling.predictions import FILE as PREDICTIONS
from jostle.labelling.predictions import Predictions
from jostle.labelling.schema import examples
from jostle.labelling.stability import STOP_SET, concordance, kappa, kappa_of_sets
from jostle.labelling.store import Purpose, Ranked
from jostle.rng import derive

if TYPE_CHECKING:
    from jostle.labelling.session import Session

MODEL = "model.pt"
KEPT = 3  # rounds whose predictions are kept for every example
SAMPLE = 2000  # examples, the next of the audit, whose predictions are kept apart for the curve over rounds


@dataclass(frozen=True, eq=False)
class Ground:
    """What a round stands on: the examples that can be used, and what was answered."""

    keys: Sequence[str]  # (n,) those that are here, then those that are gone but were answered
    here: int  # how many are here
    purposes: Mapping[str, Purpose | None]
    labels: Mapping[str, Stored]  # what counts for each answered example
    classes: Classes

    def trained(self) -> list[int]:
        """Places of the examples to learn from: answered, and not for the audit."""
        return [i for i, key in enumerate(self.keys) if key in self.labels and self.purposes[key] != "audit"]

    def candidates(self) -> NDArray[np.int64]:
        """Places that a strategy may ask for: never picked. What was audited is among them (see `ranking`)."""
        free = [i for i, key in enumerate(self.keys[: self.here]) if self.purposes[key] in (None, "audit")]
        return np.array(free, dtype=np.int64)

    def unanswered(self) -> list[Ranked]:
        """Examples that somebody was asked and nobody has answered: others are asked first of all."""
        here = ((key, self.purposes[key]) for key in self.keys[: self.here] if key not in self.labels)
        return [Ranked(key, purpose) for key, purpose in here if purpose in ("pick", "audit")]

    def unasked(self) -> list[str]:
        """Examples that nobody was asked yet."""
        return [key for key in self.keys[: self.here] if self.purposes[key] is None]


def run_round(session: Session, progress: Progress | None = None) -> int:
    """One round; its number."""
    started, act = time.monotonic(), session.store.last_act()
    session.index.refresh(progress)
    if session.settings.known:
        imports.take_column(session, session.settings.known)
    learner = session.learner()
    ground = survey(session, learner, progress)
    pool = learner.pool(ground.keys)
    number = session.store.current_round() + 1
    seed = derive(session.settings.seed, "round", number)
    goal = learning_goal(session, ground)
    model = learner.learn(pool, goal, seed) if goal.enough else None
    if progress is not None:
        progress("ranking", 0, 1)
    ranked = next_ranking(session, learner, ground, pool, goal, model, seed)
    summary: dict[str, Any] = {
        "act": act,
        "answers": len(ground.labels),
        "trained": len(goal.places),
        "names": list(ground.classes.names.values()),
        "note": learner.note,
    }
    if model is not None:
        summary |= written(session, ground, goal, model, number)
    summary["seconds"] = round(time.monotonic() - started, 3)
    session.store.install(ranked, summary)
    forget(session, number)
    return number


def forget(session: Session, number: int) -> None:
    """Of all models but the last few, keep no predictions of everything; what the curve needs stays."""
    for old in range(1, number - KEPT + 1):
        (session.round_folder(old) / PREDICTIONS).unlink(missing_ok=True)


def survey(session: Session, learner: Learner, progress: Progress | None) -> Ground:
    """All examples that are here or were answered, less those that cannot be used."""
    classes = session.book.classes()
    labels = verdicts.decided(session.kind, verdicts.given(session.store, session.kind, classes), classes)
    with session.store.reading() as tx:
        known = select(examples.c.key, examples.c.here, examples.c.purpose).order_by(examples.c.key)
        rows = [row for row in tx.execute(known) if row.here or row.key in labels]
    keys = [row.key for row in rows if row.here]
    gone = [row.key for row in rows if not row.here]
    usable = learner.made_ready(keys, progress)
    old = learner.remembered(gone)
    return Ground([*usable, *old], len(usable), {row.key: row.purpose for row in rows}, labels, classes)


def learning_goal(session: Session, ground: Ground) -> Goal:
    """What the answers teach; a probe's outputs stand for the classes that were seen."""
    places = ground.trained()
    answers = [ground.labels[ground.keys[place]] for place in places]
    if session.kind == "one":
        seen = set(answers)
        numbers = [number for number in ground.classes.names if number in seen]
    else:
        numbers = list(ground.classes.names) if session.kind == "several" else []
    return Goal.of(session.kind, answers, places, numbers)


def next_ranking(
    session: Session, learner: Learner, ground: Ground, pool: Any, goal: Goal, model: Model | None, seed: int
) -> list[Ranked]:
    """A few batches of picks and audit questions, and some drawn uniformly for people who are faster than training."""
    settings = session.settings
    asked = [purpose for purpose in ground.purposes.values() if purpose in ("pick", "audit")]
    length = ranking.SPARE * settings.batch
    n, measured = drawing.shares(length, settings.audit, len(asked), asked.count("audit"))
    audited = drawing.audits(ground.unasked(), measured, settings.seed)
    if model is None:
        strategy = ranking.first_strategy(settings.strategy)
        network, most = learner.untrained(pool), ranking.FIRST_CANDIDATES
        call: dict[str, Any] = {}
    else:
        strategy = ranking.next_strategy(settings.strategy, session.kind)
        network, most = model.network, ranking.MOST_CANDIDATES
        call = {"labeled": learner.labeled(pool, goal), "task": TASK[session.kind].name}
    picked = ranking.picks(
        strategy, network, pool, n, candidates=ground.candidates(), most=most, seed=seed, **call
    )
    ranked = drawing.mixed([ground.keys[place] for place in picked], audited, seed)
    free = set(ground.unasked()).difference(line.key for line in ranked)
    counts = len(asked) + len(ranked), asked.count("audit") + len(audited)
    spare = filling.uniform(session, free, *counts, filling.AT_ONCE, f"spare {seed}")
    return [*ground.unanswered(), *ranked, *spare]


def written(session: Session, ground: Ground, goal: Goal, model: Model, number: int) -> dict[str, Any]:
    """Keep a round's model and predictions; what its summary says of them."""
    import torch

    folder, seed, last = session.round_folder(number), session.settings.seed, session.store.last_model()
    seen = Predictions(session.kind, ground.keys, np.array(goal.numbers, dtype=np.int64), model.scores)
    stop = in_order(ground.keys, "stop", seed)[:STOP_SET]
    steady = likeness(session.round_folder(last), seen, stop, ground.classes) if last else None
    seen.at(stop).save(folder / "stop")
    measured = [ground.keys[place] for place in ground.candidates()]
    seen.at(in_order(measured, "audit", seed)[:SAMPLE]).save(folder / "audit")
    scores = model.scores.copy()
    if model.held_out is not None:
        scores[goal.places] = model.held_out
    Predictions(session.kind, ground.keys, seen.numbers, scores, model.held_out is not None).save(folder)
    torch.save(model.network.state_dict(), folder / MODEL)
    scale = float(np.ptp(goal.targets)) if session.kind == "number" else None
    return {"model": True, "kappa": steady, "classes": list(goal.numbers), "scale": scale}


def in_order(keys: Sequence[str], purpose: str, seed: int) -> list[str]:
    """Keys in the random order that they have for a purpose, whatever others there are."""
    return sorted(keys, key=lambda key: chance(seed, purpose, key))


def likeness(before: Path, seen: Predictions, stop: Sequence[str], classes: Classes) -> float | None:
    """Kappa between the last model and this one on the stop set; for numbers their concordance."""
    last = Predictions.load(before / "stop")
    shared = [key for key in stop if last is not None and key in last.places]
    if last is None or not shared:
        return None
    old, new = ([which.answer(which.places[key], classes) for key in shared] for which in (last, seen))
    if seen.kind == "number":
        return concordance(np.array(old, dtype=np.float64), np.array(new, dtype=np.float64))
    if seen.kind == "one":
        return kappa(np.array(old, dtype=np.int64), np.array(new, dtype=np.int64))
    numbers = list(classes.names)
    tables = [np.array([[n in set_of(answer) for n in numbers] for answer in which]) for which in (old, new)]
    return kappa_of_sets(*tables)
