"""Edits by position on plain trees: order, placement, conflicts."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest
from hypothesis import assume, given, settings, strategies as st

from alfred_refs.errors import PositionError
from alfred_refs.positions.edits import Add, Edit, Item, Modify, Move, Outcome, Remove, execute
from tests.profiles import examples

Tree = list[Any]  # [name, [tree, ...]]


def items(*values: Any) -> Item:
    """Return the root of a flat list."""
    return Item(None, [Item(value) for value in values])


def values(root: Item) -> list[Any]:
    """Return what a list has."""
    return [item.value for item in root.items or ()]


def conflicts(root: Item, *edits: Edit) -> list[tuple[str, tuple[int, ...]]]:
    """Return what is wrong with edits, which change nothing."""
    before = plain(root)
    with pytest.raises(PositionError) as caught:
        execute(root, edits, "steps")
    assert plain(root) == before
    return [(each.code, each.edits) for each in caught.value.conflicts]


def plain(item: Item) -> Tree:
    """Return a tree as values."""
    return [item.value, None if item.items is None else [plain(each) for each in item.items]]


@pytest.mark.parametrize(
    ("edits", "expected"),
    [
        ([Remove([3]), Remove([5])], "abdf"),
        ([Move([6], 1), Move([1], 3)], "fbacde"),
        ([Move([1], 6)], "bcdefa"),
        ([Remove([2]), Add([2], "x")], "axcdef"),
        ([Add([7], "x")], "abcdefx"),
        ([Add([2], "x"), Add([2], "y")], "axybcdef"),
        ([Add([8], "y"), Add([7], "x")], "abcdefxy"),
        ([Add([7], "x"), Add([7], "y")], "abcdefxy"),
        ([Move([2], 2)], "abcdef"),
        ([Remove([n]) for n in range(1, 7)], ""),
        ([*(Remove([n]) for n in range(1, 7)), Add([1], "x")], "x"),
        ([*(Remove([n]) for n in range(1, 7)), Add([2], "x"), Add([2], "y")], "xy"),
    ],
)
def test_what_is_named_is_what_was_there(edits: list[Edit], expected: str) -> None:
    """And what is placed stands where it was to be."""
    root = items(*"abcdef")
    execute(root, edits, "steps")
    assert "".join(values(root)) == expected


def test_what_became_of_items_is_told() -> None:
    """Those that changed, went and came, and whose lists are others."""
    root = items({"a": 1, "b": 1}, "x", "y")
    assert root.items is not None
    first, second, third = root.items
    edits: list[Edit] = [
        Modify([1], {"a": 2}),
        Remove([2]),
        Add([1], "new"),
        Modify([1], {"b": 2}),
    ]
    outcome = execute(root, edits, "steps")
    assert outcome.modified == {first: {"a": 2, "b": 2}}
    assert outcome.removed == [second]
    assert outcome.lists == [root]
    new, *others = root.items
    assert (new.value, others) == ("new", [first, third])


def nested() -> Item:
    """Return three lists of lists: the second is empty, and the third is none."""
    return Item(None, [items(*"abc"), items(), Item("z")])


def test_edits_at_several_levels_are_one_batch() -> None:
    """Also from one list into another of the same level."""
    root = nested()
    edits: list[Edit] = [
        Move([1, 2], [2, 1]),
        Remove([3]),
        Move([2], 1),
        Add([1, 1], "x"),
        Remove([1, 3]),
    ]
    execute(root, edits, "weeks")
    assert [values(each) for each in root.items or ()] == [["b"], ["x", "a"]]


@pytest.mark.parametrize(
    ("edits", "expected"),
    [
        ([Remove([4])], [("out_of_range", (1,))]),
        ([Remove([1, 4])], [("out_of_range", (1,))]),
        ([Modify([2, 1], "x")], [("out_of_range", (1,))]),
        ([Modify([3, 1], "x")], [("no_list", (1,))]),
        ([Add([3, 1], "x")], [("no_list", (1,))]),
        ([Modify([1, 1, 1], "x")], [("no_list", (1,))]),
        ([Add([5], "x")], [("out_of_range", (1,))]),
        ([Add([1, 5], "x"), Remove([1, 1])], [("out_of_range", (1,))]),
        ([Add([1, 4], "x"), Remove([1, 1])], [("out_of_range", (1,))]),
        ([Move([1, 1], [2, 2])], [("out_of_range", (1,))]),
        ([Move([1, 1], [2])], [("invalid_position", (1,))]),
        ([Move([1, 1], 4)], [("out_of_range", (1,))]),
        ([Remove([1]), Remove([1])], [("edited_twice", (1, 2))]),
        ([Remove([1]), Modify([1], "x")], [("edited_twice", (1, 2))]),
        ([Move([1], 2), Move([1], 3)], [("edited_twice", (1, 2))]),
        ([Move([1], 2), Remove([1])], [("edited_twice", (1, 2))]),
        ([Modify([1, 1], "x"), Modify([1, 1], "x")], [("edited_twice", (1, 2))]),
        ([Modify([1, 1], {"a": 1}), Modify([1, 1], {"a": 2})], [("edited_twice", (1, 2))]),
        ([Remove([1, 1]), Remove([1])], [("under_removed", (2, 1))]),
        ([Remove([1]), Add([1, 1], "x")], [("under_removed", (1, 2))]),
        ([Remove([2]), Move([1, 1], [2, 1])], [("under_removed", (1, 2))]),
        ([Remove([1]), Move([1, 1], [2, 1])], [("under_removed", (1, 2))]),
        ([Remove("part_1")], [("unknown_item", (1,))]),
        (
            [Remove([9]), Remove([1]), Move([1], 2), Add([7], "x")],
            [("out_of_range", (1,)), ("edited_twice", (2, 3)), ("out_of_range", (4,))],
        ),
    ],
)
def test_conflicts_are_told_all_at_once(
    edits: list[Edit], expected: list[tuple[str, tuple[int, ...]]]
) -> None:
    """With the numbers of the edits; nothing was done."""
    assert conflicts(nested(), *edits) == expected


def test_a_move_and_a_modify_of_one_item_go_together() -> None:
    """So do two of different fields."""
    root = items({"a": 1}, "x")
    outcome = execute(root, [Modify([1], {"a": 2}), Move([1], 2), Modify([1], {"b": 2})], "steps")
    assert [*outcome.modified.values()] == [{"a": 2, "b": 2}]
    assert values(root) == ["x", {"a": 1}]


@pytest.mark.parametrize(
    "path",
    [
        *([], [0], [-1], [True], [1.0], ["1"], None, 1, {}, b"1"),
        *([1] * 21, [None], [[1]], (), [10**30 + 0.5]),
    ],
)
def test_what_is_no_position_is_refused(path: Any) -> None:
    """In a path, and in where to go."""
    assert conflicts(items("a"), Remove(path)) == [("invalid_position", (1,))]
    if path != 1:
        assert conflicts(items("a"), Move([1], path)) == [("invalid_position", (1,))]


def test_too_many_edits_are_refused_before_any_is_looked_at() -> None:
    """With how many there may be."""
    with pytest.raises(PositionError, match=r"10,000 edits exceeds the limit of 1,000"):
        execute(items("a"), [Remove([1])] * 10_000, "steps")


def test_errors_name_positions_and_numbers() -> None:
    """In words from which a model can correct itself."""
    with pytest.raises(PositionError) as caught:
        execute(nested(), [Remove([1, 4]), Remove([1]), Move([1], 2)], "weeks")
    assert str(caught.value) == (
        "edit 1: position [1, 4] of 'weeks' is out of range: the list has 3 items; "
        "edits 2 and 3: position 1 is removed and moved; "
        "nothing was changed, give all edits again"
    )


# Any tree, any batch: the same as a slower model that knows items by their names


NAMES = itertools.count()


def tree(depth: int) -> st.SearchStrategy[Tree]:
    """Draw a tree of named items, the same depth everywhere."""
    if depth == 0:
        return st.builds(lambda: [f"i{next(NAMES)}", None])
    inside = st.lists(tree(depth - 1), max_size=4)
    return st.builds(lambda found: [f"i{next(NAMES)}", found], inside)


def item_of(found: Tree) -> Item:
    """Return a tree as items."""
    name, inside = found
    return Item(name, None if inside is None else [item_of(each) for each in inside])


def places(found: Tree, path: tuple[int, ...] = ()) -> list[tuple[int, ...]]:
    """Return the paths of all items."""
    inside = enumerate(found[1] or (), start=1)
    return [place for n, each in inside for place in ((*path, n), *places(each, (*path, n)))]


@st.composite
def batches(draw: st.DrawFn) -> tuple[Tree, list[Edit]]:
    """Draw a tree, and edits most of which fit."""
    found = draw(tree(draw(st.integers(1, 3))))
    paths = places(found) or [(1,)]
    path = st.sampled_from(paths)
    position = st.integers(1, 6)
    edit = st.one_of(
        st.builds(Modify, path, st.builds(lambda: {f"f{next(NAMES)}": 1})),
        st.builds(Remove, path),
        st.builds(lambda p, n: Add([*p[:-1], n], f"i{next(NAMES)}"), path, position),
        st.builds(Move, path, position),
        st.builds(lambda p, q, n: Move(p, [*q[:-1], n]), path, path, position),
    )
    return found, draw(st.lists(edit, min_size=1, max_size=6))


def model(found: Tree, edits: list[Edit]) -> tuple[Tree, dict[str, Any], set[str]]:
    """Do edits item by item, by names, as they are described; without looking for conflicts."""
    changed: dict[str, Any] = {}
    leaving, coming = [], []
    for number, edit in enumerate(edits):
        if isinstance(edit, Add):
            to, item = edit.path, [edit.value, None]
        else:
            item = at(found, list(edit.path))
            to = None
        if isinstance(edit, Modify):
            changed.setdefault(item[0], {}).update(edit.value)
        elif isinstance(edit, Move):
            to = [*edit.path[:-1], edit.to] if isinstance(edit.to, int) else edit.to
        if isinstance(edit, Remove | Move):
            leaving.append(item[0])
        if to is not None:
            coming.append((at(found, to[:-1])[0], to[-1], number, item))
    gone = {at(found, list(edit.path))[0] for edit in edits if isinstance(edit, Remove)}
    return rebuilt(found, leaving, sorted(coming, key=lambda each: each[:3])), changed, gone


def at(found: Tree, path: Any) -> Tree:
    """Return what a path leads to."""
    for position in path:
        found = found[1][position - 1]
    return found


def rebuilt(here: Tree, leaving: list[str], coming: list[Any]) -> Tree:
    """Return a tree without what leaves, and with what comes, one after the other."""
    name, inside = here
    rest = [each for each in inside or () if each[0] not in leaving]
    last = 0
    for to, target, _, item in coming:
        if to == name:
            last = max(target, last + 1)
            rest.insert(last - 1, item)  # at the end, where that is nearer
    if inside is None and not rest:
        return [name, None]
    return [name, [rebuilt(each, leaving, coming) for each in rest]]


def target_of(edit: Edit) -> tuple[int, ...] | None:
    """Return where an item goes."""
    if isinstance(edit, Add):
        return tuple(edit.path)
    if isinstance(edit, Move):
        to = [*edit.path[:-1], edit.to] if isinstance(edit.to, int) else [*edit.to]
        return tuple(map(int, to))
    return None


def tried(root: Item, edits: list[Edit]) -> Outcome | PositionError:
    """Return what became of a tree, or why edits cannot be done."""
    try:
        return execute(root, edits, "tree")
    except PositionError as error:
        return error


@pytest.mark.slow
@settings(max_examples=examples(600), deadline=None)
@given(batches(), st.randoms(use_true_random=False))
def test_any_batch_does_what_a_slower_model_does(
    batch: tuple[Tree, list[Edit]], order: random.Random
) -> None:
    """In every order of its edits that leaves ties as they are; a conflict changes nothing."""
    found, edits = batch
    root = item_of(found)
    outcome = tried(root, edits)
    if isinstance(outcome, PositionError):
        assert plain(root) == found
        again = tried(root, order.sample(edits, len(edits)))
        assert isinstance(again, PositionError)
        assert len(again.conflicts) == len(outcome.conflicts)
        return
    expected, changed, gone = model(found, edits)
    assert plain(root) == expected
    assert {item.value: value for item, value in outcome.modified.items()} == changed
    assert {item.value for item in outcome.removed} == gone

    targets = [target for edit in edits if (target := target_of(edit)) is not None]
    assume(len(set(targets)) == len(targets))
    for _ in range(3):
        other = item_of(found)
        execute(other, order.sample(edits, len(edits)), "tree")
        assert plain(other) == expected
    for edit in edits:  # each ends exactly where it was to be, where nothing above it moved
        if isinstance(edit, Add) and len(edit.path) == 1:
            assert values(root)[edit.path[0] - 1] == edit.value
