"""Drafts in a session: objects that become rows, once, or drafts again."""
