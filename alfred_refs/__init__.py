"""Short, typed refs such as `recipe_1` in place of database keys, for language models.

`RefSession` replaces SQLAlchemy's `Session`, and `AsyncRefSession` its `AsyncSession`. Inside the
database every key stays what it is; the program and the model see refs:

    registry = RefRegistry(engine)
    sessions = sessionmaker(engine, class_=RefSession)

    with sessions(conversation=registry.conversation("chat-7")) as session:
        recipe = session.scalars(select(Recipe)).first()
        recipe.id                              # 'recipe_1'
        session.get(Recipe, "recipe_1")        # the same instance

The path of a statement:

    refs in ──criteria──▶ keys ──SQLAlchemy, untouched──▶ keys ──rows, instances──▶ refs out
                 │                                                    │
                 └──────────── Conversation ── Store ─────────────────┘

- A conversation is the scope in which a ref is valid. It outlives sessions, processes and
  machines; a session is one unit of work in it.
- The registry keeps the map between refs and keys in tables of its own in PostgreSQL.
- Tools for a model are in `alfred_refs.tools`, prompts in `alfred_refs.context`, adapters for
  agent frameworks in `alfred_refs.integrations`.

`session/translation.py` shows the path on one page; `docs/internals.md` shows which package does
what. Public names are imported at first use, so that a program loads only what it uses:
`alfred-refs --help` does not even load SQLAlchemy.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .conversation.conversation import (
        AsyncConversation as AsyncConversation,
        Conversation as Conversation,
    )
    from .conversation.drafts import Draft as Draft
    from .conversation.refs import RefEntry as RefEntry
    from .conversation.registry import AsyncRegistry as AsyncRegistry, RefRegistry as RefRegistry
    from .errors import (
        BadRefError as BadRefError,
        CircularDraftsError as CircularDraftsError,
        ContextError as ContextError,
        ConversationExistsError as ConversationExistsError,
        ConversationIdError as ConversationIdError,
        DiscardedDraftError as DiscardedDraftError,
        DraftContentError as DraftContentError,
        DraftKeyError as DraftKeyError,
        DraftRefError as DraftRefError,
        DraftTwiceError as DraftTwiceError,
        DriftError as DriftError,
        EntityNameError as EntityNameError,
        EntityTableError as EntityTableError,
        ExportFormatError as ExportFormatError,
        ForeignRowError as ForeignRowError,
        GoneRefError as GoneRefError,
        KeyColumnError as KeyColumnError,
        KeyShownError as KeyShownError,
        KeyTypeError as KeyTypeError,
        LabelError as LabelError,
        ListError as ListError,
        MentionError as MentionError,
        OwnershipError as OwnershipError,
        PositionError as PositionError,
        RawKeyError as RawKeyError,
        RefError as RefError,
        RefNotCarriedError as RefNotCarriedError,
        RegistryBusyError as RegistryBusyError,
        RegistryFailedError as RegistryFailedError,
        RegistryMigrationError as RegistryMigrationError,
        RegistryTablesError as RegistryTablesError,
        RegistryUnreachableError as RegistryUnreachableError,
        RetentionError as RetentionError,
        SavedDraftError as SavedDraftError,
        SetupError as SetupError,
        StaleDraftError as StaleDraftError,
        TemplateError as TemplateError,
        UnconfinedError as UnconfinedError,
        UnknownConversationError as UnknownConversationError,
        UnknownDraftError as UnknownDraftError,
        UnknownRefError as UnknownRefError,
        UntranslatableError as UntranslatableError,
        WrongEntityError as WrongEntityError,
    )
    from .mapping.keys import RefPolicy as RefPolicy
    from .owners import Owner as Owner, Ownership as Ownership
    from .session.asyncio import AsyncRefSession as AsyncRefSession
    from .session.attributes import RefModel as RefModel
    from .session.session import RefSession as RefSession
    from .store import (
        ConversationInfo as ConversationInfo,
        RegistryStats as RegistryStats,
        Store as Store,
    )
    from .store.postgres import PostgresStore as PostgresStore

__all__ = [
    "AsyncConversation",
    "AsyncRefSession",
    "AsyncRegistry",
    "BadRefError",
    "CircularDraftsError",
    "ContextError",
    "Conversation",
    "ConversationExistsError",
    "ConversationIdError",
    "ConversationInfo",
    "DiscardedDraftError",
    "Draft",
    "DraftContentError",
    "DraftKeyError",
    "DraftRefError",
    "DraftTwiceError",
    "DriftError",
    "EntityNameError",
    "EntityTableError",
    "ExportFormatError",
    "ForeignRowError",
    "GoneRefError",
    "KeyColumnError",
    "KeyShownError",
    "KeyTypeError",
    "LabelError",
    "ListError",
    "MentionError",
    "Owner",
    "Ownership",
    "OwnershipError",
    "PositionError",
    "PostgresStore",
    "RawKeyError",
    "RefEntry",
    "RefError",
    "RefModel",
    "RefNotCarriedError",
    "RefPolicy",
    "RefRegistry",
    "RefSession",
    "RegistryBusyError",
    "RegistryFailedError",
    "RegistryMigrationError",
    "RegistryStats",
    "RegistryTablesError",
    "RegistryUnreachableError",
    "RetentionError",
    "SavedDraftError",
    "SetupError",
    "StaleDraftError",
    "Store",
    "TemplateError",
    "UnconfinedError",
    "UnknownConversationError",
    "UnknownDraftError",
    "UnknownRefError",
    "UntranslatableError",
    "WrongEntityError",
]

# public name -> its module; the names that are missing here are in `errors`
_MODULES = {
    "AsyncConversation": "conversation.conversation",
    "AsyncRefSession": "session.asyncio",
    "AsyncRegistry": "conversation.registry",
    "Conversation": "conversation.conversation",
    "ConversationInfo": "store",
    "Draft": "conversation.drafts",
    "Owner": "owners",
    "Ownership": "owners",
    "PostgresStore": "store.postgres",
    "RefEntry": "conversation.refs",
    "RefModel": "session.attributes",
    "RefPolicy": "mapping.keys",
    "RefRegistry": "conversation.registry",
    "RefSession": "session.session",
    "RegistryStats": "store",
    "Store": "store",
}

if not TYPE_CHECKING:  # with `__getattr__` a type checker would accept any name

    def __getattr__(name: str) -> Any:
        """Import a public name at its first use, and store it here for later uses."""
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        module = import_module(f".{_MODULES.get(name, 'errors')}", __name__)
        return globals().setdefault(name, getattr(module, name))


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
