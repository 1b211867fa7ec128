"""Drafts in a session: read as objects, saved with their rows, and drafts again after a rollback.

A draft's key is decided before its row is inserted, and the registry is told when the row is
committed: see `saving`.
"""

from .objects import Builder as Builder, DraftObjects as DraftObjects, Link as Link
from .saving import DraftSaving as DraftSaving

__all__ = ["Builder", "DraftObjects", "DraftSaving", "Link"]
