"""Every error of the package: each carries its data and words its own message.

Two families hang under one root. A *bad ref* is a mistake the model can correct from the message
alone; a *bad set-up* is one the developer must correct. A message states the fact, then the
remedy, and never shows a key.

```python
try:
    session.get(Recipe, "recipe_9")
except BadRefError as error:
    answer = {"error": str(error)}  # 'recipe_9' is not a known recipe; known: 'recipe_1'
```

`root` has the class that all inherit from, `bad_refs` and `drafts` what a model is told, `setup`,
`owners`, `registry` and `context` what a developer or an operator is. Which of them a bad ref
raises is chosen in `conversation.ref_errors`.
"""

from .bad_refs import (
    BadRefError as BadRefError,
    DraftRefError as DraftRefError,
    GoneRefError as GoneRefError,
    Known as Known,
    RawKeyError as RawKeyError,
    UnknownRefError as UnknownRefError,
    WrongEntityError as WrongEntityError,
)
from .context import (
    ContextError as ContextError,
    KeyShownError as KeyShownError,
    MentionError as MentionError,
    TemplateError as TemplateError,
)
from .drafts import (
    CircularDraftsError as CircularDraftsError,
    DiscardedDraftError as DiscardedDraftError,
    DraftContentError as DraftContentError,
    DraftKeyError as DraftKeyError,
    DraftTwiceError as DraftTwiceError,
    SavedDraftError as SavedDraftError,
    StaleDraftError as StaleDraftError,
    UnknownDraftError as UnknownDraftError,
)
from .owners import (
    ForeignRowError as ForeignRowError,
    OwnershipError as OwnershipError,
    UnconfinedError as UnconfinedError,
)
from .positions import (
    DriftError as DriftError,
    ListError as ListError,
    PositionError as PositionError,
)
from .registry import (
    ConversationExistsError as ConversationExistsError,
    EntityTableError as EntityTableError,
    RegistryBusyError as RegistryBusyError,
    RegistryFailedError as RegistryFailedError,
    RegistryMigrationError as RegistryMigrationError,
    RegistryTablesError as RegistryTablesError,
    RegistryUnreachableError as RegistryUnreachableError,
    UnknownConversationError as UnknownConversationError,
)
from .root import RefError as RefError
from .setup import (
    ConversationIdError as ConversationIdError,
    EntityNameError as EntityNameError,
    ExportFormatError as ExportFormatError,
    KeyColumnError as KeyColumnError,
    KeyTypeError as KeyTypeError,
    LabelError as LabelError,
    RefNotCarriedError as RefNotCarriedError,
    RetentionError as RetentionError,
    SetupError as SetupError,
    UntranslatableError as UntranslatableError,
)
