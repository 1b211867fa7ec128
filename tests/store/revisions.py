"""The revisions of the registry's tables."""

from __future__ import annotations

from alfred_refs.store import schema

REVISIONS = [script.revision for script in schema.revisions()]
NEWEST = REVISIONS[-1]
