"""`python -m tests.mapping SEEDS`: many random mappings, on SQLite or `DATABASE_URL`."""

from __future__ import annotations

import logging
import os
import sys
import warnings
from collections.abc import Sequence

from sqlalchemy import create_engine
from sqlalchemy.pool import StaticPool

from tests.mapping.random_mappings import mapping_of
from tests.mapping.random_programs import differences, faults


def main(arguments: Sequence[str]) -> int:
    """Run the mappings of seeds such as `0-100`, and return 1 if one was not right."""
    first, _, last = arguments[0].partition("-")
    url = os.environ.get("DATABASE_URL")
    engine = create_engine(url) if url else create_engine("sqlite://", poolclass=StaticPool)
    logging.disable()  # it tells of each bad ref
    warnings.simplefilter("ignore")
    wrong = 0
    for seed in range(int(first), int(last or first) + 1):
        mapping = mapping_of(seed, postgres=bool(url))
        for line in [*differences(engine, mapping), *faults(engine, mapping)]:
            sys.stdout.write(f"{seed} {line}\n")
            sys.stdout.flush()
            wrong += 1
        mapping.registry.dispose()
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
