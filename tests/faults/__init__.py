"""Processes that share a registry while everything around them fails.

`python -m tests.faults --minutes 10` runs a campaign: `worker` processes mint the same and other
keys, in sessions too; the `campaign` kills them, cuts their connections, holds locks and crashes
the server. Workers write down what they were handed out; the `verdict` compares that with what is
in the database in the end. `proxy` loses answers, for tests that need one fault at a time.
"""
