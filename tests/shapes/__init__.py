"""Every shape of statement as data, with its outcome: translated or refused."""
