"""`python -m examples.kitchen`: the demo, on the empty database that `DATABASE_URL` names.

With `--full` each exchange is shown, and what an operator may ask.
"""

from __future__ import annotations

import argparse
import os
import sys

from examples.kitchen.demo import run
from examples.kitchen.show import wide_console

if __name__ == "__main__":
    if "DATABASE_URL" not in os.environ:
        sys.exit("DATABASE_URL names no database; `python3 run.py demo` provides one")
    parser = argparse.ArgumentParser(prog="python3 run.py demo")
    parser.add_argument("--full", action="store_true", help="show each exchange of each turn")
    full = parser.parse_args().full
    sys.exit(run(os.environ["DATABASE_URL"], wide_console(), full=full))
