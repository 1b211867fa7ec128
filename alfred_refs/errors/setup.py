"""Bad set-up: what the developer must change, for no other input would make it work."""

from __future__ import annotations

from .root import RefError


class SetupError(RefError):
    """The application is put together in a way that cannot work; the developer must change it."""

    def __init__(self, fact: str, remedy: str) -> None:
        self.fact = fact
        self.remedy = remedy
        super().__init__(fact, remedy)

    def _wording(self) -> str:
        return f"{self.fact}; {self.remedy}"


class ConversationIdError(SetupError):
    """The text cannot identify a conversation, or its owner."""


class ExportFormatError(SetupError):
    """What is to be imported is not an export, or is one of a newer version of the package."""


class RetentionError(SetupError):
    """Conversations cannot be unused for less than no time."""


class EntityNameError(SetupError):
    """An entity's name is missing, malformed or taken by another class or table."""


class KeyColumnError(SetupError):
    """The metadata does not say what a column's keys name, or they have an unsupported type."""


class LabelError(SetupError):
    """What a class or the policy says of labels names nothing, or something that may be a key."""


class KeyTypeError(SetupError):
    """A key was given in a type that the entity's keys do not have; its value is not repeated.

    Attributes:
        entity: whose key it was given as.
        needed: the name of the type that the entity's keys have.
        given: the name of the type it was given in.
    """

    def __init__(self, entity: str, needed: str, given: str) -> None:
        self.entity = entity
        self.needed = needed
        self.given = given
        super().__init__(
            f"a key of entity {entity!r} was given as {given}, and its keys are of type {needed}",
            "give the key as its column has it; the text of a UUID does for one",
        )
        self._data = (entity, needed, given)


class RefNotCarriedError(SetupError):
    """An unpickled instance has a key whose ref was not in the pickle.

    Attributes:
        attribute: the key attribute, as `Class.name`.
    """

    def __init__(self, attribute: str) -> None:
        self.attribute = attribute
        super().__init__(
            f"{attribute} of an unpickled instance has a key whose ref was not in the pickle",
            "add or merge the instance into a RefSession, which shows its ref",
        )
        self._data = (attribute,)


class UntranslatableError(SetupError):
    """A statement would show a key, or uses a ref, in a place that cannot be translated."""
