"""Tests of SQL that a model writes: rebuilt statements against the text itself."""
