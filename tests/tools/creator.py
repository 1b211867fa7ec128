"""A process of its own that saves a draft with a part: `python -m tests.tools.creator URL`.

It waits for a line on its standard input, so that several begin together, and prints the answer.
"""

from __future__ import annotations

import json
import sys

from sqlalchemy import create_engine

from alfred_refs import RefRegistry, RefSession
from alfred_refs.tools import Toolset
from tests.tools.models import Cuisine, Dish, Part, Serving


def main(url: str) -> None:
    """Save the draft."""
    engine = create_engine(url)
    also = [{"table": "parts", "data": {"dish_id": "gen_dish_1", "note": "salt"}}]
    arguments = {"table": "dishes", "from_draft": "gen_dish_1", "also": also}
    with RefSession(engine, conversation=RefRegistry(engine).conversation("chat-7")) as session:
        sys.stdin.readline()
        answer = Toolset([Dish, Part, Cuisine, Serving], expect="optional").call(
            session, "db_create", arguments
        )
    print(json.dumps(answer))  # noqa: T201  # to whoever began it


if __name__ == "__main__":
    main(sys.argv[1])
