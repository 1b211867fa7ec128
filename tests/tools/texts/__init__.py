"""Tests of keys in texts and documents, shown by marks."""
