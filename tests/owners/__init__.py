"""Tests of row ownership."""
