"""Statements of owned sessions, judged by row-level security in PostgreSQL.

The same rules are stated twice: to an `Ownership`, whose criteria the session adds to what it
sends, and to the database, whose policies hold for a role that is no superuser. Every program
that `queries`, `writes` and `instances` make is run both ways, in transactions that are rolled
back: what comes of the two is the same, or the owned session refuses it with an error of ours
before it has written anything. `world` has the tables, rows and policies, `judge` compares.

    python -m tests.walls --calls 10000 --seed 0

Everything follows from the seed, and what is found is printed as the Python that was run.
"""
