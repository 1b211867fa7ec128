"""`python -m examples.kitchen`: the demo, on the empty database that `DATABASE_URL` names."""

from __future__ import annotations

import os
import sys

from examples.kitchen.demo import run
from examples.kitchen.show import wide_console

if __name__ == "__main__":
    if "DATABASE_URL" not in os.environ:
        sys.exit("DATABASE_URL names no database; `python3 run.py demo` provides one")
    sys.exit(run(os.environ["DATABASE_URL"], wide_console()))
