"""Tenant isolation: sessions that read and write the rows of one owner only.

    ownership = Ownership({Recipe: "user_id", Line: "recipe"})
    sessions(conversation="chat-7", owner=ownership.of(user_id))

| module | contents |
| --- | --- |
| `ownership` | `Ownership`, `Owner`: which rows belong to which owner; refused SQL |
| `confinement` | `Confinement`: confines the connections of one session, and its identity map |
| `writes` | `WriteGuard`: checks the values that a flush, statement or bulk operation writes |

Rows are isolated while SQL is compiled: `sqla.compiler` adds the criteria of `Ownership` to
every table of a statement that a confined connection sends.
"""

from .confinement import Confinement as Confinement
from .ownership import Owner as Owner, Ownership as Ownership
from .writes import WriteGuard as WriteGuard, check_sent as check_sent
