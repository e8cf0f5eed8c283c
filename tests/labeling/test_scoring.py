"""Any model on the audit of a project: predictions from files, recorded looks, differences, audit-only projects."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from answering import color_in, labeled, purposes
from labeling_data import COLORS, colored_folder

from jostle.labeling import Session, audit
from jostle.labeling.audit import other_models
from jostle.statistics import ALPHA, betting_interval

Write = Callable[..., Path]


@pytest.fixture
def session(tmp_path: Path) -> Session:
    """A project with 40 audited answers and no model."""
    folder = colored_folder(tmp_path / "photos", 200)
    opened = Session.open(folder, answers=COLORS, encoder="pixels", audit=0.5)
    opened.train()
    labeled(opened, 80)
    return opened


@pytest.fixture
def write(session: Session, tmp_path: Path) -> Write:
    """Write predictions that are wrong for some names, with a chance of 0.6 there and 0.95 elsewhere."""

    def predictions(name: str, wrong: Callable[[int], bool], chance: bool = True) -> Path:
        lines = ["name,prediction,chance" if chance else "name,prediction"]
        for file in sorted(session.source.places()):
            number, true = int(file.split("-")[0]), color_in(file)
            said = COLORS[(COLORS.index(true) + wrong(number)) % 3]
            lines.append(f"{file},{said}" + (f",{0.6 if wrong(number) else 0.95}" if chance else ""))
        (tmp_path / name).write_text("\n".join(lines) + "\n")
        return tmp_path / name

    return predictions


def score(session: Session, file: Path) -> other_models.Score:
    return other_models.score(session, other_models.read_predictions(session, file), file.name)


def number_of(session: Session, key: str) -> int:
    return int(session.question(key).name.split("-")[0])


def test_a_score_is_the_betting_interval_of_the_file(session: Session, write: Write) -> None:
    result, sample = score(session, write("a.csv", lambda n: n % 10 == 0)), audit.audit_sample(session)
    wrong = np.array([number_of(session, key) % 10 == 0 for key in sample.keys])
    inside = betting_interval(
        wrong[: len(sample.labels)].astype(float),
        np.where(wrong, 0.4, 0.05),
        alpha=result.alpha,
        upper_share=audit.UPPER_SHARE,
    )
    assert result.accuracy.low == pytest.approx(1 - inside.high, abs=1e-4)
    assert result.accuracy.low <= 1 - wrong.mean() <= result.accuracy.high
    picked = [key for key in session.labels() if key not in sample.labels]
    right = sum(number_of(session, key) % 10 != 0 for key in picked)
    assert (result.picked, result.picked_right) == (len(picked), right)


def test_each_model_is_one_look_and_all_of_them_spend_less_than_alpha(session: Session, write: Write) -> None:
    files = [write(f"{k}.csv", lambda n, k=k: n % 10 == k) for k in range(6)]
    scores = [score(session, file) for file in files]
    assert [each.look for each in scores] == [1, 2, 3, 4, 5, 6]
    again = score(session, files[2])
    assert (again.look, again.alpha) == (3, scores[2].alpha)
    assert sum(each.alpha for each in scores) < ALPHA
    labeled(session, 10)
    session.train()
    spent = sum(each.alpha for each in scores) + sum(audit.model_shares(session).values())
    assert spent < ALPHA


def test_the_difference_is_far_narrower_than_two_intervals(session: Session, write: Write) -> None:
    good = other_models.read_predictions(session, write("good.csv", lambda n: n % 10 == 0))
    bad = other_models.read_predictions(session, write("bad.csv", lambda n: n % 10 in (0, 1)))
    gap = other_models.compare(session, good, bad, "good against bad")
    truth = np.mean([number_of(session, key) % 10 == 1 for key in audit.audit_sample(session).keys])
    assert gap.low <= truth <= gap.high
    one, two = (other_models.score(session, each, "x").accuracy for each in (good, bad))
    assert gap.width < 0.7 * (one.high - one.low + two.high - two.low) / 2
    assert other_models.compare(session, good, good, "itself").width == 0


def test_predictions_for_the_audited_alone_claim_nothing_more(session: Session, write: Write) -> None:
    whole = write("a.csv", lambda n: n % 10 == 0, chance=False)
    audited = {session.question(key).name for key in audit.audit_sample(session).labels}
    lines = whole.read_text().splitlines()
    part = whole.with_name("part.csv")
    part.write_text("\n".join(line for line in lines if line.split(",")[0] in {"name", *audited}))
    one, two = score(session, whole), score(session, part)
    assert two.accuracy.population == one.accuracy.population
    assert two.accuracy.low <= one.accuracy.low + 0.02
    assert not two.classes


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name,said\na,red\n", "expected one of prediction"),
        ("name,prediction\nnothing.png,red\n", "predicts no example of this project"),
        ("name,prediction,chance\n000-red.png,red,2\n", "between 0 and 1, got"),
        ("name,prediction\n000-red.png,mauve\n", "mauve"),
        ("name,prediction\n000-red.png,red\n", "must predict all audited examples"),
    ],
)
def test_files_that_cannot_be_scored(session: Session, tmp_path: Path, text: str, message: str) -> None:
    first = sorted(session.source.places())[0]
    (tmp_path / "p.csv").write_text(text.replace("000-red.png", first))
    with pytest.raises(ValueError, match=message):
        other_models.read_predictions(session, tmp_path / "p.csv")


def test_an_audit_only_project_asks_what_proves_a_given_model(session: Session, write: Write) -> None:
    file = write("a.csv", lambda n: n % 50 == 0)
    folder, place = file.with_name("photos"), file.with_name("only")
    only = Session.open(folder, project=place, answers=COLORS, audit=1.0, goal="85%", encoder="pixels")
    other_models.begin_audit_only(only, file)
    while not only.accuracy().reached:
        labeled(only, 5)
    assert set(purposes(only).values()) <= {"audit", None}
    assert 10 < only.accuracy().audited < 120
    assert only.advice().stop
    other_models.begin_audit_only(only, file)  # opened again
    labeled(session, 20)
    session.train()
    with pytest.raises(ValueError, match="a model of its own"):
        other_models.begin_audit_only(session, file)
