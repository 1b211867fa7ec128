"""Edits of lists by position."""
