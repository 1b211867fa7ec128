"""Drafts in a session: read as objects, saved with their rows, and drafts again after a rollback.

A draft's key is decided before its row is inserted, and the registry is told when the row is
committed: see `saving`.
"""

from .building import Builder as Builder
from .rows import SessionRows as SessionRows
from .saving import SessionDrafts as SessionDrafts

__all__ = ["Builder", "SessionDrafts", "SessionRows"]
