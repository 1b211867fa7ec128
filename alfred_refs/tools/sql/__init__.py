"""`db_query`: SQL that a model writes, in refs, and which is never sent.

    {"sql": "select name from recipes where id = 'recipe_1'"}
      ──lexing──▶ a shape, and literals ──plans: one for each shape──▶
          parsing ──▶ a tree ──selects, froms, expressions──▶ SQLAlchemy's select ──▶
      ──running: parameters, a transaction that reads only──▶ the session ──▶ columns, rows, labels

The session puts keys in place of refs, by the column beside them, keeps to its owner's rows, and
shows refs for keys, as it does for all statements. Nothing of the text reaches the database, not
even a name: what has no function here is in no statement.

>>> toolset = Toolset([Recipe], sql=True)
>>> toolset.call(session, "db_query", {"sql": "select count(*) from recipes"})
{'columns': ['count'], 'rows': [[3]], 'count': 1, 'more': False}

| module | what it does |
| --- | --- |
| `running` | a call: parameters, transaction, JSON, labels |
| `plans` | one statement for all texts of a shape |
| `selects`, `froms`, `unions` | SELECT; FROM and joins; WITH and unions |
| `calls`, `windows` | functions; windows, and what else stands behind aggregates |
| `conditions`, `operators` | what is true or not; what is computed |
| `conversions`, `expressions` | CAST, and intervals; all else |
| `scopes` | what names mean; tables as fenced subqueries |
| `values` | values, keys and literals: what may stand beside what |
| `functions`, `types` | which functions and types there are |
| `parsing` | the tree, and what of a node may be read |
| `lexing` | a text to its shape: limits, before a parser sees it |
| `faults`, `refusing` | errors |
"""
