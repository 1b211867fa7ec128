"""The inspector: web pages on which people review a model's calls and decide waiting calls.

`inspector_of` makes an ASGI application of a bound toolset, to be served alone or mounted in
another application. It needs the extra `inspect`:

    app = inspector_of(desk, authenticate=operator_of, hosts=["admin.example.com"])

The application returns the operator, and the owner of the conversations that the operator may see:

>>> from alfred_refs.inspector import Operator
>>> Operator("ann", owner=7)
Operator(by='ann')

| module | contents |
| --- | --- |
| `application` | `inspector_of`: the routes and their functions |
| `access` | `Operator`, `LocalAccess`; checks of requests, headers of responses |
| `pages` | the data of each page, for one operator: the only module that reads the toolset |
| `templates` | the HTML of the pages, and their style sheet |

`alfred-refs inspect` serves it on this machine. The pages work without JavaScript, and have none.
"""

from alfred_refs.inspector.access import (
    Authenticate as Authenticate,
    LocalAccess as LocalAccess,
    Operator as Operator,
)
from alfred_refs.inspector.application import inspector_of as inspector_of

__all__ = ["Authenticate", "LocalAccess", "Operator", "inspector_of"]
