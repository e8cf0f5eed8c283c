"""One round: see what data there is, learn from all answers, say what the model thinks, rank what to ask next.

The same function runs in a notebook and in the page's background process. It writes the model and its predictions into
the project, then swaps in the new ranking whole: until that moment everybody goes on with the last one.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Container, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from sqlalchemy import select

from jostle import strategies
from jostle.labeling import audit, export
from jostle.labeling.answer_types import ANSWER_TYPES
from jostle.labeling.answers import Classes, StoredAnswer, as_class
from jostle.labeling.audit import other_models, queue, stopping
from jostle.labeling.audit.stopping import STOP_SET
from jostle.labeling.records import PREDICTIONS_FILE, Predictions
from jostle.labeling.sources import ProgressCallback
from jostle.labeling.sources.contents import draw_uniform
from jostle.labeling.store import Purpose, QueueEntry
from jostle.labeling.store.schema import examples, standing
from jostle.labeling.training import learners, suggesters
from jostle.labeling.training.learners import Learner, Model, Rows, TrainingTargets
from jostle.rng import derive
from jostle.statistics import calibrate_errors, is_candidate
from jostle.statistics.estimate import MIN_AUDITED, TRAIN_SHARE, shadow_errors

if TYPE_CHECKING:
    from jostle.labeling.session import Session


@dataclass(frozen=True, eq=False)
class TrainingSet:
    """Examples that a round can use, and their answers."""

    keys: Sequence[str]  # (n,) those that are here, then those that are gone but were answered
    here: int  # how many are here
    purposes: Mapping[str, Purpose | None]
    labels: Mapping[str, StoredAnswer]  # what counts for each answered example
    classes: Classes
    complete: bool = True  # whether everything that is here is encoded
    left_audit: Collection[str] = frozenset()  # audited examples that measure no more

    def trained_places(self) -> list[int]:
        """Return the places of the examples to learn from: answered, and no part of the audit."""
        return [i for i, key in enumerate(self.keys) if key in self.labels and not self._measures(key)]

    def candidates(self) -> NDArray[np.int64]:
        """Return the places that a strategy may pick: never picked before, audited or not (see `queue`)."""
        here = enumerate(self.keys[: self.here])
        free = [i for i, key in here if self.purposes[key] is None or self._measures(key)]
        return np.array(free, dtype=np.int64)

    def _measures(self, key: str) -> bool:
        return self.purposes[key] == "audit" and key not in self.left_audit

    def unanswered(self) -> list[QueueEntry]:
        """Return examples that somebody was asked and nobody answered: they are asked first."""
        here = ((key, self.purposes[key]) for key in self.keys[: self.here] if key not in self.labels)
        return [QueueEntry(key, purpose) for key, purpose in here if purpose in ("pick", "audit")]

    def unasked(self) -> list[str]:
        """Return the keys of examples that nobody was asked yet."""
        return [key for key in self.keys[: self.here] if self.purposes[key] is None]


def run_round(
    session: Session, progress: ProgressCallback | None = None, encode_seconds: float | None = None
) -> int:
    """Run one round; return its number. With `encode_seconds`, it uses what is encoded after that time."""
    started, act = time.monotonic(), session.store.last_event()
    session.index.refresh(progress)
    suggesters.begin(session)
    if session.settings.known:
        export.import_column(session, session.settings.known)
    learner = session.learner()
    training_set = gather_training_set(session, learner, progress, encode_seconds)
    pool = learner.pool(training_set.keys)
    number = session.store.current_round() + 1
    seed = derive(session.settings.seed, "round", number)
    targets = training_targets(session, training_set)
    model = learner.learn(pool, targets, seed) if session.type.is_enough(targets.values) else None
    if progress is not None:
        progress("ranking", 0, 1)
    ranked = rank_next(session, learner, training_set, pool, targets, model, seed)
    summary: dict[str, Any] = {
        "act": act,
        "answers": len(training_set.labels),
        "trained": len(targets.places),
        "names": list(training_set.classes.names.values()),
        "note": learner.note,
        "partial": not training_set.complete,
        "suggested": model is None and other_models.are_enough(session),
    }
    if model is not None:
        summary |= save_round(session, training_set, targets, model, number)
        summary |= shadow_curve(session, learner, training_set, pool, seed)
    summary["seconds"] = round(time.monotonic() - started, 3)
    session.store.begin_round(ranked, summary)
    if summary.get("candidate"):
        queue.begin(session)
    queue.ask_again(session)
    for old in range(1, number - 2):  # the last three stay; the curve keeps its own predictions
        (session.round_folder(old) / PREDICTIONS_FILE).unlink(missing_ok=True)
    return number


def encoding_order(session: Session, keys: Sequence[str], answered: Container[str]) -> list[str]:
    """Return keys in the order they are encoded: answered ones, then in the random order of the audit.

    So the examples that are encoded at any time are a uniform sample, and the audit is the beginning of it.
    """
    order = shuffle_by_key(keys, "audit", session.settings.seed)
    return sorted(order, key=lambda key: key not in answered)


def encode_more(session: Session, progress: ProgressCallback | None, stop: Callable[[], bool]) -> bool:
    """Encode examples between rounds until `stop` says so; return whether all are encoded."""
    keys = session.store.find_keys(examples.c.here)
    answered = set(session.store.column(select(standing.c.key)))
    return session.learner().encode(encoding_order(session, keys, answered), progress, stop)


def gather_training_set(
    session: Session, learner: Learner, progress: ProgressCallback | None, seconds: float | None = None
) -> TrainingSet:
    """Return all examples that exist or were answered, less those that cannot be used.

    With `seconds`, encoding ends after that time: the round learns from what is encoded so far.
    """
    classes = session.book.classes()
    labels = queue.read_snapshot(session.store, session.type, classes).labels
    known = session.store.rows(select(examples).order_by(examples.c.key))
    rows = [row for row in known if row.here or row.key in labels]
    keys = [row.key for row in rows if row.here]
    gone = [row.key for row in rows if not row.here]
    until = math.inf if seconds is None else time.monotonic() + seconds
    order = encoding_order(session, keys, labels)
    complete = learner.encode(order, progress, lambda: time.monotonic() > until)
    usable = learner.prepare(keys)
    old = learner.encoded_keys(gone)
    purposes, labels = {row.key: row.purpose for row in rows}, session.copies.get().distinct(labels)
    left = audit.left_audit(session)
    return TrainingSet([*usable, *old], len(usable), purposes, labels, classes, complete, left)


def training_targets(session: Session, training_set: TrainingSet) -> TrainingTargets:
    """Return the targets of the answers; outputs of a probe stand for the classes that were seen."""
    places = training_set.trained_places()
    answers = [training_set.labels[training_set.keys[place]] for place in places]
    numbers = session.type.outputs(answers, training_set.classes)
    values = session.type.encode_targets(answers, numbers)
    return TrainingTargets(session.type, numbers, np.array(places, dtype=np.int64), values)


def rank_next(
    session: Session,
    learner: Learner,
    training_set: TrainingSet,
    pool: Any,
    targets: TrainingTargets,
    model: Model | None,
    seed: int,
) -> list[QueueEntry]:
    """Return a few batches of picks and audit questions, then uniform draws for people who are faster than training."""
    settings = session.settings
    asked = [purpose for purpose in training_set.purposes.values() if purpose in ("pick", "audit")]
    length = queue.BATCHES_PER_RANKING * settings.batch
    n, measured = queue.split_batch(length, settings.audit, len(asked), asked.count("audit"))
    if settings.find and stopping.is_dry(session):
        n, measured = 0, length
    audited = queue.next_audit(training_set.unasked(), measured, settings.seed)
    candidates = training_set.candidates()
    if model is None and other_models.are_enough(session):
        picked = other_models.first_picks(session, learner, training_set, pool, n, seed)
    elif model is None:
        strategy, most = queue.first_strategy(settings.strategy), queue.MAX_FIRST_CANDIDATES
        network = learner.untrained(pool)
        picked = queue.pick(strategy, network, pool, n, candidates=candidates, most=most, seed=seed)
    elif settings.find:
        seen = Predictions(session.kind, training_set.keys, np.array(targets.numbers), model.scores)
        chances = stopping.class_chances(session, seen)[candidates]
        picked = candidates[np.argsort(-chances, kind="stable")[:n]].tolist()
    else:
        strategy, most = strategies.build(settings.strategy), queue.MAX_CANDIDATES
        known = {"labeled": learners.labeled_dataset(pool, targets), "task": session.type.task}
        picked = queue.pick(
            strategy, model.network, pool, n, candidates=candidates, most=most, seed=seed, **known
        )
    ranked = queue.mix_audit([training_set.keys[place] for place in picked], audited, seed)
    free = set(training_set.unasked()).difference(line.key for line in ranked)
    counts = len(asked) + len(ranked), asked.count("audit") + len(audited)
    spare = queue.draw_questions(session, free, *counts, queue.MIN_DRAWN, f"spare {seed}")
    return [*training_set.unanswered(), *ranked, *spare]


def save_round(
    session: Session, training_set: TrainingSet, targets: TrainingTargets, model: Model, number: int
) -> dict[str, Any]:
    """Save a round's model and predictions; return their part of its summary."""
    folder, seed, last = session.round_folder(number), session.settings.seed, session.store.last_model()
    numbers = np.array(targets.numbers, dtype=np.int64)
    seen = Predictions(session.kind, training_set.keys, numbers, model.scores)
    seen = replace(seen, chances=error_chances(seen, targets, model))
    stop = shuffle_by_key(training_set.keys, "stop", seed)[:STOP_SET]
    before, classes = session.round_folder(last), training_set.classes
    steady = measure_stability(before / "stop", seen, stop, classes)
    seen.subset(stop).save(folder / "stop")
    measured = [training_set.keys[place] for place in training_set.candidates()]
    seen.subset(shuffle_by_key(measured, "audit", seed)[: audit.AUDIT_PREDICTIONS]).save(folder / "audit")
    scores = model.scores.copy()
    if model.held_out is not None:
        scores[targets.places] = model.held_out
    replace(seen, scores=scores, out_of_sample=model.held_out is not None).save(folder)
    torch.save(model.network.state_dict(), folder / "model.pt")
    scale = None if session.type.has_classes else float(np.ptp(targets.values))
    known = dict(audit.model_rounds(session))[last]["trained"] if last else 0
    new = len(targets.places) - known
    enough = new >= session.settings.batch // 2  # to say what has settled
    settled = measure_stability(before / "audit", seen, measured, classes) if enough else None
    candidate = is_worth_a_proof(session, seen.subset(measured), scale, settled)
    alpha = audit.spend_share(session, candidate)
    summary = {"model": True, "kappa": steady, "classes": list(targets.numbers), "scale": scale}
    return {**summary, "candidate": candidate, "alpha": alpha}


def error_chances(seen: Predictions, targets: TrainingTargets, model: Model) -> NDArray[np.float32] | None:
    """Return the chance of an error of each example, calibrated on held-out predictions of training answers alone.

    For numbers it is the mean held-out error over the range of the answers. None without held-out predictions.
    """
    if model.held_out is None:
        return None
    if not targets.type.has_classes:
        off = np.abs(model.held_out[:, 0] - targets.values) / (np.ptp(targets.values) or 1.0)
        return np.full(len(seen.keys), off.clip(0, 1).mean(), dtype=np.float32)
    held = replace(seen, keys=[seen.keys[place] for place in targets.places], scores=model.held_out)
    wrong = targets.type.wrong(model.held_out, targets.values)
    calibration = calibrate_errors(held.certainty, wrong)
    return calibration.expected_errors(seen.certainty).astype(np.float32)


def is_worth_a_proof(session: Session, left: Predictions, scale: float | None, kappa: float | None) -> bool:
    """Return whether a model is a candidate for a proof on what is left; no audit answer takes part in this."""
    goal = session.settings.accuracy_goal
    if goal is None or not len(left.keys):
        return False
    largest = session.type.largest_error(goal, scale or 1.0)
    return is_candidate(left.expected_errors, largest, kappa)


def shuffle_by_key(keys: Sequence[str], purpose: str, seed: int) -> list[str]:
    """Return keys in the random order that they have for a purpose, whatever other keys there are."""
    return sorted(keys, key=lambda key: draw_uniform(seed, purpose, key))


def measure_stability(before: Path, seen: Predictions, keys: Sequence[str], classes: Classes) -> float | None:
    """Return kappa with the predictions that the last model stored, on some keys; for numbers their concordance."""
    last = Predictions.load(before)
    shared = [key for key in keys if last is not None and key in last.places]
    if last is None or not shared:
        return None
    old, new = ([which.answer(which.places[key], classes) for key in shared] for which in (last, seen))
    return ANSWER_TYPES[seen.kind].stability(old, new, list(classes.names))


def shadow_curve(
    session: Session, learner: Learner, training_set: TrainingSet, pool: Any, seed: int
) -> dict[str, Any]:
    """Return the errors of models that learned from audit answers alone, which stand for random picking.

    They are stored with the round and never touch its model. Empty below 60 audited answers, and where answers are not
    one class.
    """
    if not session.type.has_one_class or not isinstance(learner, learners.ProbeLearner):
        return {}
    labels = audit.audit_sample(session).labels
    where = {key: place for place, key in enumerate(training_set.keys)}
    keys = [key for key in labels if key in where]
    if len(keys) < MIN_AUDITED:
        return {}
    rows = pool.numpy()[[where[key] for key in keys]]
    numbers, classes = np.unique([as_class(labels[key]) for key in keys], return_inverse=True)

    def predict(inside: Rows, known: NDArray[np.int64], outside: Rows) -> NDArray[np.int64]:
        """Return the classes that a probe on labeled examples gives to others."""
        both, targets = np.concatenate([inside, outside]).astype(np.float32), np.eye(len(numbers))[known]
        probe, _ = learners.fit_classifier(learners.SOFTMAX, both, np.arange(len(known)), targets, seed)
        with torch.inference_mode():
            guesses: NDArray[np.int64] = probe(torch.from_numpy(both[len(known) :])).argmax(1).numpy()
        return guesses

    size = round(TRAIN_SHARE * len(keys))
    errors = shadow_errors(rows, classes, predict, size, splits=8, seed=seed)
    known = [None if np.isnan(error) else float(error) for error in errors]
    return {"shadow": {"labels": size, "keys": keys, "errors": known}}
