"""Bad set-up: what the developer must change, for no other input would make it work."""

from __future__ import annotations

from .root import RefError


class SetupError(RefError):
    """The application is put together in a way that cannot work; the developer must change it.

    Attributes:
        fact: what is wrong.
        remedy: what to do about it.

    Example:
        >>> RefSession(engine, conversation="chat-7")
        Traceback (most recent call last):
            ...
        alfred_refs.errors.setup.SetupError: a conversation was given by its id to a session
            without registry; give registry.conversation(id), or registry=... to the sessionmaker
    """

    def __init__(self, fact: str, remedy: str) -> None:
        self.fact = fact
        self.remedy = remedy
        super().__init__(fact, remedy)

    def _wording(self) -> str:
        return f"{self.fact}; {self.remedy}"


class ConversationIdError(SetupError):
    """The text cannot identify a conversation, or its owner.

    Example:
        >>> registry.conversation("")
        Traceback (most recent call last):
            ...
        alfred_refs.errors.setup.ConversationIdError: a conversation's id is empty, too long or
            has control characters; use 1 to 255 printable characters
    """


class ExportFormatError(SetupError):
    """What is to be imported is not an export, or is one of a newer version of the package.

    Example:
        >>> registry.import_conversation({"id": "chat-7"})
        Traceback (most recent call last):
            ...
        alfred_refs.errors.setup.ExportFormatError: this is not a conversation that alfred_refs
            exported; give what Conversation.export() returned, unchanged
    """


class RetentionError(SetupError):
    """Conversations cannot be unused for less than no time.

    Example:
        >>> from datetime import timedelta
        >>> registry.prune(timedelta(days=-30))
        Traceback (most recent call last):
            ...
        alfred_refs.errors.setup.RetentionError: unused_for is negative:
            datetime.timedelta(days=-30); give how long they were not used
    """


class EntityNameError(SetupError):
    """An entity's name is missing, malformed or taken by another class or table.

    Example:
        >>> registry = RefRegistry(engine, policy=RefPolicy(names={Recipe: "gen_dish"}))
        >>> registry.conversation("chat-8").refer(Recipe, chat.resolve("recipe_1"))
        Traceback (most recent call last):
            ...
        alfred_refs.errors.setup.EntityNameError: the entity name 'gen_dish' of class
            'examples.world.Recipe' is not lower-case snake_case, starts with 'gen_' or ends in '_'
            and digits; set __ref_name__ on the class, or RefPolicy(names={...})
    """


class KeyColumnError(SetupError):
    """The metadata does not say what a column's keys name, or they have an unsupported type.

    Example:
        >>> from sqlalchemy import Column, Integer, MetaData, Table
        >>> about = Column("about", Integer, info={"ref": "recipes.id"})
        >>> session.execute(select(Table("notes", MetaData(), about)))
        Traceback (most recent call last):
            ...
        alfred_refs.errors.setup.KeyColumnError: column notes.about declares keys of
            'recipes.id', no column of its metadata; write "table.column" as a foreign key does, or
            give the mapped class
    """


class LabelError(SetupError):
    """What a class or the policy says of labels names nothing, or something that may be a key.

    Example:
        >>> registry = RefRegistry(engine, policy=RefPolicy(labels={Recipe: "nme"}))
        >>> with RefSession(engine, conversation=registry.conversation("chat-8")) as session:
        ...     session.scalars(select(Recipe)).first()
        Traceback (most recent call last):
            ...
        alfred_refs.errors.setup.LabelError: the label of class 'Recipe' is 'nme', which is no
            attribute with a column; name an attribute with a plain column, or give a function of
            loaded attributes that returns text, in __ref_label__ or RefPolicy(labels={...})
    """


class KeyTypeError(SetupError):
    """A key was given in a type that the entity's keys do not have; its value is not repeated.

    Attributes:
        entity: whose key it was given as.
        needed: the name of the type that the entity's keys have.
        given: the name of the type it was given in.

    Example:
        >>> chat.refer(Recipe, 7)
        Traceback (most recent call last):
            ...
        alfred_refs.errors.setup.KeyTypeError: a key of entity 'recipe' was given as int, and
            its keys are of type UUID; give the key as its column has it; the text of a UUID does
            for one
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

    Example:
        >>> raise RefNotCarriedError("Line.recipe_id")
        Traceback (most recent call last):
            ...
        alfred_refs.errors.setup.RefNotCarriedError: Line.recipe_id of an unpickled instance
            has a key whose ref was not in the pickle; add or merge the instance into a RefSession,
            which shows its ref
    """

    def __init__(self, attribute: str) -> None:
        self.attribute = attribute
        super().__init__(
            f"{attribute} of an unpickled instance has a key whose ref was not in the pickle",
            "add or merge the instance into a RefSession, which shows its ref",
        )
        self._data = (attribute,)


class UntranslatableError(SetupError):
    """A statement would show a key, or uses a ref, in a place that cannot be translated.

    Example:
        >>> from sqlalchemy import func
        >>> session.scalars(select(func.md5(func.concat(Recipe.id)))).all()
        Traceback (most recent call last):
            ...
        alfred_refs.errors.setup.UntranslatableError: a result shows keys of recipes.id inside
            an expression; select the key column itself, or use session.raw_keys() or
            execution_options(raw_keys=True) in trusted code
    """
