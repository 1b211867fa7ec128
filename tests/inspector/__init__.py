"""The inspector: pages, decisions, security, and a browser."""
