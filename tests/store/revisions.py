"""The revisions of the registry's tables, to be tried each on one of SQLAlchemy's series.

What a revision changes is a matter of PostgreSQL; how Alembic runs it is seen at the oldest and
the newest.
"""

from __future__ import annotations

import pytest

from alfred_refs.store import schema

REVISIONS = [script.revision for script in schema.revisions()]
NEWEST = REVISIONS[-1]
_BETWEEN = REVISIONS[1:-1]
EACH_REVISION = [
    pytest.param(each, marks=pytest.mark.once if each in _BETWEEN else ()) for each in REVISIONS
]
