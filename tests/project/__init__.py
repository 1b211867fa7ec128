"""Tests of the repository itself: its public names, README, commands and tools."""
