"""Alternate keys: a foreign key to a unique column shows the ref of the row that it names."""
