"""Which keys stand for which class."""

from collections.abc import Sequence
from string import ascii_lowercase

PLACES = 9  # classes that a digit names by their place


def shortcuts(classes: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """The keys of each class, best first: its own name if that is one character, else its place, and a letter.

    So the digits 0 to 9 are answered by the keys 0 to 9, not by their places.
    """
    named = {name.lower(): name for name in reversed(classes) if is_key(name.lower())}
    places = {str(place): name for place, name in enumerate(classes[:PLACES], start=1)}
    owners = named | {
        key: name for key, name in places.items() if key not in named and name not in named.values()
    }
    for name in classes:
        if name in named.values():
            continue
        letters = [each for each in name.lower() + ascii_lowercase if each.isalpha() and is_key(each)]
        free = next((letter for letter in letters if letter not in owners), None)
        if free is not None:
            owners[free] = name
    return {name: tuple(sorted(k for k, owner in owners.items() if owner == name)) for name in classes}


def is_key(letter: str) -> bool:
    """Whether a text is what one key of a keyboard writes."""
    return len(letter) == 1 and letter.isalnum()
