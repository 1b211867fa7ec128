"""Fault injection: processes that share a registry while their environment fails.

`python -m tests.faults --minutes 10` runs a campaign. `worker` processes mint shared and private
keys, in sessions too. The `campaign` kills them, terminates their connections, holds locks and
crashes the server. Workers log all refs that they receive; `verdict` compares the logs with the
databases afterwards. `broken` has stores that a campaign must reject. `proxy` drops the answers to
commits, for tests of a single fault.
"""
