"""Tests of the map of one conversation, and its drafts."""
