"""Tests of where the map is kept."""
