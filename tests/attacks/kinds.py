"""The kinds of attack by name."""

from attacks import (
    arrays,
    calls,
    corruptions,
    edits,
    interrupts,
    kills,
    names,
    oracles,
    pages,
    people,
    places,
    requests,
    threads,
)
from attacks.driver import Attack

KINDS: dict[str, Attack] = {
    "calls": calls.attack,
    "arrays": arrays.attack,
    "oracles": oracles.attack,
    "interrupts": interrupts.attack,
    "threads": threads.attack,
    "kills": kills.attack,
    "edits": edits.attack,
    "corruptions": corruptions.attack,
    "names": names.attack,
    "places": places.attack,
    "requests": requests.attack,
    "people": people.attack,
    "pages": pages.attack,
}
