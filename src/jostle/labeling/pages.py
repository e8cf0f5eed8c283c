"""Templates and files of the pages."""

from __future__ import annotations

from importlib.resources import files

from fastapi import FastAPI, HTTPException
from fastapi.responses import Response
from jinja2 import Environment, PackageLoader, StrictUndefined, Template

ASSETS = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}


def load_template(name: str) -> Template:
    """Load the template of a page."""
    loader = PackageLoader("jostle.labeling")
    return Environment(loader=loader, autoescape=True, undefined=StrictUndefined).get_template(name)


def add_assets(app: FastAPI) -> None:
    """Add the route of styles, scripts and the icon."""
    assets = {file.name: file.read_bytes() for file in (files("jostle.labeling") / "static").iterdir()}

    @app.get("/static/{name}")
    def asset(name: str) -> Response:
        suffix = name[name.rfind(".") :]
        if name not in assets:
            raise HTTPException(404, f"no file {name!r}")
        return Response(assets[name], media_type=ASSETS[suffix])
