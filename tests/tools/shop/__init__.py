"""Plans, approvals, history and undo, on the tables of a shop."""
