"""The setting in which strategies differ, where they are one with one setting varied."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from jostle.results.manifest import flat_fields


def varied_setting(strategies: Any, labels: Sequence[str]) -> tuple[str, dict[str, str]]:
    """The setting in which the strategies of the most common kind differ most, and each label's value of it.

    A label that differs in something else as well is shown under its own name.
    """
    if not isinstance(strategies, Mapping):
        return "", {}
    entries = {label: flat_fields(strategies.get(label) or {}) for label in labels}
    uses = Counter(entry.get("use", label) for label, entry in entries.items())
    kind = uses.most_common(1)[0][0]
    same = {label: entry for label, entry in entries.items() if entry.get("use", label) == kind}
    keys = sorted({key for entry in same.values() for key in entry if key != "use"})
    values_of = {key: len({repr(entry.get(key)) for entry in same.values()}) for key in keys}
    setting = max(keys, key=lambda key: values_of[key], default="")
    if not setting or values_of[setting] < 2:
        return "", {}
    rests = {label: repr({**entry, setting: None}) for label, entry in same.items()}
    usual = Counter(rests.values()).most_common(1)[0][0]
    plain = [label for label in same if rests[label] == usual and setting in same[label]]
    numbers = all(isinstance(same[label][setting], int | float) for label in plain)
    plain.sort(key=lambda label: same[label][setting] if numbers else 0)
    shown = {label: shown_value(same[label][setting]) for label in plain}
    return setting, {**shown, **{label: label for label in same if label not in shown}}


def shown_value(value: Any) -> str:
    """A value of a setting, as people write it."""
    return f"{value:g}".replace("e-0", "e-") if isinstance(value, float) else str(value)
