"""Public names have an example that runs, and say what they take, return and raise."""

import doctest
import inspect

import pytest
import torch

import jostle

NAMES = [name for name in jostle.__all__ if not inspect.ismodule(getattr(jostle, name))]


@pytest.mark.parametrize("name", NAMES)
def test_examples_of_public_names_run(name: str) -> None:
    thing = getattr(jostle, name)
    documented = thing if isinstance(thing, type) or inspect.isfunction(thing) else type(thing)
    text = inspect.getdoc(documented) or ""
    test = doctest.DocTestParser().get_doctest(text, {"jostle": jostle, "torch": torch}, name, None, None)
    assert test.examples, f"{name} has no example"
    failed, _ = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(test)
    assert not failed


@pytest.mark.parametrize("name", [name for name in NAMES if inspect.isfunction(getattr(jostle, name))])
def test_functions_say_what_they_take_and_return(name: str) -> None:
    text = inspect.getdoc(getattr(jostle, name)) or ""
    assert "Args:" in text
    assert "Returns:" in text
