"""What the package costs, measured side by side with what it stands in for.

`measure` times two sides alternately, `setting` is what they work on, `reading` and `asking` have
the rows of the table, `report` shows them. `python -m benchmarks` runs all on a PostgreSQL of its
own that keeps its promises about a power cut. Nothing here decides whether a test passes.
"""
