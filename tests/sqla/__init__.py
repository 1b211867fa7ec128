"""Tests of SQLAlchemy's internals, pinned on both series."""
