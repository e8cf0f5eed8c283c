"""Protocols: the published numbers, errors that name the field, overrides, and what the command line says."""

import re
from pathlib import Path

import pytest
from tiny import tiny, tiny_file

from jostle import datasets, models, strategies
from jostle.experiments import protocol
from jostle.experiments.setup import build_strategy
from jostle.utils.names import Spec, name_and_settings, parse_spec, parse_specs, parsed_value

PUBLISHED = {  # name: (initial, pick, points, candidates, seeds, batch, optimizer, lr, epochs)
    "mnist": (20, 20, 10, 1000, 10, 96, "adam", 1e-3, 50),
    "cifar10-vgg": (1000, 1000, 7, 10000, 3, 128, "sgd", 0.05, 200),
    "cifar10-resnet": (1000, 1000, 7, 25000, 3, 128, "sgd", 0.1, 200),
    "cifar100": (5000, 2500, 7, 25000, 3, 128, "sgd", 0.1, 200),
    "svhn": (7326, 3663, 7, 29303, 3, 128, "sgd", 0.1, 200),
    "caltech101": (0.10, 0.05, 7, "all", 3, 64, "sgd", 0.01, 50),
    "ames": (20, 20, 10, 200, 50, 64, "adam", 1e-3, 500),
    "cityscapes": (0.10, 0.05, 7, "all", 1, 8, "adam", 5e-4, 50),
    "mrpc": (50, 50, 10, "all", 3, 32, "adamw", 2e-5, 10),
    "mnist-single": (20, 1, 51, 1000, 3, 96, "adam", 1e-3, 50),
    "timing-group1": (4000, 1000, 2, 10000, 1, 128, "sgd", 0.1, 200),
    "timing-group2": (20000, 5000, 2, 25000, 1, 128, "sgd", 0.1, 200),
}


def test_published_numbers():
    for name, published in PUBLISHED.items():
        p = protocol.load(name)
        found = (p.initial, p.pick, p.rounds + 1, p.candidates, p.seeds)
        recipe = p.training
        assert (*found, recipe.batch, recipe.optimizer, recipe.lr, recipe.epochs) == published, name


def test_schedules_and_augmentation_of_the_paper():
    schedules = {name: protocol.load(name).training.schedule for name in PUBLISHED}
    assert (schedules["mnist"].at, schedules["mnist"].factor) == ((20,), 0.1)
    assert (schedules["cifar10-vgg"].every, schedules["cifar10-vgg"].factor) == (30, 0.5)
    assert protocol.load("cifar10-vgg-code").training.schedule.factor == 0.1
    assert schedules["svhn"].at == schedules["cifar100"].at == schedules["ames"].at == (160,)
    assert schedules["caltech101"].at == (40,)
    assert schedules["mrpc"].linear
    for name in ("cifar10-vgg", "cifar10-resnet", "cifar100", "svhn"):
        recipe = protocol.load(name).training
        assert (recipe.momentum, recipe.weight_decay) == (0.9, 5e-4)
        assert (recipe.augment.flip, recipe.augment.crop, recipe.augment.pad) == (True, 32, 4)
    assert protocol.load("cityscapes").training.augment.crop == 688
    assert protocol.load("mnist").training.balance_small
    assert not protocol.load("ames").training.balance_small


def test_every_protocol_names_what_exists():
    for name in protocol.names():
        p = protocol.load(name)
        assert p.title
        assert set(p.dataset.settings) <= set(datasets.settings(p.dataset.use))  # an unknown name has none
        assert set(p.model.settings) <= set(models.settings(p.model.use))
        for named in p.strategies.values():
            assert named.use in strategies.names(), name
            build_strategy(named)


def test_perturbations_and_their_scale_are_the_papers():
    for name in ("mnist", "cifar10-vgg", "svhn", "ames", "cityscapes", "mrpc"):
        assert protocol.load(name).strategies["noise-stability"].settings["num_perturbations"] == 30
    for name in ("cifar100", "caltech101"):
        assert protocol.load(name).strategies["noise-stability"].settings["num_perturbations"] == 10
    zetas = [each.settings.get("noise_scale") for each in protocol.load("mnist-zeta").strategies.values()]
    assert zetas[1:-1] == [1e-6, 1e-4, 1e-3, 1e-2, 1.0, 10.0]
    single = protocol.load("mnist-single").strategies
    assert single["noise-stability-m"].settings == {"num_perturbations": 50}
    assert single["bald"].settings["passes"] == single["entropy-dropout"].settings["passes"] == 50


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("epochs=3", r"unknown field epochs"),
        ("training.epoch=3", r"unknown field training\.epoch .*epochs"),
        ("training.epochs=0", r"training\.epochs"),
        ("training.optimizer=lbfgs", r"training\.optimizer.*'lbfgs'"),
        ("initial=0", r"initial: it is a number of examples, at least 1, or a share .*; got 0"),
        ("initial=1.5", r"initial: it is .* between 0 and 1; got 1.5"),
        ("pick=many", r"pick"),
        ("rounds=-1", r"rounds.*got -1"),
        ("candidates=some", r"candidates.*'some'"),
        ("training.momentum=0.9", r"momentum belongs to sgd"),
        ("rounds", r"--set takes field=value"),
        ("rounds.x=1", r"rounds has no fields"),
        ("strategies.a/b.use=random", r"'a/b' cannot be a label"),
        ("training.lr=inf", r"training\.lr: .*finite"),
        ("training.lr=nan", r"training\.lr: .*finite"),
        ("training.weight_decay=inf", r"training\.weight_decay: .*finite"),
    ],
)
def test_wrong_fields_are_named(tmp_path: Path, override: str, message: str):
    with pytest.raises(ValueError, match=message) as wrong:
        tiny(tmp_path, override)
    assert len(str(wrong.value).splitlines()) == 1


def test_overrides_reach_every_depth(tmp_path: Path):
    p = tiny(tmp_path, "rounds=5", "training.lr=0.5", "dataset.use=mine.py:points", "candidates=all",
             "strategies.margin.head=head", "model.channels=3")  # fmt: skip
    assert (p.rounds, p.training.lr, p.dataset.use, p.candidates) == (5, 0.5, "mine.py:points", "all")
    assert p.strategies["margin"].settings == {"head": "head"}
    assert p.model.settings == {"channels": 3}


def test_a_file_extends_another(tmp_path: Path):
    tiny_file(tmp_path)
    (tmp_path / "more.toml").write_text(
        'extends = "tiny.toml"\nrounds = 1\n[training]\nlr = 0.1\n[strategies.entropy]\n'
    )
    p = protocol.load(str(tmp_path / "more.toml"))
    assert (p.name, p.rounds, p.training.lr, p.training.epochs) == ("more", 1, 0.1, 2)
    assert list(p.strategies) == ["entropy"]
    (tmp_path / "loop.toml").write_text('extends = "loop.toml"')
    with pytest.raises(ValueError, match="extends itself"):
        protocol.load(str(tmp_path / "loop.toml"))


def test_files_that_are_not_there_or_not_toml(tmp_path: Path):
    (tmp_path / "bad.toml").write_text("rounds = = 3")
    (tmp_path / "empty.toml").write_text("")
    for name, error in (
        ("mnits", "did you mean 'mnist'"),
        (f"{tmp_path}/none.toml", "no protocol file"),
        (f"{tmp_path}/bad.toml", "not TOML"),
        (f"{tmp_path}/empty.toml", "dataset is missing"),
    ):
        with pytest.raises(ValueError, match=error):
            protocol.load(name)


def test_strategies_of_the_command_line(tmp_path: Path):
    spec = "random, ns-logits=noise-stability(space=logits, num_perturbations=5),noise-stability"
    chosen = tiny(tmp_path).chosen(parse_specs(spec)).strategies
    assert list(chosen) == ["random", "ns-logits", "noise-stability"]
    assert chosen["ns-logits"].use == "noise-stability"
    assert chosen["ns-logits"].settings == {"space": "logits", "num_perturbations": 5}
    assert chosen["noise-stability"].settings == {"num_perturbations": 3}  # the protocol's own
    again = tiny(tmp_path).chosen(parse_specs("noise-stability()"))
    assert again.strategies["noise-stability"].settings == {}  # brackets: the registry's
    with pytest.raises(ValueError, match="twice"):
        tiny(tmp_path).chosen(parse_specs("random,random"))


def test_specs():
    assert parse_spec("bald") == Spec("bald", "bald", {}, bare=True)
    assert parse_spec("a=my.py:Mine(x=1)") == Spec("a", "my.py:Mine", {"x": 1})
    assert parse_spec("my.py:Mine").label == "Mine"
    lists = {"selector": "k-means++", "parameters": ["a*", "b"]}
    assert parse_spec("ns(selector=k-means++,parameters=['a*','b'])").settings == lists
    assert name_and_settings("folder:my photos (2)/x") == ("folder:my photos (2)/x", {})
    shape = {"size": [32, 48], "mode": "L"}
    assert name_and_settings("folder:photos(size=[32, 48], mode=L)") == ("folder:photos", shape)
    assert name_and_settings("bald(insert-dropout=0.3)") == ("bald", {"insert_dropout": 0.3})
    for text, error in (("ns(num_perturbations=3", "not closed"), ("=x(", "not closed"), ("a=", "no name")):
        with pytest.raises(ValueError, match=error):
            parse_specs(text)


def test_values_are_tomls_or_words():
    found = [parsed_value(text) for text in ("3", "1e-3", "true", "logits", '"3"', "[1, 2]", " x y ", "none")]
    assert found == [3, 1e-3, True, "logits", "3", [1, 2], "x y", None]


def test_settings_in_brackets_and_none(tmp_path: Path):
    p = tiny(tmp_path, "dataset=folder:p/mixed(size=none, mode=L)", "dataset.test=0.5")
    assert p.dataset.model_dump() == {"use": "folder:p/mixed", "size": None, "mode": "L", "test": 0.5}
    file = tiny_file(tmp_path, 'noise_scale = 1.0\nprojection_dim = "none"\n')  # TOML has no word for None
    settings = protocol.load(str(file)).strategies["noise-stability"].settings
    assert settings["projection_dim"] is None


def test_every_field_is_documented():
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "experiments.md").read_text()
    for field in (*protocol.Protocol.model_fields, *protocol.Recipe.model_fields):
        assert re.search(rf"`(training\.)?{field}`", page), field


BENCHMARKS = sorted((Path(__file__).parents[2] / "benchmarks" / "protocols").glob("*.toml"))


def test_protocols_of_the_benchmarks_are_valid():
    for path in BENCHMARKS:
        loaded = protocol.load(str(path))
        assert loaded.name == path.stem
        assert loaded.rounds > 0


def test_a_protocol_trains_by_a_recipe_or_by_a_fit(tmp_path):
    text = re.sub(r"\[training\].*?\n\n", "", tiny_file(tmp_path).read_text(), flags=re.DOTALL)
    path = tmp_path / "untrained.toml"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"training is missing: add a table \[training\], or fit ="):
        protocol.load(str(path))
    assert protocol.load(str(path), ["fit=mine.py:fit"]).training is None
