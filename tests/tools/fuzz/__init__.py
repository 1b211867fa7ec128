"""A fuzz of the tools: calls as a model may make them, right and wrong, and what comes of them.

`world` fills tables and tells what is in them, `calls` makes calls that fit them, `mutations`
spoils them, `judge` says what must not have happened, and `campaign` does it round after round.
Rounds of other kinds have judges of their own: `sequences` of calls on one session, `permits` on
tables that may not all be written, `echoes` of what was shown, `nuls` in calls, `costs`, and
`owned` on behalf of one of two owners; `kinds` says which part of all calls each has.
Everything follows from a seed: a round of the same seed and number makes the same calls.
"""
