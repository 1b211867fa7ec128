"""How a model goes on after an error: by the error's code, message and data, and by nothing else.

In go the call that failed, what the tool said, and what the model has in mind: what it means in
words, what else its user told it, and the rows that it has seen. Out comes the next call, which
may take another one to find. One rule for each code; a code without a rule ends the attempt.
Nothing here knows the script: a real model does the same, with more wit.
"""

from __future__ import annotations

import copy
import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

Answer = dict[str, Any]


class Call(NamedTuple):
    """A call of a tool."""

    tool: str
    arguments: dict[str, Any]


class Next(NamedTuple):
    """The call to make after a failed one, and what was learnt from the error."""

    learnt: str
    call: Call


@dataclass(frozen=True)
class Mind:
    """What a model has in mind with a call.

    Attributes:
        ask: makes another call, with whatever recoveries that needs, and returns the answer.
        means: which row it is about, in words.
        knows: what else the user said, by column.
        seen: rows of earlier answers as text, by ref.
        questions: the call that a ref was first seen in the answer to.
    """

    ask: Callable[[Call], Answer]
    means: str = ""
    knows: Mapping[str, Any] = field(default_factory=dict)
    seen: Mapping[str, str] = field(default_factory=dict)
    questions: Mapping[str, Call] = field(default_factory=dict)

    def likeliest(self, texts: Mapping[str, str]) -> str:
        """Return the ref whose text has most of the words that are meant; of equals the first."""
        meant = _words(self.means)
        return max(texts, key=lambda ref: len(meant & _words(texts[ref])))


def next_call(call: Call, error: Mapping[str, Any], mind: Mind) -> Next | None:
    """Return how to go on after an error; `None` if there is no way."""
    rule = RULES.get(error["code"])
    return (
        None if rule is None else rule(Call(call.tool, copy.deepcopy(call.arguments)), error, mind)
    )


def _other_table(call: Call, error: Mapping[str, Any], _mind: Mind) -> Next:
    """Take the name that is most like it, of those that there are."""
    table = _nearest(error["table"], error["tables"])
    return Next(f"{error['table']} is {table}", _with(call, table=table))


def _other_column(call: Call, error: Mapping[str, Any], _mind: Mind) -> Next:
    """Take the name that is most like it, wherever the call has it."""
    column = _nearest(error["column"], error["columns"])
    arguments = _replaced(call.arguments, error["column"], column)
    return Next(f"{error['column']} is {column}", Call(call.tool, arguments))


def _whole_clause(call: Call, error: Mapping[str, Any], _mind: Mind) -> Next | None:
    """Give the operator that a filter lacks, where the error says: at `filters.0.op`."""
    *path, name = error["field"].split(".")
    if name != "op":
        return None
    clause: Any = call.arguments
    for step in path:
        clause = clause[int(step) if step.isdecimal() else step]
    clause["op"] = "="
    return Next(f"{error['field']} is needed, and = is meant", call)


def _some_filter(call: Call, _error: Mapping[str, Any], mind: Mind) -> Next:
    """Say which row, by the ref of the one that is meant, of those of the table."""
    table = call.arguments["table"]
    asked = {ref: by.arguments["table"] for ref, by in mind.questions.items()}
    ref = mind.likeliest({ref: text for ref, text in mind.seen.items() if asked[ref] == table})
    clause = {"field": "id", "op": "=", "value": ref}
    return Next(f"a filter is needed: {mind.means} is {ref}", _with(call, filters=[clause]))


def _missing_value(call: Call, error: Mapping[str, Any], mind: Mind) -> Next | None:
    """Give what the user said, to each row that lacks it."""
    data = call.arguments["data"]
    given = {name: mind.knows[name] for name in error["columns"] if name in mind.knows}
    if not given:
        return None
    rows = [{**given, **row} for row in (data if isinstance(data, list) else [data])]
    learnt = ", ".join(f"{name} is needed: {value}" for name, value in given.items())
    return Next(learnt, _with(call, data=rows))


def _other_ref(call: Call, error: Mapping[str, Any], mind: Mind) -> Next | None:
    """Take the ref that is near, or else the known one whose label is meant."""
    ref = error.get("near")
    if ref is None and error["known"]:
        labels = error.get("labels", {})
        ref = mind.likeliest({known: labels.get(known, "") for known in error["known"]})
    if ref is None:
        return None
    arguments = _replaced(call.arguments, error["ref"], ref)
    return Next(f"not {error['ref']} but {ref}", Call(call.tool, arguments))


def _read_again(call: Call, error: Mapping[str, Any], mind: Mind) -> Next:
    """Look what the row has by now, and expect that."""
    clause = {"field": "id", "op": "=", "value": error["ref"]}
    question = Call("db_read", {"table": call.arguments["table"], "filters": [clause]})
    [row] = mind.ask(question)["rows"]
    now = {error["column"]: row[error["column"]]}
    learnt = f"{error['ref']} was changed by somebody: {error['column']} is {error['actual']}"
    return Next(learnt, _with(call, expect=now))


def _own_row(call: Call, error: Mapping[str, Any], mind: Mind) -> Next:
    """Create what the error says, and do with the new row what could not be done."""
    data = error["create"]
    created = mind.ask(Call("db_create", {"table": call.arguments["table"], "data": data}))
    [row] = created["rows"]
    arguments = _replaced(call.arguments, error["ref"], row["id"])
    return Next(
        f"{error['ref']} is not ours to change, {row['id']} is", Call(call.tool, arguments)
    )


def _ask_again(call: Call, error: Mapping[str, Any], mind: Mind) -> Next | None:
    """Ask once more what the row was an answer to, and take what is meant of what there is now."""
    question = mind.questions.get(error.get("ref") or "")
    rows = [] if question is None else mind.ask(question)["rows"]
    if not rows:
        return None
    ref = mind.likeliest({row["id"]: str(row) for row in rows})
    arguments = _replaced(call.arguments, error["ref"], ref)
    return Next(f"{error['ref']} is not for us, {ref} is", Call(call.tool, arguments))


Rule = Callable[[Call, Mapping[str, Any], Mind], Next | None]

# the code of an error → how to go on
RULES: Final[Mapping[str, Rule]] = {
    "foreign_row": _ask_again,
    "invalid_arguments": _whole_clause,
    "missing_filter": _some_filter,
    "missing_value": _missing_value,
    "shared_recipe": _own_row,
    "unexpected_row": _read_again,
    "unknown_column": _other_column,
    "unknown_ref": _other_ref,
    "unknown_table": _other_table,
    "wrong_entity": _other_ref,
}


def _with(call: Call, **changes: Any) -> Call:
    return Call(call.tool, call.arguments | changes)


def _nearest(name: str, names: Iterable[str]) -> str:
    return max(names, key=lambda each: difflib.SequenceMatcher(None, name, each).ratio())


def _replaced(value: Any, old: str, new: str) -> Any:
    """Return a JSON value with one text in place of another, as a name or as a value."""
    if isinstance(value, dict):
        return {new if k == old else k: _replaced(each, old, new) for k, each in value.items()}
    if isinstance(value, list):
        return [_replaced(each, old, new) for each in value]
    return new if value == old else value


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.casefold()))
