"""Which keys stand for which class."""

from collections.abc import Sequence
from string import ascii_lowercase

PLACES = 9  # classes that a digit names by their place


def shortcuts(classes: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """The keys of each class, best first: its place, and a letter of its name, or the name if that is one character.

    Where classes are digits, their keys are they themselves and no places: who sees a 7 presses 7.
    """
    owners = {name.lower(): name for name in reversed(classes) if is_key(name.lower())}
    if not any(key.isdecimal() for key in owners):
        owners |= {str(place): name for place, name in enumerate(classes[:PLACES], start=1)}
    lettered = {name for key, name in owners.items() if not key.isdecimal() or key == name}
    for name in classes:
        if name not in lettered:
            letters = (each for each in name.lower() + ascii_lowercase if each.isalpha() and is_key(each))
            free = next((letter for letter in letters if letter not in owners), None)
            owners |= {} if free is None else {free: name}
    return {name: tuple(sorted(key for key, owner in owners.items() if owner == name)) for name in classes}


def is_key(letter: str) -> bool:
    """Whether a text is what one key of a keyboard writes."""
    return len(letter) == 1 and letter.isalnum()
