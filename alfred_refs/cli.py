"""The `alfred-refs` command (extra `cli`)."""
