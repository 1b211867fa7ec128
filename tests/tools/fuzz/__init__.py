"""A fuzz of the tools: calls as a model may make them, right and wrong, and what comes of them.

`world` fills tables and tells what is in them, `calls` makes calls that fit them, `mutations`
spoils them, `judge` says what must not have happened, and `campaign` does it round after round;
`owned` does it on behalf of one of two owners.
Everything follows from a seed: a round of the same seed and number makes the same calls.
"""
