"""Tests of one statement: refs in, refs out."""
