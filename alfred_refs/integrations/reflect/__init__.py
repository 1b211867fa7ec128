"""Classes for the tables of a database that no program has mapped, so that it can have a toolset.

    with engine.connect() as connection:
        found = reflect(connection)
    toolset = Toolset(found.models, read_only=found.models.values())
    found.labels      # {"customers": "name", ...}: what rows are called, as far as was guessed
    found.left_out    # {"log_lines": "it has no primary key"}

Foreign keys become relationships: `orders.customer_id` is `customer`, and customers have `orders`.
What goes along with rows that are deleted is left to the database. Only its catalogue is read.

`tables` reads them and maps classes, and `names` says what all is called.
"""

from .tables import Reflection as Reflection, reflect as reflect

__all__ = ["Reflection", "reflect"]
