"""Agents of four frameworks on one toolset: a module for each, to copy."""
