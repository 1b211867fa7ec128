"""Every shape of statement, as data: what is translated, what is refused, nothing in between."""
