"""Settings written as TOML."""

import json
import re
from collections.abc import Mapping
from typing import Any


def toml(settings: Mapping[str, Any], prefix: str = "") -> str:
    """Settings as a TOML file; what is None is left out, as TOML has no word for it."""
    plain = {key: value for key, value in settings.items() if not isinstance(value, Mapping)}
    lines = [f"{_key(key)} = {_toml(value)}" for key, value in plain.items() if value is not None]
    for key, value in settings.items():
        if isinstance(value, Mapping):
            name = prefix + _key(key)
            header = (
                [] if value and all(isinstance(each, Mapping) for each in value.values()) else [f"[{name}]"]
            )
            lines += ["", *header, toml(value, name + ".")]
    return "\n".join(lines).strip("\n")


def _key(key: str) -> str:
    return key if re.fullmatch(r"[\w-]+", key, flags=re.ASCII) else json.dumps(key)


def _toml(value: Any) -> str:
    if isinstance(value, Mapping):
        inside = ", ".join(f"{_key(k)} = {_toml(v)}" for k, v in value.items() if v is not None)
        return f"{{{inside}}}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_toml(each) for each in value if each is not None) + "]"
    return json.dumps(value, ensure_ascii=False)
