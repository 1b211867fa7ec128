"""Errors without keys: each exception that leaves a session has refs in their place.

    IntegrityError: Key (recipe_id)=(a508000d-9b55-40f0-8886-dbdd88bd2de2) is not present
    IntegrityError: Key (recipe_id)=(recipe_1) is not present

`errors` finds the exceptions, with all that hangs on them, and words them in place; `wording` puts
refs into their sentences and parameters; `columns` tells which key columns a name in them means.
A key that has no ref in this process is hidden.
"""
