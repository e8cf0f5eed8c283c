"""Where a call is carried out: here, or by the workers of a Ray cluster; the picks are the same."""

from __future__ import annotations

from typing import Any

from jostle.engines.on_ray import Ray
from jostle.engines.waiting import EngineError
from jostle.plumbing.names import unknown
from jostle.plumbing.settings import check_settings
from jostle.plumbing.specs import name_and_settings

__all__ = ["EngineError", "Ray", "engine"]


def engine(given: Any) -> Ray | None:
    """An engine, however it is given: "ray", with settings in brackets if need be, a `Ray`, or None for here.

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
        else TypeError(f"engine is 'ray' or a jostle.engines.Ray; got {given!r}")
    )
