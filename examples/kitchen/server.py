"""What the kitchen has in PostgreSQL beside its tables: a function and its trigger.

In go the metadata; out come listeners on it, which make and drop these with the tables.
"""

from __future__ import annotations

from sqlalchemy import DDL, MetaData, event
from sqlalchemy.schema import SchemaItem

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
    cooking_log = metadata.tables["cooking_log"]
    _listen(cooking_log, "after_create", COUNT_FLAVORS)
    _listen(cooking_log, "after_create", COUNT_FLAVORS_TRIGGER)
    _listen(cooking_log, "after_drop", "DROP FUNCTION count_flavors()")


def _listen(target: SchemaItem, moment: str, statement: str) -> None:
    ddl = DDL(statement).execute_if(  # type: ignore[no-untyped-call]  # so in SQLAlchemy
        dialect="postgresql"
    )
    event.listen(target, moment, ddl)
