"""People with tokens of their own: who they are, and which routes of the server their role allows.

The server's own token belongs to its owner, who may do everything under any name. A token of `add_person` belongs to
one person. The database has its hash alone.
"""

from __future__ import annotations

import hmac
import secrets
from contextvars import ContextVar
from dataclasses import dataclass
from hashlib import sha256
from typing import Annotated, Any, Literal, get_args

from fastapi import HTTPException, Request
from pydantic import AfterValidator, Field
from sqlalchemy import delete, insert, select
from sqlalchemy.exc import IntegrityError

from jostle.labeling.answers import clean_person_name
from jostle.labeling.store import Store
from jostle.labeling.store.schema import people

Role = Literal["label", "review", "manage"]
ROLES: tuple[Role, ...] = get_args(Role)  # each may do what those before it may

# Every route of the server, and the first role that may use it.
ROUTE_ROLES: dict[str, Role] = {
    "GET /": "label",
    "GET /static/{name}": "label",
    "GET /api/project": "label",
    "GET /api/questions": "label",
    "POST /api/answers": "label",
    "POST /api/skip": "label",
    "POST /api/undo": "label",
    "POST /api/bulk/undo": "label",
    "POST /api/release": "label",
    "POST /api/remark": "label",
    "GET /api/copies/{key}": "label",
    "POST /api/split": "label",
    "GET /api/content/{key}": "label",
    "GET /api/suggestion/{key}": "label",
    "GET /api/guide": "label",
    "GET /api/guide/{key}": "label",
    "GET /api/grid": "label",
    "GET /api/progress": "label",
    "GET /api/doubts": "review",
    "GET /api/disagreements": "review",
    "GET /api/answers": "review",
    "GET /api/remarks": "review",
    "POST /api/correct": "review",
    "GET /api/map": "review",  # the view Find shows everybody's answers
    "GET /api/map/positions": "review",
    "GET /api/map/colors": "review",
    "GET /api/map/example": "review",
    "POST /api/find": "review",
    "POST /api/classes/rename": "manage",
    "POST /api/classes/merge": "manage",
    "POST /api/classes/add": "manage",
    "POST /api/prove": "manage",
    "POST /api/train": "manage",
}


@dataclass(frozen=True)
class Person:
    """Person with a token."""

    name: str
    role: Role
    at: float  # when the token was made


signed_in: ContextVar[Person | None] = ContextVar("signed_in", default=None)  # None: the owner of the server


def add_person(store: Store, name: str, role: Role) -> str:
    """Add a person to a project; return the token, which cannot be read again.

    Raises:
        ValueError: The person has a token, or the role is unknown.
    """
    name = clean_person_name(name)
    if role not in ROLES:
        raise ValueError(f"the role must be one of {', '.join(ROLES)}; got {role!r}")
    token = secrets.token_urlsafe(24)
    row = {"name": name, "role": role, "digest": hash_token(token), "at": store.clock()}
    try:
        with store.write_transaction() as tx:
            tx.execute(insert(people).values(row))
    except IntegrityError:
        raise ValueError(f"{name!r} has a token: remove it first to make a new one") from None
    return token


def list_people(store: Store) -> list[Person]:
    """Return the people with tokens, by name."""
    return [Person(row.name, row.role, row.at) for row in store.rows(select(people).order_by(people.c.name))]


def remove_person(store: Store, name: str) -> None:
    """Withdraw a person's token, at once; their answers stay.

    Raises:
        ValueError: Nobody of this name has a token.
    """
    name = clean_person_name(name)
    with store.write_transaction() as tx:
        removed = tx.execute(delete(people).where(people.c.name == name)).rowcount
    if not removed:
        there = ", ".join(each.name for each in list_people(store)) or "nobody"
        raise ValueError(f"{name!r} has no token; {there} has one")


def find_person(store: Store, token: str) -> Person | None:
    """Return the person of a token, None if it is nobody's; the time does not tell how near a guess came."""
    digest = hash_token(token)
    found = [row for row in store.rows(select(people)) if hmac.compare_digest(row.digest, digest)]
    return Person(found[0].name, found[0].role, found[0].at) if found else None


def hash_token(token: str) -> str:
    """Return the hash of a token; 192 random bits need no slow one."""
    return sha256(token.encode()).hexdigest()


def current_role() -> Role:
    """Return the role of whoever sent the request."""
    person = signed_in.get()
    return "manage" if person is None else person.role


async def check_role(request: Request) -> None:
    """Refuse a request that the role of its sender does not allow; a route without a role is for `manage`."""
    route: Any = request.scope["route"]
    wanted = ROUTE_ROLES.get(f"{request.method} {route.path}", "manage")
    if ROLES.index(current_role()) < ROLES.index(wanted):
        raise HTTPException(403, f"Your token is for {current_role()!r}; this needs {wanted!r}.")


def check_sender(name: str) -> str:
    """Refuse the name of somebody else than the token's person."""
    person = signed_in.get()
    if person is not None and " ".join(name.split()) != person.name:
        raise HTTPException(403, f"Your token is for {person.name}, not for {name}.")
    return name


Sender = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(check_sender)]
"""Name of the person who sends a request."""
