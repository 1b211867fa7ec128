"""What a prompt cannot be made of: the developer, or a user interface, must change it."""

from __future__ import annotations

from .setup import SetupError


class ContextError(SetupError):
    """A window, an audience, a step or a budget that no prompt can be made with.

    Example:
        >>> from alfred_refs.context import Window
        >>> Window(active=0)
        Traceback (most recent call last):
            ...
        alfred_refs.errors.context.ContextError: a window of 0 active turns; give 1 to 10: what
            models saw is kept for so many
    """


class TemplateError(ContextError):
    """A template of a prompt is missing, broken, or names what it is not given.

    Attributes:
        name: of the template.

    Example:
        >>> raise TemplateError("base", "is broken: unexpected '}'", "correct it")
        Traceback (most recent call last):
            ...
        alfred_refs.errors.context.TemplateError: the template 'base' is broken: unexpected
            '}'; correct it
    """

    def __init__(self, name: str, fact: str, remedy: str) -> None:
        self.name = name
        super().__init__(f"the template {name!r} {fact}", remedy)
        self._data = (name, fact, remedy)


class KeyShownError(ContextError):
    """A value that is about to reach a model has a key in it; the key is not repeated.

    Attributes:
        place: where in the value it is.
        kind: how it is spelt: `whole`, `split` or `cut`.
        masked: its first letters.

    Example:
        >>> chat.scrub("see a508000d-9b55-40f0-8886-dbdd88bd2de2", unknown="refuse")
        Traceback (most recent call last):
            ...
        alfred_refs.errors.context.KeyShownError: the text shows a key, 'a508…' (whole); show
            its ref, or let scrub() mask what has none
    """

    def __init__(self, place: str, kind: str, masked: str) -> None:
        self.place = place
        self.kind = kind
        self.masked = masked
        super().__init__(
            f"{place} shows a key, {masked!r} ({kind})",
            "show its ref, or let scrub() mask what has none",
        )
        self._data = (place, kind, masked)


class MentionError(ContextError):
    """A mention in a user's text names no row that may be mentioned; its key is not repeated.

    Attributes:
        label: what the mention calls the row.
        entity: what it says the row is.

    Example:
        >>> from alfred_refs.context import Context
        >>> Context(chat).heard(session, "@[Curry](recipe:a508000d-9b55-40f0-8886-dbdd88bd2de2)")
        Traceback (most recent call last):
            ...
        alfred_refs.errors.context.MentionError: the mention 'Curry' of entity 'recipe' names
            no row that can be seen; mention a row that its user can see, as @[label](entity:key)
    """

    def __init__(self, label: str, entity: str, fact: str) -> None:
        self.label = label
        self.entity = entity
        super().__init__(
            f"the mention {label!r} of entity {entity!r} {fact}",
            "mention a row that its user can see, as @[label](entity:key)",
        )
        self._data = (label, entity, fact)
