"""Where runs come from: all that is needed to repeat them."""

import shlex
from collections.abc import Mapping
from typing import Any

from jostle.report.page import Section
from jostle.report.toml import toml
from jostle.results.curves import Results


def repeat_section(results: Results) -> Section:
    """Commands, seeds, versions, hardware, checksums and the protocol, to be copied."""
    manifest = results.manifest
    listings: list[tuple[str, str]] = []
    commands = [*manifest.get("earlier_commands", ()), manifest.get("command", ())]
    if any(commands):
        said = "\n".join(shlex.join(map(str, command)) for command in commands)
        listings.append(("Commands" if len(commands) > 1 else "Command", said))
    seeds = {label: " ".join(map(str, results.seeds(label))) for label in results.labels}
    same = len(set(seeds.values())) == 1
    listings.append(("Seeds", next(iter(seeds.values())) if same else toml(seeds)))
    for title, key in (
        ("Versions", "versions"),
        ("Hardware", "hardware"),
        ("Data", "data"),
        ("Own files", "files"),
    ):
        if manifest.get(key):
            listings.append((title, toml(manifest[key])))
    if manifest.get("protocol"):
        listings.append(("Protocol", toml(spelt_out(manifest["protocol"]))))
    text = "Everything needed to run this again; the same seeds give the same picks and the same numbers."
    return Section("repeat", "Repeat it", text, listings=tuple(listings))


def spelt_out(protocol: Mapping[str, Any]) -> dict[str, Any]:
    """A protocol whose settings that are None say "none", as TOML has no word for it."""

    def spelt(named: Any) -> Any:
        return {key: "none" if each is None else each for key, each in dict(named).items()}

    tables = {key: spelt(protocol[key]) for key in ("dataset", "model", "fit") if protocol.get(key)}
    strategies = {label: spelt(named) for label, named in protocol.get("strategies", {}).items()}
    return {**protocol, **tables, "strategies": strategies}
