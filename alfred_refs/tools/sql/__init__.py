"""`db_query`: a SELECT that a model writes in refs, rebuilt in SQLAlchemy.

    {"sql": "select name from recipes where id = 'recipe_1'"}
      ──lexer──▶ a shape, and literals ──plan: one for each shape──▶
          sqlglot ──▶ a tree ──builders──▶ SQLAlchemy's select ──▶
      ──parameters, a read-only transaction──▶ the session ──▶ columns, rows, labels

No part of the model's text is sent, and a construct without a builder here is refused. Each module
raises `ToolError`, which the model reads, for a statement that cannot be answered. The session
replaces refs with keys, restricts rows to its owner, and shows refs for keys, as it does for every
statement.

>>> toolset = Toolset([Recipe], sql=True)
>>> toolset.call(session, "db_query", {"sql": "select count(*) from recipes"})
{'columns': ['count'], 'rows': [[3]], 'count': 1, 'more': False}

| module | contents |
| --- | --- |
| `tool` | the tool `db_query`: plan cache, call, JSON, labels |
| `selects` | SELECT, FROM and joins, WITH, unions |
| `expressions` | the table of constructs: operators, conditions, CASE, CAST, calls, windows |
| `scopes` | what names mean, typed values, types, the table of functions |
| `parsing` | lexer and its limits, sqlglot, errors |
"""
