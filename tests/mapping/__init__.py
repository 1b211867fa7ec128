"""Tests of what the tables say."""
