"""JSON on its way in and out of a call.

In: `repair` parses arguments and takes NUL characters out of data, `arguments` checks them, and
`payload.intake` puts keys where texts have marks. Out: `texts` looks through the whole answer, and
puts marks or refs in the place of keys in texts.

>>> from alfred_refs.tools.wire.arguments import validated
>>> validated("db_read", {"table": "recipes", "limit": 3}).limit
3

| module | what it does |
| --- | --- |
| `arguments` | one pydantic model a tool, the filters they share; mistakes in words of our own |
| `repair` | text to JSON values, without NUL characters, and none too long, deep or many |
| `texts` | an answer to JSON without keys, and without what is nested too deep to be shown |
| `documents` | which integers in JSON columns are keys |
"""
