"""Differential tests of owned sessions against PostgreSQL's row-level security.

The same ownership rules are stated twice: as an `Ownership`, whose criteria an owned session adds
to its statements, and as policies of a database role. Random programs run both ways, each in a
transaction that is rolled back. Both must read the same rows and write the same rows, or the owned
session must raise one of our errors before it writes anything.

    python -m tests.isolation --calls 10000 --seed 0

`programs` describes a program, `selects`, `queries`, `writes` and `instances` generate them,
`world` creates tables, rows and policies, `judge` compares outcomes, `campaign` runs many.
The seed decides everything. A difference is printed as the Python that was run.
"""
