"""Sessions that keep to one owner's rows: whose rows are whose, and what sees to it.

`Ownership` says how rows belong; the session's `Confinement` keeps its statements to the owner's,
by a dialect that adds the criteria as it compiles; `flush` and `writes` look at what is written.
"""

from .confinement import Confinement as Confinement
from .ownership import Owner as Owner, Ownership as Ownership
from .writes import (
    OwnedFlush as OwnedFlush,
    check_sent as check_sent,
    confine_write as confine_write,
    confined_records as confined_records,
)
