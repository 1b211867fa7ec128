"""JSON on its way in and out of a call.

In: `repair` parses arguments and takes NUL characters out of data, `validation` checks them
against the models of `arguments`, and `payload.intake` puts keys where texts have marks. Out:
`texts` looks through the whole answer, and puts marks or refs in the place of keys in texts.

>>> from alfred_refs.tools.wire.validation import validated
>>> validated("db_read", {"table": "recipes", "limit": 3}).limit
3

| module | what it does |
| --- | --- |
| `arguments` | one pydantic model a tool, and the filters they share |
| `repair` | text to JSON values, without NUL characters, and none too long, deep or many |
| `validation` | JSON values to an argument model, or an error in words of our own |
| `texts` | an answer to JSON without keys |
| `cuts` | leaves out what is nested too deep to be shown |
| `documents` | which integers in JSON columns are keys |
"""
