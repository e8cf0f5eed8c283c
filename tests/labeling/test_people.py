"""People with tokens of their own: their names, their roles, and the end of a token."""

from collections.abc import Iterator

import pytest
from running_server import Running
from tools.serving import TOKEN, Person

from jostle.labeling import Session
from jostle.labeling.server import create_app
from jostle.labeling.server.security import ROLES, Role, add_person, find_person, list_people, remove_person
from jostle.labeling.store import Store
from jostle.labeling.store.schema import people


@pytest.fixture
def running(session: Session) -> Iterator[Running]:
    server = Running(session)
    yield server
    server.stop()


def call_route(person: Person, route: str) -> int:
    """The status of a call; bodies and queries have only the person, which a permitted route may find too little."""
    method, _, path = route.partition(" ")
    path = path.format(name="page.js", key="0" * 32)
    sent = f"?person={person.name}" if method == "GET" else ""
    return person.call(method, path + sent, {"person": person.name} if method == "POST" else None)[0]


ROUTES: dict[Role, set[str]] = {  # every route of the server, by the first role that may use it
    "label": {
        "GET /", "GET /static/{name}", "GET /api/project", "GET /api/questions", "POST /api/answers", "POST /api/skip",
        "POST /api/undo", "POST /api/bulk/undo", "POST /api/release", "POST /api/remark", "GET /api/copies/{key}",
        "POST /api/split", "GET /api/content/{key}", "GET /api/suggestion/{key}", "GET /api/guide",
        "GET /api/guide/{key}", "GET /api/grid", "GET /api/progress",
    },
    "review": {
        "GET /api/doubts", "GET /api/disagreements", "GET /api/answers", "GET /api/remarks", "POST /api/correct",
        "GET /api/map", "GET /api/map/positions", "GET /api/map/colors", "GET /api/map/example", "POST /api/find",
    },
    "manage": {
        "POST /api/classes/rename", "POST /api/classes/merge", "POST /api/classes/add", "POST /api/prove",
        "POST /api/train",
    },
}  # fmt: skip


@pytest.mark.parametrize("role", ROLES)
def test_a_role_opens_its_routes_and_no_other(running: Running, session: Session, role: Role) -> None:
    anna = Person("anna", running.port, add_person(session.store, "anna", role))
    allowed = set[str]().union(*(ROUTES[each] for each in ROLES[: ROLES.index(role) + 1]))
    paths = create_app(session, "").openapi()["paths"]
    there = {f"{method.upper()} {path}" for path, methods in paths.items() for method in methods}
    assert there == set[str]().union(*ROUTES.values()), "every route has a role"
    assert {route for route in there if call_route(anna, route) != 403} == allowed


def test_nobody_answers_as_somebody_else_or_with_a_withdrawn_token(
    running: Running, session: Session
) -> None:
    anna = Person("anna", running.port, add_person(session.store, " anna ", "manage"))
    key = anna.questions(1)[0]["key"]
    assert anna.answer(key, "red")["kept"]
    assert anna.call("GET", "/api/project")[1]["person"] == "anna"
    anna.name = "bob"
    for route in (
        "GET /api/questions",
        *(f"POST /api/{name}" for name in ("undo", "release", "remark", "split")),
    ):
        assert call_route(anna, route) == 403
    assert [each.person for each in session.answers().entries] == ["anna"]
    owner = Person("bob", running.port, TOKEN)
    assert owner.questions(1)
    assert owner.call("GET", "/api/project")[1]["person"] is None
    remove_person(session.store, "anna")
    assert anna.call("GET", "/api/project")[0] == 401, "a withdrawn token ends at once"
    with pytest.raises(ValueError, match="has no token; nobody has one"):
        remove_person(session.store, "anna")


def test_tokens_are_kept_as_hashes_and_named_once(url: str) -> None:
    store = Store(url)
    token = add_person(store, "anna", "review")
    with store.read_transaction() as tx:
        assert token not in str(tx.execute(people.select()).all())
    assert [(each.name, each.role) for each in list_people(store)] == [("anna", "review")]
    assert find_person(store, token) == list_people(store)[0]
    assert find_person(store, token[:-1]) is None
    with pytest.raises(ValueError, match="'anna' has a token: remove it first"):
        add_person(store, "anna", "label")
    with pytest.raises(ValueError, match="must be one of label, review, manage; got 'boss'"):
        add_person(store, "bob", "boss")  # type: ignore[arg-type]
    store.close()
