"""The tests of alfred_refs, one file a module."""
