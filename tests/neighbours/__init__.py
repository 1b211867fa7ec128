"""Tests of what an application puts beside a session, each with the real package."""
