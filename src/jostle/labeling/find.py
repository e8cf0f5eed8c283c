"""Finding examples: by words, by likeness, by a region of the map, by filters.

What happens to the audit: an example that was displayed with the model's view of it no longer measures, as with the
grid. Audited examples look unanswered here and are never displayed, but those that would have been displayed leave the
audit too. So which examples leave depends on the search alone, and the rest of the audit stays a uniform sample of the
rest. A dot of the map shows no content: it counts once somebody looks at it.

A search by meaning needs the embedding of a text, and the server does without torch. So it adds a row with the text to
a table, and the background process fills in the embedding.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import select

from jostle.labeling.answer_types import AnswerType
from jostle.labeling.answers import StoredAnswer
from jostle.labeling.records import Match
from jostle.labeling.review import class_chances
from jostle.labeling.sources.contents import Question
from jostle.labeling.store.edits import RemarkKind, current_remarks
from jostle.labeling.store.schema import examples
from jostle.labeling.training.example_map import ExampleMap, inside_polygon, look_up

if TYPE_CHECKING:
    from jostle.labeling.session import Session

MAX_MEANT = 500  # texts that a search by meaning finds
FRESH_SECONDS = 10.0  # seconds after which new files are looked for in the store
NO_COLOR = 255  # of a dot without an answer or a prediction
SHADES = 254  # of doubt
Text = Annotated[str, Field(max_length=200)]
Polygon = Annotated[list[tuple[float, float]], Field(min_length=3, max_length=1000)]
ColorBy = Literal["answer", "prediction", "doubt"]


class Search(BaseModel):
    """Conditions of a search, all of which must hold, and the part of the result that is wanted."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    words: Text = ""  # each of them is in the name or the text
    meaning: Text = ""  # a text; those with the most similar meaning come first
    like: Text | None = None  # key of an example; the most similar come first
    region: Polygon | None = None  # on the map
    predicted: Text | None = None  # class that the model assigns
    answered: bool | None = None
    answer: Text | None = None  # class that somebody answered
    person: Text | None = None  # who answered
    remark: RemarkKind | None = None  # somebody made on it
    copies: bool = False  # only examples with near-copies
    order: Literal["name", "surest", "doubtful"] = "name"
    start: Annotated[int, Field(ge=0)] = 0
    n: Annotated[int, Field(ge=1, le=200)] = 60

    @property
    def by_answer(self) -> bool:
        """Whether it selects by answers, which the audit has to be left out of."""
        return bool(self.answered or self.answer or self.person or self.remark)


@dataclass(frozen=True)
class Matches:
    """Some of the examples that were found."""

    matches: tuple[Match, ...]
    total: int


@dataclass
class Finder:
    """Search in a session, with the names, texts and map that it reads once."""

    session: Session
    _names: dict[str, str] = field(default_factory=dict)  # of the examples that are here, in order
    _copies: dict[str, str] = field(default_factory=dict)  # names of near-copies
    _texts: dict[str, str] = field(default_factory=dict)
    _read_at: float = float("-inf")
    _map: tuple[int, ExampleMap] | None = None

    def find(self, search: Search) -> Matches:
        """Return the matches that are wanted, and mark those that no longer measure."""
        session, audited = self.session, self._audited()
        keys = self._ordered(search)
        shown = [key for key in keys if key not in audited]
        page = shown[search.start : search.start + search.n]
        if page and not search.by_answer:
            reached = keys[: keys.index(page[-1]) + 1]
            session.store.mark_wanted([*page, *(key for key in reached if key in audited)])
        if search.like in audited:
            session.store.mark_wanted([search.like])
        return Matches(self._matches(page), len(shown))

    def look(self, key: str) -> Match:
        """Return one example of the map that somebody looks at, for a near-copy its group; it no longer measures."""
        key = self.session.copies.get().representative.get(key, key)
        self.session.store.mark_wanted([self.session.question(key).key])
        return self._matches([key])[0]

    def map(self) -> ExampleMap | None:
        """Return the map as it is on disk now."""
        path = self.session.map_folder / "map.npz"
        stamp = path.stat().st_mtime_ns if path.exists() else 0
        if stamp and (self._map is None or self._map[0] != stamp):
            found = ExampleMap.load(self.session.map_folder)
            self._map = None if found is None else (stamp, found)
        return self._map[1] if self._map is not None else None

    def colors(self, by: ColorBy) -> NDArray[np.uint8]:
        """Return a number for each dot of the map: the place of its class, or its doubt; `NO_COLOR` for none."""
        found = self.map()
        keys = [] if found is None else found.keys
        classes = self.session.book.classes()
        place = {number: i % NO_COLOR for i, number in enumerate(classes.names)}
        if by == "answer":
            audited, labels = self._audited(), self.session.snapshot().labels
            said = {key: value for key, value in labels.items() if key not in audited}
            said |= {key: said[of] for key, of in self.session.copies.get().carried(said).items()}
            return np.array(
                [_answer_color(self.session.type, said.get(key), place) for key in keys], np.uint8
            )
        predictions = self.session.predictions()
        if predictions is None or not self.session.type.has_classes:
            return np.full(len(keys), NO_COLOR, dtype=np.uint8)
        rows = np.array([predictions.places.get(key, -1) for key in keys], dtype=np.int64)
        if by == "doubt":
            shades = (1 - predictions.confidence[rows]) / max(1e-6, float(1 - predictions.confidence.min()))
            colors = np.round(shades * SHADES).astype(np.uint8)
        else:
            numbers = [place[classes.merged[int(number)]] for number in predictions.numbers]
            colors = np.array(numbers, dtype=np.uint8)[predictions.scores.argmax(1)[rows]]
        return np.where(rows < 0, NO_COLOR, colors).astype(np.uint8)

    def _matches(self, keys: Sequence[str]) -> tuple[Match, ...]:
        session, predictions, names = self.session, self.session.predictions(), self.names()
        classes, labels, audited = session.book.classes(), session.snapshot().labels, self._audited()
        found = []
        for key in keys:
            value = None if key in audited else labels.get(key)
            answer = None if value is None else session.type.decode(value, classes)
            said = None
            if predictions is not None and key in predictions.places:
                said = predictions.suggestion(key, classes, session.store.last_model())
            found.append(Match(Question(key, session.source.kind, names[key]), answer, said))
        return tuple(found)

    def _ordered(self, search: Search) -> list[str]:
        """Return all keys that match, audited ones included, in order."""
        keys = self._candidates(search)
        if search.words.strip():
            words, texts, notes = search.words.casefold().split(), self.texts(), self._notes()
            keys = [key for key in keys if all(word in texts[key] + notes.get(key, "") for word in words)]
        if search.copies:
            keys = [key for key in keys if key in self.session.copies.get().copies]
        predictions = self.session.predictions()
        if search.predicted is not None:
            classes = self.session.book.classes()
            number = classes.number(search.predicted)
            chances = {} if predictions is None else class_chances(predictions, number, classes)
            keys = [key for key in keys if key in chances]
        keys = self._by_answers(search, keys)
        if search.order != "name" and predictions is not None:
            sign, places = 1 if search.order == "doubtful" else -1, predictions.places
            sure = {key: float(predictions.confidence[places[key]]) for key in keys if key in places}
            keys = sorted(sure, key=lambda key: sign * sure[key])
        return keys

    def _candidates(self, search: Search) -> list[str]:
        names, found = self.names(), self.map()
        if search.like is None and search.region is None and not search.meaning.strip():
            return list(names)
        if found is None:
            raise ValueError("there is no map yet: it is made once the examples are encoded")
        places = np.arange(len(found.keys))
        if search.meaning.strip():
            places = found.nearest(look_up(self.session, search.meaning.strip()), MAX_MEANT)
        elif search.like is not None:
            if search.like not in found.places:
                raise ValueError("this example is not encoded yet: nothing can be compared with it")
            places = found.nearest(found.reduced[found.places[search.like]], len(found.keys))
        if search.region is not None:
            places = places[inside_polygon(found.positions, search.region)[places]]
        return [key for place in places.tolist() if (key := found.keys[place]) in names]

    def _by_answers(self, search: Search, keys: list[str]) -> list[str]:
        """Filter by answers; audited examples count as unanswered."""
        session, audited = self.session, self._audited()
        labels = {key: v for key, v in session.snapshot().labels.items() if key not in audited}
        if search.answered is not None:
            keys = [key for key in keys if (key in labels) is search.answered]
        if search.answer is not None:
            number = session.book.classes().number(search.answer)
            keys = [k for k in keys if k in labels and number in session.type.class_numbers(labels[k])]
        if search.person is not None:
            theirs = {one.key for one in session.snapshot().answers if one.person == search.person}
            keys = [key for key in keys if key in theirs and key in labels]
        if search.remark is not None:
            said = {each.key for each in current_remarks(session.store) if each.kind == search.remark}
            keys = [key for key in keys if key in said and key not in audited]
        return keys

    def _notes(self) -> dict[str, str]:
        """Return the notes on examples; those of the audit are left out, as its answers are."""
        audited, notes = self._audited(), dict[str, str]()
        for each in current_remarks(self.session.store):
            if each.text and each.key not in audited:
                notes[each.key] = f"{notes.get(each.key, '')}\n{each.text.casefold()}"
        return notes

    def names(self) -> dict[str, str]:
        """Return the names of all examples that are here, by key and in order; near-copies are one example."""
        if time.monotonic() - self._read_at > FRESH_SECONDS:
            rows = self.session.store.rows(select(examples).where(examples.c.here).order_by(examples.c.name))
            self._names = {row.key: row.name for row in rows if row.purpose != "copy"}
            self._copies = {row.key: row.name for row in rows if row.purpose == "copy"}
            self._read_at = time.monotonic()
        return self._names

    def texts(self) -> dict[str, str]:
        """Return what words are searched in, by key: names, and the texts or cells of all examples."""
        names = self.names()
        if not names.keys() <= self._texts.keys():
            texts = {key: name.casefold() for key, name in names.items()}
            group = self.session.copies.get().representative
            for copy, name in self._copies.items():
                if (of := group.get(copy)) in texts:
                    texts[of] += "\n" + name.casefold()
            if self.session.source.kind != "image":
                for content in self.session.source.contents():
                    if (key := group.get(content.key, content.key)) in texts:
                        texts[key] += "\n" + content.search_text
            self._texts = texts
        return self._texts

    def _audited(self) -> set[str]:
        return set(self.session.store.find_keys(examples.c.purpose == "audit"))


def _answer_color(type: AnswerType, value: StoredAnswer | None, place: dict[int, int]) -> int:
    """Return the color of an answer: of several classes the first; numbers have one color."""
    if value is None:
        return NO_COLOR
    if not type.has_classes:
        return 0
    chosen = type.class_numbers(value)
    return place[chosen[0]] if chosen else NO_COLOR
