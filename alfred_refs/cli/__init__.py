"""The `alfred-refs` command, for operators: the registry's tables, and the conversations in them.

    $ alfred-refs migrate
    $ alfred-refs show chat-7

`main` runs it, or says how to get the extra `cli`; `commands` has one click command a verb, which
are written out in `revisions`, `reading` and `lifetimes`. None of it is imported by the package.
"""
