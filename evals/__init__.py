"""Does it help? The same tasks with keys, with integers and with refs, and what comes of slips.

    python3 run.py evals                               a scripted model that errs, offline
    python3 run.py evals --model NAME --base-url URL   a real one
    python3 run.py evals --tau2 CHECKOUT               tau2-bench's gold actions, by refs

| module | what is in it |
| --- | --- |
| `kitchen` | the rows that tasks are done on, and what of them has changed |
| `tasks`, `ends` | the tasks, made from seeds, and how each must leave the kitchen |
| `arms`, `boundary`, `spelling` | what differs from arm to arm: how ids are spelt |
| `channel`, `steps`, `clerk`, `scripted` | the scripted model: its slips, what it does |
| `doing`, `running`, `trials` | one trial of a task, a run of many, and the file that keeps them |
| `tokens`, `scores`, `report`, `plot` | what trials come to |
| `tau2` | an outside check: the retail tasks of tau2-bench, replayed by refs |
"""
