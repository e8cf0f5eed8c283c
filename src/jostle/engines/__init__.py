"""Engines run a call elsewhere, on the workers of a Ray cluster; the picks are those of one process."""

from __future__ import annotations

from typing import Any

from jostle.engines.ray_engine import Ray
from jostle.engines.worker import EngineError
from jostle.utils.names import name_and_settings, unknown
from jostle.utils.registry import check_settings

__all__ = ["EngineError", "Ray", "engine"]


def engine(given: Any) -> Ray | None:
    """Return an engine from "ray", with settings in brackets where needed, from a `Ray`, or None for this process.

    Args:
        given: Any of these, such as "ray(workers=4)".
    """
    if given is None or isinstance(given, Ray):
        return given
    name, settings = name_and_settings(given) if isinstance(given, str) else (given, {})
    if name == "ray":
        check_settings("ray", Ray, settings)
        return Ray(**settings)
    raise (
        unknown("engine", given, ("ray",))
        if isinstance(given, str)
        else TypeError(f"engine must be 'ray' or a jostle.engines.Ray; got {given!r}")
    )
