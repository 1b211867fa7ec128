"""What SQLAlchemy renders as it is given: texts, names that must not be quoted, types.

Each is looked at here, so that nothing in it begins another SELECT, ends the statement, or hides
what follows. Names and types pass through a preparer and a compiler of types that go before those
of a dialect.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

# names, numbers and operators
_HARMLESS = re.compile(r"(?:[\w\s.,:*+/<>=~!@#%^&|?-]|'[\w\s.,:*+/<>=~!@#%^&|?-]*')*")
_HARMFUL = re.compile(
    r"--|/\*|\b(select|table|from|union|intersect|except|join|into|values|returning|with|where"
    r"|using|set)\b",
    re.IGNORECASE,
)
# with a point it might be a function's that is known without; the other form is what SQLAlchemy
# puts in the place of a schema that is to be translated, and quotes then
_NAME = re.compile(r"[\w$]*|__\[SCHEMA_[^\[\]]*\]")
# as VARCHAR(5)[], INTERVAL DAY TO SECOND (3), "my type", geometry(POINT,4326)
_TYPE = re.compile(r"""(?:[\w\s.\[\]]|"(?:[^"]|"")*"|\([\w\s,.'-]*\))*""")
_NO_TYPE = re.compile(r"\b(from|where|union|intersect|except)\b", re.IGNORECASE)

Refuse = Callable[[str], Exception]


def is_harmless(text: str) -> bool:
    """Tell whether a text names no table, and ends nothing."""
    return bool(_HARMLESS.fullmatch(text)) and not _HARMFUL.search(text)


class CheckedNames:
    """Goes before a dialect's own identifier preparer.

    Leans on `quote()`, by which every name goes: one that says `quote=False` is left as it is.
    """

    refuse: Refuse

    def quote(self, ident: str, *rest: Any, **options: Any) -> Any:
        """Return a name as it is rendered."""
        if getattr(ident, "quote", None) is False and not _NAME.fullmatch(ident):
            raise type(self).refuse("a name that must not be quoted, with more than a name in it,")
        return super().quote(ident, *rest, **options)  # type: ignore[misc]


class CheckedTypes:
    """Goes before a dialect's own compiler of types.

    Leans on `process()`, by which every type goes: lengths and fields are left as they are.
    """

    refuse: Refuse

    def process(self, type_: Any, **options: Any) -> Any:
        """Return a type as it is rendered."""
        text = super().process(type_, **options)  # type: ignore[misc]
        if not _TYPE.fullmatch(text) or _NO_TYPE.search(re.sub('"[^"]*"', "", text)):
            raise type(self).refuse(f"a {type(type_).__name__} with more than a type in it")
        return text


def checked(kind: type[Any], original: Any, refuse: Refuse) -> Any:
    """Return an object that is the same in all but what goes before its class.

    Args:
        kind: `CheckedNames` or `CheckedTypes`.
        original: the object, with which it has one state.
        refuse: makes the error.
    """
    own = type(original)
    made: Any = object.__new__(type(own.__name__, (kind, own), {"refuse": staticmethod(refuse)}))
    made.__dict__ = vars(original)
    return made
