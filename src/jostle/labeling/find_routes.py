"""Routes of the view that finds examples."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import numpy as np
from fastapi import FastAPI, Response
from pydantic import BaseModel, ConfigDict, Field

from jostle.labeling.find import ColorBy, Finder, Match, Search
from jostle.labeling.payloads import question_json, suggestion_json, to_json
from jostle.labeling.session import Session

MAX_CORNERS = 1000  # of a region
Text = Annotated[str, Field(max_length=200)]
BYTES = "application/octet-stream"


class SearchBody(BaseModel):
    """A search, and the part of its result that is wanted."""

    model_config = ConfigDict(extra="forbid")
    words: Text = ""
    meaning: Text = ""
    like: Annotated[str, Field(max_length=64)] | None = None
    region: Annotated[list[tuple[float, float]], Field(min_length=3, max_length=MAX_CORNERS)] | None = None
    predicted: Text | None = None
    answered: bool | None = None
    answer: Text | None = None
    person: Text | None = None
    order: Literal["name", "surest", "doubtful"] = "name"
    start: Annotated[int, Field(ge=0)] = 0
    n: Annotated[int, Field(ge=1, le=200)] = 60


def add_find_routes(app: FastAPI, session: Session) -> None:
    """Add the map, its colors, what is under the mouse, and searches."""
    finder = Finder(session)

    @app.get("/api/map")
    def describe_map() -> dict[str, Any]:
        found = finder.map()
        if found is None:
            return {"count": 0, "stage": None, "version": "", "meaning": False}
        version = f"{found.stage}-{len(found.keys)}-{float(np.abs(found.positions).sum()):.3f}"
        meaning = session.source.kind == "text"
        return {"count": len(found.keys), "stage": found.stage, "version": version, "meaning": meaning}

    @app.get("/api/map/positions")
    def positions() -> Response:
        found = finder.map()
        return Response(b"" if found is None else found.positions.astype("<f4").tobytes(), media_type=BYTES)

    @app.get("/api/map/colors")
    def colors(by: ColorBy) -> Response:
        return Response(finder.colors(by).tobytes(), media_type=BYTES)

    @app.get("/api/map/example")
    def example(place: Annotated[int, Field(ge=0)], count: int) -> dict[str, Any]:
        found = finder.map()
        if found is None or len(found.keys) != count or place >= count:
            raise ValueError("the map has changed: look again")
        return match_json(session, finder.look(found.keys[place]))

    @app.post("/api/find")
    def find(body: SearchBody) -> dict[str, Any]:
        given = body.model_dump(exclude={"start", "n"})
        found = finder.find(Search(**given), body.start, body.n)
        return {"examples": [match_json(session, each) for each in found.matches], "total": found.total}


def match_json(session: Session, each: Match) -> dict[str, Any]:
    """Return an example that was found."""
    return {
        **question_json(session, each.question),
        "answer": to_json(each.answer),
        "suggestion": suggestion_json(each.suggestion),
    }
