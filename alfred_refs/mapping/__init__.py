"""Keys in the application's tables and classes.

| module | contents |
| --- | --- |
| `keys` | refs and keys as values: grammar, encoding, `RefPolicy` |
| `text` | keys in text: search, redaction, marks |
| `key_columns` | which column holds keys of which entity; entity names; foreign keys |
| `columns` | the values of a column: JSON to Python and back, what PostgreSQL stores |
| `labels` | what people call a row |
| `lineage` | column lineage: which keys a SQL expression returns |
| `entities` | look-up by class, table or column, cached; the other modules as one object |

The rest of the package goes through `Entities`, one per registry:

    entities = Entities(RefPolicy())
    entities.of_column(MealPlan.recipe_id)      # KeyColumn("meal_plans.recipe_id", "recipe", ...)
    entities.of_column(Recipe.name)             # None: plain data
    entities.of_class(MealPlan).primary         # {"id": KeyColumn("meal_plans.id", ...)}

Everything is read from SQLAlchemy's metadata once and cached; nothing here emits SQL. Packages
above the plugin use the names below, and import `columns` directly, because it loads pydantic.
"""

from .entities import ClassKeys as ClassKeys, Entities as Entities
from .key_columns import (
    KeyColumn as KeyColumn,
    column_named as column_named,
    items_of as items_of,
    key_table as key_table,
    key_type_of as key_type_of,
    primary_key as primary_key,
    python_type_of as python_type_of,
    singular as singular,
    undecorated_type as undecorated_type,
)
from .keys import (
    KEY as KEY,
    EntityKey as EntityKey,
    Key as Key,
    Ref as Ref,
    RefPolicy as RefPolicy,
    ShownRef as ShownRef,
    is_entity_name as is_entity_name,
    is_key_part as is_key_part,
    parse_draft_ref as parse_draft_ref,
    parse_ref as parse_ref,
    spells_uuid as spells_uuid,
)
from .labels import clean_label as clean_label
from .text import (
    HIDDEN as HIDDEN,
    KEY_MARGIN as KEY_MARGIN,
    CutTextError as CutTextError,
    FoundKey as FoundKey,
    KeySpelling as KeySpelling,
    Mark as Mark,
    Verbatim as Verbatim,
    cut_mark as cut_mark,
    decode_marks as decode_marks,
    encode_marks as encode_marks,
    escape_invisible as escape_invisible,
    escape_surrogates as escape_surrogates,
    has_marks as has_marks,
    head as head,
    is_storable as is_storable,
    key_spellings as key_spellings,
    marks_in as marks_in,
    redact_keys as redact_keys,
    search_keys as search_keys,
    whole_keys as whole_keys,
)
