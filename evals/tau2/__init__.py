"""The retail tasks of tau2-bench as an outside check: their gold actions, replayed by refs.

    python3 run.py evals --tau2 CHECKOUT

The shop's objects are SQLAlchemy models here (`models`), its tools functions of an application
that take refs (`tools`). What a tool does is left to the shop's own code, which is read from the
checkout together with its data (`shop`); neither is part of this project. `replay` runs the gold
actions of each task both ways, and compares all that there is at the end.
"""
