"""Bad refs: mistakes that the model can correct from the message alone."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from copy import copy
from typing import Self

from .root import RefError

Known = Sequence[str] | Mapping[str, str | None]
"""Refs that could be used, in natural order, and the labels of their rows where there are any."""

_QUOTES = str.maketrans({sign: f"\\{sign}" for sign in "\\'\""})


class BadRefError(RefError):
    """A ref that cannot be used; nothing was executed, and the message says how to go on.

    Attributes:
        ref: the offending text as it was given; `None` where it may be a key.
        expected: the entity that was needed, if one was.
        known: refs of that entity that could be used, in natural order.
        near: the one that was probably meant, if one stands out.
        labels: what people call the rows of known refs, as far as that is known: text of the
            application's users, to be shown and never to be obeyed.
    """

    def __init__(
        self,
        ref: str | None,
        expected: str | None = None,
        known: Known = (),
        near: str | None = None,
    ) -> None:
        labels = dict(known) if isinstance(known, Mapping) else dict.fromkeys(known)
        self.ref = ref
        self.expected = expected
        self.known = tuple(labels)
        self.near = near
        self.labels = {ref: label for ref, label in labels.items() if label is not None}
        super().__init__(ref, expected, labels, near)

    @property
    def entity(self) -> str | None:
        """The entity the error is about, the expected one unless a subclass knows better."""
        return self.expected

    def offering(self, refs: Container[str]) -> Self:
        """Return the same error, which offers none but these refs."""
        fewer = copy(self)
        fewer.known = tuple(ref for ref in self.known if ref in refs)
        fewer.labels = {ref: label for ref, label in self.labels.items() if ref in refs}
        fewer.near = self.near if self.near in refs else None
        fewer.args = (fewer._wording(),)  # noqa: SLF001  # of the same class
        return fewer

    def _remedy(self) -> str:
        if self.near is not None:
            return f"did you mean {self._named(self.near)}? {self._known()}"
        return self._known()

    def _known(self) -> str:
        if not self.known:
            return "none is known in this conversation; read some first"
        return "known: " + ", ".join(map(self._named, self.known))

    def _named(self, ref: str) -> str:
        label = self.labels.get(ref)
        return repr(ref) if label is None else f'{ref!r} ("{_inert(label)}")'


def _inert(label: str) -> str:
    """Return a label that can end neither its quotes nor a line, nor pass for a ref in quotes."""
    line = label.translate(_QUOTES)
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in line)


class UnknownRefError(BadRefError):
    """The text names nothing in this conversation."""

    def _wording(self) -> str:
        return f"{self.ref!r} is not a known {self.expected or 'ref'}; {self._remedy()}"


class WrongEntityError(BadRefError):
    """The ref is known, and names another kind of row than the one needed.

    Attributes:
        actual: the entity that the ref names.
    """

    def __init__(
        self, ref: str, expected: str | None, known: Known, near: str | None, actual: str
    ) -> None:
        self.actual = actual
        super().__init__(ref, expected, known, near)
        self._data = (*self._data, actual)

    @property
    def entity(self) -> str:
        """The entity that the ref names."""
        return self.actual

    def _wording(self) -> str:
        return (
            f"{self.ref!r} names entity {self.actual!r} where {self.expected!r} is needed; "
            f"{self._remedy()}"
        )


class DraftRefError(BadRefError):
    """The ref is a draft's where a saved row is needed.

    Subclasses are about drafts that cannot be used as drafts either.
    """

    def _wording(self) -> str:
        return (
            f"{self.ref!r} is a draft's ref where a saved {self.expected or 'row'} is needed; "
            f"save the draft and use the ref it gets, or choose another; {self._remedy()}"
        )


class GoneRefError(BadRefError):
    """The ref is known and its row is not there: it was deleted, or it was never saved.

    Attributes:
        reason: `"was deleted"` or `"was never saved"`.
    """

    def __init__(
        self, ref: str, expected: str | None, known: Known, near: str | None, reason: str
    ) -> None:
        self.reason = reason
        super().__init__(ref, expected, known, near)
        self._data = (*self._data, reason)

    def _wording(self) -> str:
        return f"{self.ref!r} {self.reason} and cannot be used; {self._remedy()}"


class RawKeyError(BadRefError):
    """A raw key was given as text where only a ref is accepted; the text is not repeated."""

    def _wording(self) -> str:
        return (
            "a raw key was given as text where a ref is needed; "
            f"give a ref, or use session.raw_keys() in trusted code; {self._remedy()}"
        )
