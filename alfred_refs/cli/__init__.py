"""The `alfred-refs` command, for operators: the registry's tables, and the conversations in them.

    $ alfred-refs migrate postgresql://localhost/app
    the registry's tables are at revision 0006
    $ alfred-refs resolve chat-7 recipe_1
    a508000d-9b55-40f0-8886-dbdd88bd2de2

`main` runs the group of `commands`, or says how to get the extra `cli`. Those that make and end
conversations are in `lifetimes`; `parameters` reads what commands are given, opens the registry
and makes one line of an error, and `printing` prints tables or JSON. The package imports none of
it.
"""
