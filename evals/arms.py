"""The arms: how ids are spelt for a model, and what the tools show and ask for beside them.

>>> arm("refs+labels+asked")
Arm(name='refs+labels+asked', spelling='refs', labels='inline', vouches=False, expect='required')

An arm is a spelling (`keys`, `integers`, `refs`, `checked`) with options. All arms have the same
tools and texts.

| option | what |
| --- | --- |
| `labels` | labels stand beside ids |
| `expect` | the model says, of its own accord, what the rows are that it writes to |
| `required` | the tools ask for that, and say so in their descriptions: the model does it |
| `asked` | the tools ask for that, and the model does it once it was refused |
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

from alfred_refs.tools import Limits, Toolset
from alfred_refs.tools.call import ExpectMode
from alfred_refs.tools.labels import LabelMode
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
        expect: whether the tools ask for it.
    """

    name: str
    spelling: str
    labels: LabelMode
    vouches: bool
    expect: ExpectMode

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
            expect=self.expect,
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
        expect="required" if {"asked", "required"} & {*options} else "optional",
    )
