"""What the kitchen has in PostgreSQL beside its tables: extensions, a function and its trigger.

In go the metadata; out come listeners on it, which make these with the tables, and drop them, but
for the extensions: others may use them.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import DDL, Connection, MetaData, event, text
from sqlalchemy.schema import SchemaItem

# extension → what provides it
EXTENSIONS: Final = {"vector": "pgvector", "pg_trgm": "PostgreSQL's contrib modules"}

# of an extension that is not trusted, a superuser must say CREATE EXTENSION
USABLE = text("""
SELECT name FROM pg_available_extension_versions
WHERE installed OR trusted OR NOT superuser
    OR (SELECT rolsuper FROM pg_roles WHERE rolname = current_user)
""")

# Insertions only: a meal once cooked stays counted, even if its log entry or recipe goes.
# It counts the lines the recipe has by then, so they are written before the log entry is.
# The order of the insertion is the order of the row locks, so that two meals cannot deadlock.
COUNT_FLAVORS = """
CREATE FUNCTION count_flavors() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO flavor_preferences AS counted (user_id, ingredient_id, times_cooked)
    SELECT NEW.user_id, line.ingredient_id, 1
    FROM recipe_ingredients AS line
    WHERE line.recipe_id = NEW.recipe_id AND line.ingredient_id IS NOT NULL
    GROUP BY line.ingredient_id
    ORDER BY line.ingredient_id
    ON CONFLICT (user_id, ingredient_id)
    DO UPDATE SET times_cooked = counted.times_cooked + 1;
    RETURN NULL;
END
$$
"""
COUNT_FLAVORS_TRIGGER = """
CREATE TRIGGER count_flavors AFTER INSERT ON cooking_log
FOR EACH ROW EXECUTE FUNCTION count_flavors()
"""


def add_to(metadata: MetaData) -> None:
    """Have these made and dropped with the tables of `metadata`."""
    for extension in EXTENSIONS:
        _listen(metadata, "before_create", f"CREATE EXTENSION IF NOT EXISTS {extension}")
    cooking_log = metadata.tables["cooking_log"]
    _listen(cooking_log, "after_create", COUNT_FLAVORS)
    _listen(cooking_log, "after_create", COUNT_FLAVORS_TRIGGER)
    _listen(cooking_log, "after_drop", "DROP FUNCTION count_flavors()")


def missing_extensions(connection: Connection) -> str | None:
    """Say which extensions a user cannot have on a server, and where to get them, if any."""
    missing = EXTENSIONS.keys() - connection.scalars(USABLE)
    named = ", ".join(f"{name} ({EXTENSIONS[name]})" for name in sorted(missing))
    return f"this server lets this user have no extension {named}" if missing else None


def _listen(target: SchemaItem, moment: str, statement: str) -> None:
    ddl = DDL(statement).execute_if(  # type: ignore[no-untyped-call]  # so in SQLAlchemy
        dialect="postgresql"
    )
    event.listen(target, moment, ddl)
