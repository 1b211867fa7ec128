"""Tests of what a model is told of its conversation."""
