"""Metadata against a model of it: a list of pairs."""

import copy
import json
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from greenroom import Metadata

KEYS = st.sampled_from(["a", "A", "b", "B-c", "b-C", "é"])
PAIRS = st.lists(st.tuples(KEYS, st.text(max_size=3)), max_size=6)


def same(one: str, other: str) -> bool:
    return one.lower() == other.lower()


@given(PAIRS, KEYS)
def test_values_are_found_in_order_and_in_any_case(pairs: list[tuple[str, str]], key: str) -> None:
    metadata = Metadata(pairs)
    expected = [value for name, value in pairs if same(name, key)]

    assert metadata.get_all(key) == expected
    assert metadata.get(key) == (expected[0] if expected else None)
    assert metadata.get_last(key) == (expected[-1] if expected else None)
    assert metadata.has(key) == bool(expected)
    assert list(metadata) == pairs
    assert len(metadata) == len(pairs)


@given(PAIRS, PAIRS, KEYS, st.text(max_size=3))
def test_changes_make_copies(
    pairs: list[tuple[str, str]], more: list[tuple[str, str]], key: str, value: str
) -> None:
    metadata = Metadata(pairs)
    others = [pair for pair in pairs if not same(pair[0], key)]

    assert list(metadata.add(key, value)) == [*pairs, (key, value)]
    assert list(metadata.set(key, value)) == [*others, (key, value)]
    assert list(metadata.remove(key)) == others
    assert list(metadata.merge(Metadata(more))) == pairs + more
    assert list(metadata) == pairs


@given(PAIRS)
def test_each_key_is_listed_once_as_first_written(pairs: list[tuple[str, str]]) -> None:
    keys = Metadata(pairs).keys()

    assert [key.lower() for key in keys] == list(dict.fromkeys(name.lower() for name, _ in pairs))
    assert all(key in [name for name, _ in pairs] for key in keys)


@given(PAIRS)
def test_it_travels_as_pairs(pairs: list[tuple[str, str]]) -> None:
    """Through JSON, which has lists for tuples, and between processes."""
    metadata = Metadata(pairs)
    again = Metadata(json.loads(json.dumps(list(metadata))))

    assert again == metadata
    assert hash(again) == hash(metadata)
    assert pickle.loads(pickle.dumps(metadata)) == metadata
    assert copy.copy(metadata) == metadata


def test_the_empty_one_has_nothing() -> None:
    assert Metadata() == Metadata.EMPTY
    assert list(Metadata.EMPTY.keys()) == []
    assert not Metadata.EMPTY.has("a")


@pytest.mark.parametrize("pair", [("", "x"), ("a", None), (None, "x"), ("a", 3), (b"a", "x")])
def test_only_text_is_kept(pair: tuple[str, str]) -> None:
    with pytest.raises(TypeError, match="Metadata is text"):
        Metadata([pair])
