"""The arms: how ids are spelt for a model, and what the tools show and ask for beside them.

>>> arm("refs+labels+expect")
Arm(name='refs+labels+expect', spelling='refs', labels='inline', expect='optional', vouches=True)

An arm is a spelling (`keys`, `integers`, `refs`, `checked`) with options: `labels` beside ids,
`expect` given by the model of its own accord, or asked for by the tools (`asked`, `required`). All
arms have one toolset and the same texts; nothing else differs.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

from alfred_refs.tools import Limits, Toolset
from alfred_refs.tools.answers.label_lookup import Mode
from evals.kitchen import MODELS, OWNERSHIP, POLICY
from evals.spelling import SPELLINGS
from examples.kitchen.models import Ingredient, Recipe

DEFAULT: Final = ("keys", "integers", "refs", "refs+labels", "refs+labels+expect")


@dataclass(frozen=True)
class Arm:
    """How ids are shown, and what is asked for with them.

    Attributes:
        name: by which it is asked for.
        spelling: of ids.
        labels: where labels stand.
        vouches: whether the model says of its own accord what the rows are that it writes to.
        asks: whether the tools ask for it: `Toolset(expect=...)`.
    """

    name: str
    spelling: str
    labels: Mode
    vouches: bool
    asks: str

    @cached_property
    def toolset(self) -> Toolset:
        """The kitchen's tools."""
        return Toolset(
            MODELS,
            owner=OWNERSHIP,
            policy=POLICY,
            read_only=[Ingredient],
            hidden=[Recipe.embedding, Recipe.description, Recipe.instructions, Recipe.cuisine],
            labels=self.labels,
            # of none of the tasks: it would cost a round trip a call
            limits=Limits(seconds=None),
        )


def arm(name: str) -> Arm:
    """Return the arm of a name.

    Raises:
        ValueError: it has a part that is none.
    """
    spelling, *options = name.split("+")
    unknown = {*options} - {"labels", "expect", "asked", "required"}
    if spelling not in SPELLINGS or unknown:
        parts = f"one of {', '.join(SPELLINGS)}, then any of +labels, +expect, +asked, +required"
        raise ValueError(f"there is no arm {name!r}: it is {parts}")
    return Arm(
        name,
        spelling,
        labels="inline" if "labels" in options else "none",
        vouches=bool({"expect", "required"} & {*options}),
        asks=next((each for each in ("asked", "required") if each in options), "optional"),
    )
