"""Tests of the commands of `alfred-refs`: one module for each of theirs, and their page."""
