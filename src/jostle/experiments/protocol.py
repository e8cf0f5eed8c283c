"""A protocol: all that decides the numbers of an experiment, read from TOML and checked field by field."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PlainValidator,
    ValidationError,
    field_validator,
    model_validator,
)

from jostle.training.train import Recipe
from jostle.utils.names import Spec, look_up, name_and_settings, parsed_value


def _amount(value: object) -> int | float:
    whole = isinstance(value, int) and not isinstance(value, bool) and value >= 1
    if not (whole or (isinstance(value, float) and 0 < value < 1)):
        raise ValueError(
            "it is a number of examples, at least 1, or a share of the training set between 0 and 1"
        )
    return value  # type: ignore[return-value]


Amount = Annotated[int | float, PlainValidator(_amount)]  # a number of examples, or a share below 1
AmountOrAll = Annotated[
    int | float | Literal["all"], PlainValidator(lambda value: value if value == "all" else _amount(value))
]
SHIPPED: Any = files("jostle.experiments") / "protocols"
LABEL = re.compile(r"[A-Za-z0-9][\w.+-]*", re.ASCII)  # labels name folders


class Named(BaseModel):
    """Something from a registry with its settings: `{use = "mnist-cnn", classes = 10}`, or its name alone."""

    model_config = ConfigDict(extra="allow", frozen=True)

    use: str
    """Its name."""

    @model_validator(mode="before")
    @classmethod
    def _none_is_a_word(cls, given: object) -> object:
        """Read `"none"` as None, for which TOML has no word."""
        if not isinstance(given, Mapping):
            return given
        return {key: None if value == "none" else value for key, value in given.items()}

    @property
    def settings(self) -> dict[str, Any]:
        """All but the name."""
        return dict(self.__pydantic_extra__ or {})


class Text(BaseModel):
    """How texts become numbers."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    encoder: str = "bert-base-uncased"
    """A folder or a hub name; the network `bert` starts from it too."""
    length: int = Field(default=128, ge=8)
    """Tokens that a text is cut to."""


class Protocol(BaseModel):
    """All that decides the numbers of an experiment, its seeds apart."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    """What it goes by."""
    title: str = ""
    """What it is, in a line."""
    dataset: Named
    """The data set, with its settings."""
    model: Named
    """The network, with its settings."""
    fit: Named | None = None
    """A function of the user's own that trains, in place of the recipe."""
    training: Recipe | None = None
    """How networks are trained; not needed where `fit` trains."""
    strategies: dict[str, Named] = Field(min_length=1)
    """Label -> strategy, with its settings."""
    initial: Amount
    """Labeled examples to begin with."""
    pick: Amount
    """Examples labeled in each round."""
    rounds: int = Field(ge=0)
    """Selections; a curve has one point more."""
    seeds: int = Field(default=3, ge=1)
    """Trials unless the command line says otherwise."""
    candidates: AmountOrAll = "all"
    """Drawn from the unlabeled pool in each round."""
    every_class: bool = False
    """The initial set is drawn again until it holds each class."""
    test: AmountOrAll = "all"
    """Test examples, drawn once and the same for all seeds."""
    text: Text = Text()
    """How texts become numbers."""

    @field_validator("dataset", "model", "fit", mode="before")
    @classmethod
    def _name_alone(cls, given: object) -> object:
        """Let `dataset = "mnist"` stand for a table, and `"folder:photos(size=8)"` for one with settings."""
        return _table(given) if isinstance(given, str) else given

    @field_validator("strategies", mode="before")
    @classmethod
    def _use_is_the_label(cls, given: object) -> object:
        """Let a label that is a strategy's name go without `use`."""
        if not isinstance(given, Mapping):
            return given
        return {
            label: {"use": label, **entry} if isinstance(entry, Mapping) else entry
            for label, entry in rename_strategies(given).items()
        }

    @field_validator("strategies")
    @classmethod
    def _labels_name_folders(cls, given: dict[str, Named]) -> dict[str, Named]:
        """Refuse labels that cannot name a folder."""
        for label in given:
            if not LABEL.fullmatch(label) or label == "report":
                raise ValueError(f"{label!r} cannot be a label: use letters, digits, and - _ . +")
        return given

    @model_validator(mode="after")
    def _something_trains(self) -> Protocol:
        """Refuse a protocol without a recipe and without a function that trains."""
        if self.training is None and self.fit is None:
            raise ValueError('training is missing: add a table [training], or fit = "file.py:function"')
        return self

    def written(self) -> dict[str, Any]:
        """The protocol as plain data, for the manifest."""
        return self.model_dump(mode="json")

    def chosen(self, specs: Iterable[Spec]) -> Protocol:
        """Return the protocol with the strategies of these `specs`.

        A label alone means this protocol's strategy, or the registry's of that name.
        """
        strategies: dict[str, Any] = {}
        for spec in specs:
            if spec.label in strategies:
                raise ValueError(f"--strategies has {spec.label!r} twice: give each a label of its own")
            known = self.strategies.get(spec.label)
            if known is not None and spec.bare:
                strategies[spec.label] = known.model_dump()
            else:
                strategies[spec.label] = {"use": spec.use, **spec.settings}
        return validated({**self.model_dump(), "strategies": strategies}, "--strategies")


def names() -> list[str]:
    """The protocols that are part of jostle."""
    return sorted(entry.name.removesuffix(".toml") for entry in SHIPPED.iterdir() if _is_toml(entry.name))


def source(name: str) -> str:
    """The text of a protocol, comments included."""
    if not _is_toml(name):
        look_up("protocol", name, dict.fromkeys(names()))
        return str((SHIPPED / f"{name}.toml").read_text(encoding="utf-8"))
    path = Path(name).expanduser()
    if not path.is_file():
        raise ValueError(f"there is no protocol file {name}")
    return path.read_text(encoding="utf-8")


def load(name: str, overrides: Iterable[str] = ()) -> Protocol:
    """A protocol by `name` or from a .toml file, with `overrides` such as `training.epochs=5` over its fields."""
    stem = Path(name).stem if _is_toml(name) else name
    fields = {"name": stem, **_read(name)}
    data, title = _use(fields.get("dataset")), fields.get("title")
    for override in overrides:
        key, equals, value = override.partition("=")
        if not equals or not key.strip():
            raise ValueError(f"--set takes field=value, such as training.epochs=5; got {override!r}")
        _put(fields, key.strip().split("."), parsed_value(value), override)
    if _use(fields.get("dataset")) != data and fields.get("title") == title:
        fields["title"] = f"{_use(fields['dataset'])}, with the settings of {stem}"
    return validated(fields, name)


def validated(fields: Mapping[str, Any], where: str) -> Protocol:
    """The protocol, or an error that names each field that is wrong."""
    try:
        return Protocol.model_validate(fields)
    except ValidationError as wrong:
        raise ValueError(f"protocol {where}: " + "; ".join(map(_complaint, wrong.errors()))) from None


def _complaint(error: Mapping[str, Any]) -> str:
    field = ".".join(map(str, error["loc"])) or "the file"
    if error["type"] == "extra_forbidden":
        kinds: dict[str, Any] = {"": Protocol, "training": Recipe, "text": Text}
        owner = kinds.get(".".join(map(str, error["loc"][:-1])))
        known = f" (known: {', '.join(owner.model_fields)})" if owner else ""
        return f"unknown field {field}{known}"
    if not error["loc"] and error["type"] == "value_error":
        return str(error["msg"]).removeprefix("Value error, ")
    if error["type"] == "missing":
        return f"{field} is missing"
    return f"{field}: {error['msg'].removeprefix('Value error, ').lower()}; got {error['input']!r}"


def _read(name: str, seen: tuple[str, ...] = ()) -> dict[str, Any]:
    """The fields of a file over those of the file it extends; strategies of its own replace all others."""
    if name in seen:
        raise ValueError(f"protocol {name} extends itself: {' > '.join((*seen, name))}")
    try:
        fields = tomllib.loads(source(name))
    except tomllib.TOMLDecodeError as wrong:
        raise ValueError(f"protocol {name} is not TOML: {wrong}") from None
    if "extends" not in fields:
        return fields
    parent = fields.pop("extends")
    if _is_toml(parent):  # beside the file that extends it; a bare name is one of jostle's
        parent = str(Path(name).parent / parent)
    base = _read(parent, (*seen, name))
    if "strategies" in fields:
        base.pop("strategies", None)
    return _merged(base, fields)


def _merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in over.items():
        both = isinstance(value, Mapping) and isinstance(base.get(key), Mapping)
        replaced = both and "use" in value and value["use"] != base[key].get("use")
        merged[key] = _merged(base[key], value) if both and not replaced else value
    return merged


def _put(fields: dict[str, Any], path: list[str], value: Any, said: str) -> None:
    *parents, last = path
    for parent in parents:
        inner = fields.setdefault(parent, {})
        if isinstance(inner, str):  # dataset = "mnist" stands for a table
            inner = _table(inner)
        if not isinstance(inner, dict):
            raise ValueError(f"--set {said}: {parent} has no fields")
        fields[parent] = dict(inner)
        fields = fields[parent]
    fields[last] = value


def _use(named: object) -> str:
    """The name of what a field names, whether it has settings or not."""
    table = _table(named) if isinstance(named, str) else named
    return str(table.get("use", "")) if isinstance(table, Mapping) else ""


def _table(text: str) -> dict[str, Any]:
    use, settings = name_and_settings(text)
    return {"use": use, **settings}


def _is_toml(name: str) -> bool:
    return name.endswith(".toml")


# Names of jostle 0.2 in what is stored.
OLD_STRATEGIES = {"jolt-herding": "noise-herding"}
OLD_SETTINGS = {
    "jolts": "num_perturbations",
    "scale": "noise_scale",
    "grid": "spatial_grid",
    "start": "initial_centers",
    "project": "projection_dim",
    "keep": "candidates_per_pick",
    "rows_file": "cache_path",
}
REMOVED_SETTINGS = ("race",)  # settings that changed no pick


def rename_label(label: str) -> str:
    """Current name of a strategy's label; a name that is still registered stays."""
    from jostle import strategies

    return label if label not in OLD_STRATEGIES or label in strategies.names() else OLD_STRATEGIES[label]


def rename_strategies(stored: Mapping[str, Any]) -> dict[str, Any]:
    """Strategies of a protocol, label -> entry, with current labels, names and settings."""
    return {
        rename_label(label): _rename_entry(label, entry) if isinstance(entry, Mapping) else entry
        for label, entry in stored.items()
    }


def _rename_entry(label: str, entry: Mapping[str, Any]) -> dict[str, Any]:
    renamed = {**entry, "use": rename_label(str(entry["use"]))} if "use" in entry else entry
    takes = _settings(str(renamed.get("use", rename_label(label))))
    return {
        _rename_setting(key, takes): _rename_in_spec(value)
        for key, value in renamed.items()
        if key not in REMOVED_SETTINGS or key in takes or not takes
    }


def _rename_in_spec(value: Any) -> Any:
    """Rename settings in words such as `deviations(grid=2)`, a part of a composed strategy."""
    if isinstance(value, str) and "(" in value:
        takes = _settings(value.partition("(")[0].strip())
        for old in OLD_SETTINGS:
            value = re.sub(rf"\b{old}(?=\s*=)", _rename_setting(old, takes), value)
    return value


def _settings(use: str) -> frozenset[str]:
    """Settings of a registered name; none of the user's own, whose words may mean different things."""
    from jostle import embeddings, selectors, strategies

    registries = (strategies, embeddings, selectors)
    found = next((each for each in registries if use in each.names()), None)
    return frozenset(found.describe(use).settings) if found else frozenset()


def _rename_setting(key: str, takes: frozenset[str]) -> str:
    new = OLD_SETTINGS.get(key)
    return new if new in takes and key not in takes else key


def rename_run_folders(folder: Path) -> None:
    """Rename the folders of strategies in a folder of runs, so that their runs are resumed."""
    for old in OLD_STRATEGIES:
        new = rename_label(old)
        if new != old and (folder / old).is_dir() and not (folder / new).exists():
            (folder / old).rename(folder / new)
