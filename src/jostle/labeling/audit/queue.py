"""Questions and answers: the queue with its random audit, and the one answer of several people that counts.

Why the audit is a uniform sample of the examples that were never picked, although picks avoid it: every example has
its place in one random order, and the audit is the beginning of that order among the unpicked. Strategies choose among
all examples that were not picked, audited or not, and never see the audit's answers. An audited example that a strategy
asks for is not asked again: from then on it counts as picked, its answer trains, and it no more measures. So picks and
models depend on the order only through examples that no longer count.

When a proof of the goal is all that is missing, random questions come in a row, with a few picks among them.

The answer of an example is the last correction, else the answer that everybody gave, else the likeliest class by Dawid
and Skene's model, which weighs people by the mistakes they make. For numbers it is the median.
"""

from __future__ import annotations

import heapq
import json
from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable, Sequence, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import and_, delete, func, select, update

from jostle.labeling import audit
from jostle.labeling.answer_types import AnswerType
from jostle.labeling.answers import Classes, StoredAnswer, as_class
from jostle.labeling.sources.contents import draw_uniform
from jostle.labeling.store import EventKind, Purpose, QueueEntry, Store
from jostle.labeling.store.schema import BULK, events, examples, queue, retry_conflicts, standing
from jostle.statistics import answer_error_rate, posterior_classes, value_of_answer
from jostle.statistics.agreement import krippendorff_alpha

if TYPE_CHECKING:
    from torch import nn

    from jostle.labeling.session import Session
    from jostle.labeling.store import Store
    from jostle.strategies import Strategy


UNASKED = (examples.c.here, examples.c.purpose.is_(None))
MIN_READ = 16  # questions that are drawn at a time while files are read for it
MIN_DRAWN = 500  # and when all are known: looking at a hundred thousand takes a second, so it is done rarely
FIRST_STRATEGY = "max-herding"  # without any label
BATCHES_PER_RANKING = 3  # a ranking is so many batches long: nobody waits while the next one is made
MAX_CANDIDATES = 20_000  # of a larger pool so many are drawn anew for each ranking
MAX_FIRST_CANDIDATES = 5_000  # for a first choice, which looks at more than uncertainty
MAX_QUESTIONS = 150  # random questions for one model; then picks make a better one
MIN_QUESTIONS = 10
MIN_TWICE = 20  # examples that two people answered, before their disagreement says something
ANSWER_ERROR = 0.1  # assumed share of wrong answers until then


def draw_questions(
    session: Session, free: Set[str], asked: int, audited: int, n: int, purpose: str
) -> list[QueueEntry]:
    """Draw n questions uniformly from `free`, the audit among them; `asked` and `audited` count earlier ones."""
    seed = session.settings.seed
    picked, measured = split_batch(min(n, len(free)), session.settings.audit, asked, audited)
    drawn = next_audit(free, measured, seed)
    chosen = heapq.nsmallest(picked, free - set(drawn), key=lambda key: draw_uniform(seed, purpose, key))
    return mix_audit(chosen, drawn, seed)


def fill_queue(session: Session, n: int) -> bool:
    """Add questions to the ranking; return False where none are left.

    The audit takes part once everything has been read: before that copies are not known, and a picture with two would
    be drawn twice as often.
    """
    current = session.store.current_round()
    if not session.store.setting("indexed", False):
        first = session.index.read_random(max(n, MIN_READ))
        session.store.extend_queue([QueueEntry(key, "pick") for key in first], since=current)
        return bool(first)
    free = set(session.store.find_keys(*UNASKED))
    picked, audited = (session.store.count(examples.c.purpose == purpose) for purpose in ("pick", "audit"))
    found = draw_questions(session, free, picked + audited, audited, max(n, MIN_DRAWN), f"fill {current}")
    session.store.extend_queue(found, since=current)
    return bool(found)


def count_unanswered(session: Session) -> int:
    """Return the number of examples without an answer; at least 1 before everything has been read."""
    given = session.snapshot().answers
    answered = {one.key for one in given if one.here and one.act != "skip" and one.purpose != "copy"}
    here = count_examples(session)
    return max(0 if session.store.setting("indexed", False) else 1, here - len(answered))


def count_examples(session: Session) -> int:
    """Return the number of examples that can be shown; near-copies count as one."""
    return session.store.count(examples.c.here, examples.c.purpose.is_distinct_from("copy"))


def next_audit(unasked: Collection[str], n: int, seed: int) -> list[str]:
    """Return the next n of the audit: the first, in one random order of everything, that were not asked yet."""
    return heapq.nsmallest(n, unasked, key=lambda key: draw_uniform(seed, "audit", key))


def mix_audit(picked: Sequence[str], audited: Sequence[str], seed: int) -> list[QueueEntry]:
    """Return one ranking of picks and audit, spread at random so that nobody can tell which questions measure."""
    total = len(picked) + len(audited)
    places: dict[QueueEntry, float] = {}
    for i, key in enumerate(audited):  # one audit question lies somewhere in each equal part
        places[QueueEntry(key, "audit")] = (i + draw_uniform(seed, "mixed", key)) * (total / len(audited))
    for i, key in enumerate(picked):
        places[QueueEntry(key, "pick")] = i * total / len(picked)
    return sorted(places, key=places.__getitem__)


def split_batch(n: int, audit: float, asked: int, audited: int) -> tuple[int, int]:
    """Return how many of the next n are picks and how many audit, so that the audit has its share of all asked.

    An audit that began late catches up, but never takes more than half of a batch.
    """
    due = round(audit * (asked + n)) - audited
    measured = min(max(due, 0), max(round(audit * n), n // 2 if due > audit * n else 0))
    return n - measured, measured


def first_strategy(name: str) -> Strategy:
    """Return the strategy without any label: `random` where that is the setting, else one that covers the data."""
    from jostle import strategies

    return strategies.build(name if name == "random" else FIRST_STRATEGY)


def check_strategy(name: str) -> None:
    """Raise an error if there is no such strategy."""
    from jostle import strategies

    strategies.build(name)


def pick(
    strategy: Strategy,
    network: nn.Module,
    pool: Any,
    n: int,
    *,
    candidates: NDArray[np.int64],
    most: int,
    seed: int,
    **call: Any,
) -> list[int]:
    """Return the places in the pool that a strategy picks among the candidates, best first."""
    from jostle.rng import derive  # imports torch, which the server does without

    if len(candidates) > most:
        draw = np.random.default_rng(derive(seed, "candidates"))
        candidates = np.sort(draw.choice(candidates, most, replace=False))
    if not len(candidates) or not n:
        return []
    left_out = np.setdiff1d(np.arange(len(pool)), candidates)
    query = strategy.select(
        network, pool, min(n, len(candidates)), exclude=left_out, seed=seed, progress=False, **call
    )
    return [int(place) for place in query.indices]


def proof_length(forecast: int | None, first: bool) -> int:
    """Return the number of random questions after a candidate: twice the forecast, at most 150.

    None where a proof is unlikely, except for the first candidate: it has most of alpha, which is lost if nobody asks.
    """
    if not first and (forecast is None or forecast > 2 * MAX_QUESTIONS):
        return 0
    return MAX_QUESTIONS if forecast is None else min(max(2 * forecast, MIN_QUESTIONS), MAX_QUESTIONS)


def begin(session: Session, questions: int | None = None) -> int:
    """Ask random questions next, a few picks among them; return how many random ones there are.

    Args:
        session: A project with a goal and a model.
        questions: Number of random questions. None: by the forecast, see `proof_length`.
    """
    if questions is None:
        forecast = audit.proof(session, audit.accuracy(session))
        if forecast is None:
            return 0
        candidates = sum(bool(summary.get("candidate")) for _, _, summary in session.store.rounds())
        questions = proof_length(forecast.questions, first=candidates == 1)
        if not questions:
            return 0
    current, seed = session.store.current_round(), session.settings.seed
    free, audited = set(session.store.find_keys(*UNASKED)), session.store.count(examples.c.purpose == "audit")
    ranked = select(queue.c.key).where(queue.c.round == current, queue.c.purpose == "pick")
    picks = [key for key in session.store.column(ranked.order_by(queue.c.rank)) if key in free]
    drawn = next_audit(free, questions, seed)
    among = list(dict.fromkeys(picks))[: round(len(drawn) * (1 / audit.PROOF_SHARE - 1))]
    _lead_queue(session.store, mix_audit(among, drawn, seed), since=current)
    until = audited + max(len(drawn), audit.proof_questions(session))  # these are the first of any under way
    session.store.save_settings(proof={"round": current, "until": until})
    return len(drawn)


@retry_conflicts
def _lead_queue(store: Store, ranking: Sequence[QueueEntry], since: int) -> None:
    """Put entries before all others of round `since`, unless another has begun; those that were ranked later move."""
    with store.write_transaction(BULK) as tx:
        if store.current_round() != since:
            return
        first = tx.execute(select(func.min(queue.c.rank)).where(queue.c.round == since)).scalar_one()
        for entry in ranking:
            same = and_(queue.c.round == since, queue.c.key == entry.key, queue.c.purpose == entry.purpose)
            tx.execute(delete(queue).where(same))
        store.append_queue(tx, since, (first or 0) - len(ranking), ranking)


@dataclass(frozen=True)
class CurrentAnswer:
    """One person's latest event on one example; merged classes have the number they have now."""

    seq: int
    key: str
    name: str
    person: str
    act: EventKind
    value: StoredAnswer | None
    purpose: Purpose | None
    here: bool
    seconds: float | None
    at: float


@dataclass(frozen=True)
class Snapshot:
    """Answers of all people at some time, and the ones that count."""

    answers: Sequence[CurrentAnswer]
    labels: dict[str, Any]  # stored answers by key


def read_snapshot(store: Store, type: AnswerType, classes: Classes) -> Snapshot:
    """Read all events that were not superseded or withdrawn, the earliest first."""
    joined = (
        select(events, examples.c.name, examples.c.purpose, examples.c.here)
        .join(standing, standing.c.seq == events.c.seq)
        .join(examples, examples.c.key == events.c.key)
        .where(standing.c.act != "withdrawal")
        .order_by(events.c.seq)
    )
    answers = [
        CurrentAnswer(
            row.seq, row.key, row.name, row.person, row.act,
            None if row.value is None else type.renumber(json.loads(row.value), classes),
            row.purpose, row.here, row.seconds, row.at,
        )
        for row in store.rows(joined)
    ]  # fmt: skip
    # the last correction, or the consensus of all answers
    corrected = {one.key: one.value for one in answers if one.act == "correction"}
    votes: dict[str, dict[str, StoredAnswer]] = defaultdict(dict)
    for one in answers:
        if one.value is not None and one.key not in corrected:  # no skip
            votes[one.key][one.person] = one.value
    return Snapshot(answers, {**type.combine(votes, list(classes.names)), **corrected})


def agreement(type: AnswerType, answers: Iterable[CurrentAnswer]) -> float | None:
    """Return Krippendorff's alpha over the examples that several people answered."""
    units: dict[str, list[Hashable]] = defaultdict(list)
    for one in answers:
        if one.act == "answer" and one.value is not None:
            units[one.key].append(type.comparable(one.value))
    return krippendorff_alpha(list(units.values()), type.distance)


def random_share(type: AnswerType, overlap: float) -> float:
    """Return the share of examples that two people answer by chance; the rest of the overlap is steered."""
    return overlap / 2 if type.has_one_class and overlap < 1 else overlap


def count_disagreements(session: Session) -> tuple[int, int]:
    """Return how many examples of the random overlap two people answered differently, and how many they answered."""
    said: dict[str, list[object]] = defaultdict(list)
    for one in session.snapshot().answers:
        if one.act == "answer" and session.index.copies(one.key) > 1:
            said[one.key].append(one.value)
    differs = [answers[0] != answers[1] for answers in said.values() if len(answers) > 1]
    return sum(differs), len(differs)


def ask_again(session: Session) -> list[str]:
    """Have one more person answer examples where that is worth more than an answer to a new one; return their keys.

    Values are compared with those of the next picks (`jostle.statistics.value_of_answer`). Examples of the audit are
    left out: a model that chose which audit answers are checked would change its own score.
    """
    settings, found = session.settings, session.predictions()
    most = round((settings.overlap - random_share(session.type, settings.overlap)) * settings.batch)
    if found is None or not found.out_of_sample or not most:
        return []
    merged = session.book.classes().merged
    column = {merged[int(number)]: place for place, number in enumerate(found.numbers)}
    votes = defaultdict[str, list[int]](list)
    for one in session.snapshot().answers:
        if one.purpose == "pick" and one.here and one.key in found.places:
            said = column.get(as_class(one.value)) if one.act == "answer" and one.value is not None else None
            votes[one.key].append(-1 if said is None else said)
    ranked = select(queue.c.key).join(examples, examples.c.key == queue.c.key).order_by(queue.c.rank)
    ranked = ranked.where(queue.c.round == session.store.current_round(), queue.c.purpose == "pick")
    coming = session.store.column(ranked.where(examples.c.purpose.is_(None)))
    new = [found.places[key] for key in coming if key in found.places][: settings.batch]
    asked = dict(session.store.rows(select(examples.c.key, examples.c.copies)))
    settled = [key for key, said in votes.items() if -1 not in said and len(said) == asked[key]]
    if not settled or not new:
        return []
    differed, twice = count_disagreements(session)
    wrong = answer_error_rate(differed / twice, max(len(column), 2)) if twice >= MIN_TWICE else ANSWER_ERROR
    people = max(len(votes[key]) for key in settled)
    given = np.array([votes[key] + [-1] * (people - len(votes[key])) for key in settled])
    posterior = posterior_classes(found.scores[[found.places[key] for key in settled]], given, wrong)
    gains, usual = value_of_answer(posterior, wrong), value_of_answer(found.scores[new], wrong)
    best = [settled[i] for i in np.argsort(-gains, kind="stable")[:most] if gains[i] > np.median(usual)]
    with session.store.write_transaction() as tx:
        tx.execute(update(examples).where(examples.c.key.in_(best)).values(copies=examples.c.copies + 1))
    return best
