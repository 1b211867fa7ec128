"""Tests of what gives the tools to other people's programs: agent frameworks and servers."""
