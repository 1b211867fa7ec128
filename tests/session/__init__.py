"""Tests of one unit of work."""
