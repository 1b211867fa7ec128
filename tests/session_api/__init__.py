"""Every method, parameter and event of SQLAlchemy's sessions, on a plain and an active session.

A *use* is a function that does something with a session. Each runs on a plain `Session` and on a
`RefSession` in a conversation, with the same rows. Values, errors, warnings, notes of listeners,
statements and their execution options must be the same, with refs in place of keys;
`differences` lists the exceptions with their reasons. `world` has the rows, the comparison and the
decorator that registers a use; the other modules have the uses by theme.
"""
