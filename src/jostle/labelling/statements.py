"""The statements behind every question, written once: building one takes longer than running it."""

from sqlalchemy import Integer, Text, and_, bindparam, delete, exists, func, or_, select, update

from jostle.labelling.schema import acts, examples, facts, leases, queue, standing

DECIDED = ("answer", "correction", "skip")  # acts after which a person is not asked again
RECENT = 100  # acts whose seconds tell how long an answer takes

_person = bindparam("person", type_=Text)
_most = bindparam("most", type_=Integer)
_answered = select(func.count()).where(
    standing.c.key == examples.c.key, standing.c.act.in_(("answer", "correction"))
)
_leased = select(func.count()).where(leases.c.key == examples.c.key)
_mine = exists().where(
    standing.c.key == examples.c.key, standing.c.person == _person, standing.c.act.in_(DECIDED)
)
_held = exists().where(leases.c.key == examples.c.key, leases.c.person == _person)
_taken = _answered.correlate(examples).scalar_subquery() + _leased.correlate(examples).scalar_subquery()
_free = and_(  # what a person may be asked: here, not decided by them, and fewer people on it than its copies
    examples.c.here, examples.c.copies > _taken, ~_mine.correlate(examples), ~_held.correlate(examples)
)

FACT = select(facts.c.value).where(facts.c.name == bindparam("name"))

HELD = (
    select(leases.c.key)
    .join(examples)
    .where(leases.c.person == _person, examples.c.here)
    .order_by(leases.c.place)
)

RANKED = (
    select(queue.c.key, queue.c.purpose)
    .join(examples, queue.c.key == examples.c.key)
    .where(queue.c.round == bindparam("round"), _free)
    .where(or_(examples.c.purpose.is_(None), examples.c.purpose == queue.c.purpose))
    .order_by(queue.c.rank)
    .limit(_most)
    .with_for_update(of=examples, skip_locked=True)
)

SECOND = (  # what somebody was asked already and another is to answer too
    select(examples.c.key, examples.c.purpose)
    .where(examples.c.purpose.in_(("pick", "audit")), examples.c.copies > 1, _free)
    .order_by(examples.c.key)
    .limit(_most)
    .with_for_update(of=examples, skip_locked=True)
)

STILL_FREE = select(examples.c.key).where(examples.c.key.in_(bindparam("keys", expanding=True)), _free)

WANTED = update(examples).where(examples.c.key == bindparam("which")).values(wanted=True)

_ended = bindparam("ended", type_=Integer)
_reached = (
    select(func.coalesce(func.max(queue.c.rank), -1))
    .join(examples, queue.c.key == examples.c.key)
    .where(queue.c.round == _ended, queue.c.purpose == "pick", examples.c.purpose == "pick")
)
UNREACHED = delete(queue).where(queue.c.round == _ended, queue.c.rank > _reached.scalar_subquery())

_seconds = select(acts.c.seconds).order_by(acts.c.seq.desc()).limit(RECENT).subquery()
PACE = select(func.avg(_seconds.c.seconds))
