"""What edits of one batch cannot do together, or to the items that they name: all of it at once.

Resolved edits come in; conflicts go out, each with the numbers of its edits. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations

from alfred_refs.errors.positions import Conflict

from .documents import replaces
from .edits import Add, Edit, Modify, Move, Remove
from .resolving import Item, Resolved, Rules, UnfitError, told


def conflicts_of(resolved: Sequence[Resolved], name: str, rules: Rules) -> list[Conflict]:
    """Return what is wrong with edits; those that give a value have it from `rules` then.

    Args:
        resolved: the edits of a batch.
        name: of the list.
        rules: what is known of its items.
    """
    return [
        *_unexpected(resolved, rules),
        *_unfit(resolved, rules),
        *_contradictions(resolved),
        *_misplaced(resolved, name),
    ]


def _unexpected(resolved: Iterable[Resolved], rules: Rules) -> Iterable[Conflict]:
    """Yield where there is something else than the model believes."""
    for each in resolved:
        expect = None if isinstance(each.edit, Add) else each.edit.expect
        if expect is not None and each.item is not None:
            instead = rules.unexpected(each.item, len(each.path) - 1, expect)
            if instead is not None:
                fact = f"{told(each.path)} is not what is expected, but {instead}"
                yield Conflict("unexpected_item", (each.number,), fact)


def _unfit(resolved: Iterable[Resolved], rules: Rules) -> Iterable[Conflict]:
    """Yield which values cannot be given to items."""
    for each in resolved:
        if isinstance(each.edit, Modify | Add):
            try:
                each.value = rules.fitted(each.edit, len(each.path) - 1)
            except UnfitError as unfit:
                yield Conflict("invalid_edit", (each.number,), f"{told(each.path)} {unfit}")


def _contradictions(resolved: Sequence[Resolved]) -> Iterable[Conflict]:
    """Yield which edits cannot be done together: of one item, or of what goes with another."""
    by_item: dict[Item, list[Resolved]] = {}
    for each in resolved:
        if each.item is not None:
            by_item.setdefault(each.item, []).append(each)
    for a, b in (pair for of_one in by_item.values() for pair in combinations(of_one, 2)):
        fact = _contradiction(a.edit, b.edit)
        if fact is not None:
            yield Conflict("edited_twice", (a.number, b.number), f"{told(a.path)} is {fact}")
    gone = {each.item: (each, how) for each in resolved if (how := _how_gone(each)) is not None}
    for each in resolved:
        for above in dict.fromkeys(each.above):
            if above in gone:
                other, how = gone[above]
                fact = f"{told(each.path)} is inside of {told(other.path)}, which is {how}"
                yield Conflict("under_removed", (other.number, each.number), fact)


def _how_gone(resolved: Resolved) -> str | None:
    """Return what becomes of all that is inside of an item; `None` if it stays."""
    match resolved.edit:
        case Remove():
            return "removed"
        case Modify(_, value) if resolved.item is not None and replaces(resolved.item, value):
            return "replaced"
    return None


def _contradiction(first: Edit, second: Edit) -> str | None:
    """Return how two edits of one item contradict each other."""
    kinds = {type(first), type(second)}
    if kinds == {Remove}:
        return "removed twice"
    if Remove in kinds:
        return "removed and moved" if Move in kinds else "removed and modified"
    if kinds == {Move}:
        return "moved twice"
    if isinstance(first, Modify) and isinstance(second, Modify):
        if not (isinstance(first.value, Mapping) and isinstance(second.value, Mapping)):
            return "modified twice"
        both = first.value.keys() & second.value.keys()
        return f"modified twice, in {', '.join(map(repr, sorted(both)))}" if both else None
    return None


def _misplaced(resolved: Sequence[Resolved], name: str) -> Iterable[Conflict]:
    """Yield what goes behind the end of its list, as that will be."""
    length: dict[Item, int] = {}
    for each in resolved:
        for parent, more in ((each.parent, -1), (each.goes_to, 1)):
            leaves = isinstance(each.edit, Remove | Move) and more < 0
            if parent is not None and (leaves or more > 0):
                length[parent] = length.get(parent, len(parent.items or ())) + more
    for each in resolved:
        if each.goes_to is not None and each.target > length[each.goes_to]:
            fact = (
                f"position {each.target} of {name!r} is out of range: "
                f"the list will have {length[each.goes_to]}"
            )
            yield Conflict("out_of_range", (each.number,), fact)
