"""Keys name classes without two meanings for one key."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from labeling_data import COLORS

from jostle.labeling import Session
from jostle.labeling.answers import assign_keys, split_class_keys


def test_places_and_first_letters() -> None:
    assert assign_keys(["cat", "dog", "other"]) == {"cat": ("1", "c"), "dog": ("2", "d"), "other": ("3", "o")}
    taken = assign_keys(["bug", "billing", "big"])  # a letter that is taken gives way to the next
    assert taken == {"bug": ("1", "b"), "billing": ("2", "i"), "big": ("3", "g")}


def test_digits_are_answered_by_themselves() -> None:
    assert assign_keys([str(i) for i in range(10)]) == {str(i): (str(i),) for i in range(10)}
    assert assign_keys(["cat", "7"]) == {"cat": ("c",), "7": ("7",)}
    assert assign_keys(["a", "B"]) == {"a": ("1", "a"), "B": ("2", "b")}


def test_more_than_nine_have_letters_and_other_alphabets_their_own() -> None:
    many = assign_keys([f"{letter}-class" for letter in "abcdefghijkl"])
    assert many["j-class"] == ("j",)
    assert assign_keys(["кот", "пёс"]) == {"кот": ("1", "к"), "пёс": ("2", "п")}


@given(st.lists(st.text(min_size=1, max_size=5), unique=True, max_size=60))
def test_no_key_has_two_meanings_and_none_is_reserved(classes: list[str]) -> None:
    keys = [key for name in assign_keys(classes).values() for key in name]
    assert len(set(keys)) == len(keys)
    assert not set(keys) & {" ", ".", "?", "Enter", "Backspace"}
    assert list(assign_keys(classes)) == classes
    if len(classes) <= 9:
        assert all(assign_keys(classes).values())


def test_keys_of_ones_own_go_first_and_belong_to_one_class() -> None:
    names, keys = split_class_keys(["cat = C", "dog=x", "ten=10", "2=", "other"])
    assert names == ("cat", "dog", "ten=10", "2=", "other")
    assert keys == {"cat": "c", "dog": "x"}
    found = assign_keys(["cow", "cat", "dog"], {"dog": "c"})
    assert found["dog"] == ("c",)
    assert found["cow"] == ("1", "o")
    with pytest.raises(ValueError, match="two classes have the key 'c'"):
        split_class_keys(["cat=c", "cow=c"])


def test_chosen_keys_survive_a_new_name(session: Session) -> None:
    session.book.choose_keys({COLORS[0]: "x", COLORS[1]: "y"})
    session.rename_class(COLORS[0], "crimson")
    assert session.book.own_keys() == {"crimson": "x", COLORS[1]: "y"}
    session.book.choose_keys({COLORS[2]: "x"})
    assert session.book.own_keys() == {COLORS[2]: "x", COLORS[1]: "y"}
