"""`python -m benchmarks.inspecting`: how long the inspector's pages take on a large registry.

There are 10,000 conversations with 100 refs each, and one of them has 10,000 calls of ten rows; a
thousand calls wait. Each page is requested in the process of its application, so that neither a
network nor a browser is in the times. Printed are the median and the slowest of some requests, the
median of the time that the process itself has worked for one, and the size. A list is also opened
far behind its beginning.

The list of conversations has no index. A second table shows why: the time of its statement in
PostgreSQL, what a minted ref writes to the log, and how many updates of conversations write to no
index, without and with an index on `used_at`, which every mint changes.
"""

from __future__ import annotations

import sys
import time
from statistics import median
from typing import Any
from urllib.parse import quote
from uuid import uuid4

from sqlalchemy import Engine, create_engine, text
from sqlalchemy.orm import sessionmaker
from starlette.testclient import TestClient

from alfred_refs import RefRegistry, RefSession
from alfred_refs.inspector import Operator, inspector_of
from alfred_refs.store import Address
from alfred_refs.tools import BoundToolset, Journal, Toolset
from benchmarks.setting import SERVER
from examples.world import Recipe, create_tables
from tests.postgres.server import embedded_server

CONVERSATIONS = 10_000
REFS = 100  # of each conversation
CALLS = 10_000  # of one conversation
ROWS = 10  # of each call
WAITING = 1_000

BUSY = "chat 5000"

_REQUESTS = 20

_MINTS = 2_000
_LIST = """
    EXPLAIN (ANALYZE) SELECT conversation FROM alfred_refs_conversation
    ORDER BY used_at DESC, conversation DESC LIMIT 51
"""
_WRITTEN = text("SELECT pg_current_wal_lsn() - '0/0'")
_IN_PLACE = text("""
    SELECT CAST(n_tup_hot_upd AS float) / n_tup_upd
    FROM pg_stat_user_tables WHERE relname = 'alfred_refs_conversation'
""")

# the digest of an id is made by Python
_FILL = (
    """
    INSERT INTO alfred_refs_conversation (conversation, id, turn, used_at)
    SELECT digest, id, 3, now() - make_interval(mins => CAST(number AS integer))
    FROM unnest(CAST(:digests AS uuid[]), CAST(:ids AS text[])) WITH ORDINALITY
        AS made (digest, id, number)
    """,
    """
    INSERT INTO alfred_refs_counter (conversation, entity, last, kind)
    SELECT conversation, 'recipe', :refs, 1 FROM alfred_refs_conversation
    """,
    """
    INSERT INTO alfred_refs_mapping (conversation, kind, number, key, label)
    SELECT
        conversation, 1, number, decode('75', 'hex') || uuid_send(gen_random_uuid()),
        'Soup no. ' || number
    FROM alfred_refs_conversation, generate_series(1, :refs) AS number
    """,
    """
    INSERT INTO alfred_refs_call
        (conversation, number, turn, tool, state, actor, arguments, seconds)
    SELECT
        :busy, number, 1 + number / 10, 'db_update', 'done', 'model',
        '{"table": "recipes", "data": {"name": "Stew"}}', 0.01
    FROM generate_series(1, :calls) AS number
    """,
    """
    INSERT INTO alfred_refs_change
        (conversation, call, place, table_name, ref, label, action, key, before, after)
    SELECT
        :busy, number, place, 'recipes', 'recipe_' || place, 'Soup no. ' || place, 'updated',
        '{"id": "7"}', '{"name": "Soup"}', '{"name": "Stew"}'
    FROM generate_series(1, :calls) AS number, generate_series(1, :rows) AS place
    """,
    """
    INSERT INTO alfred_refs_call
        (conversation, number, turn, tool, state, actor, arguments, plan, token, asked_at)
    SELECT
        conversation, 1, 1, 'db_delete', 'waiting', 'model', '{"table": "recipes"}',
        '{"tool": "db_delete", "table": "recipes", "rows": [{"ref": "recipe_1",
            "entity": "recipe", "label": "Soup no. 1", "action": "deleted",
            "fields": {"name": "Soup"}}]}',
        't', used_at
    FROM alfred_refs_conversation WHERE conversation <> :busy LIMIT :waiting
    """,
)


def fill(engine: Engine) -> None:
    """Fill a registry, by statements of its own."""
    ids = [f"chat {number}" for number in range(CONVERSATIONS)]
    values: dict[str, Any] = {
        "digests": [Address(id_).digest for id_ in ids],
        "ids": ids,
        "refs": REFS,
        "busy": Address(BUSY).digest,
        "calls": CALLS,
        "rows": ROWS,
        "waiting": WAITING,
    }
    with engine.begin() as connection:
        for statement in _FILL:
            names = {name for name in values if f":{name}" in statement}
            connection.execute(text(statement), {name: values[name] for name in names})
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("VACUUM ANALYZE"))


def desk_on(engine: Engine) -> BoundToolset:
    """Return a toolset on the tables of the examples."""
    sessions = sessionmaker(engine, class_=RefSession)
    toolset = Toolset([Recipe], hidden=[Recipe.user_id])
    return toolset.bind(sessions, registry=RefRegistry(engine), journal=Journal())


def addresses(desk: BoundToolset) -> dict[str, str]:
    """Return the pages that are requested, by name; those of lists at their end, too."""
    last = list(desk.registry.conversations(limit=CONVERSATIONS - 60))[-1]
    waiting = desk.registry.waiting_calls(limit=WAITING - 30)[-1]
    used, asked = (quote(each.isoformat()) for each in (last.used_at, waiting[2].asked_at))
    later = f"asked={asked}&after={waiting[0]}&number=1"
    return {
        "conversations": "/",
        "conversations, one of the last pages": f"/?used={used}&after={last.id}",
        "conversations, searched for 'chat 77'": "/?q=chat+77",
        "conversations, searched in vain": "/?q=nothing",
        "calls that wait": "/approvals",
        "calls that wait, one of the last pages": f"/approvals?{later}",
        "calls of 10,000": f"/conversation?id={BUSY}",
        "calls of 10,000, one of the last pages": f"/conversation?id={BUSY}&before=30",
        "calls of 10,000 that changed one row": f"/conversation?id={BUSY}&ref=recipe_1",
        "one call": f"/call?id={BUSY}&call=5000",
        "refs": f"/refs?id={BUSY}",
        "drafts": f"/drafts?id={BUSY}",
        "prompt": f"/prompt?id={BUSY}",
    }


def main() -> int:
    """Print the table."""
    with embedded_server(durable=True, settings=SERVER) as url:
        engine = create_engine(url)
        create_tables(engine)
        RefRegistry(engine).create_tables()
        fill(engine)
        desk = desk_on(engine)
        app = inspector_of(desk, authenticate=lambda _: Operator("ann", owner=None))
        with TestClient(app, "http://localhost") as client:
            print("| page | median | slowest | Python | size |")  # noqa: T201
            print("| --- | --- | --- | --- | --- |")  # noqa: T201
            for name, address in addresses(desk).items():
                walls, works, size = request(client, address)
                figures = (median(walls), max(walls), median(works))
                shown = " | ".join(f"{figure * 1_000:.0f} ms" for figure in figures)
                print(f"| {name} | {shown} | {size} kB |")  # noqa: T201
        print("\n| index on used_at | list | log of a mint | updates in place |")  # noqa: T201
        print("| --- | --- | --- | --- |")  # noqa: T201
        print(f"| no | {index_figures(engine)} |")  # noqa: T201
        with engine.begin() as connection:
            connection.execute(
                text("CREATE INDEX ON alfred_refs_conversation (used_at, conversation)")
            )
        print(f"| yes | {index_figures(engine)} |")  # noqa: T201
        engine.dispose()
    return 0


def index_figures(engine: Engine) -> str:
    """Return the time of the list, the bytes of a mint, and the share of updates in place."""
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("VACUUM ANALYZE alfred_refs_conversation"))
        connection.execute(text("SELECT pg_stat_reset()"))
        plans = [connection.scalars(text(_LIST)).all()[-1] for _ in range(_REQUESTS)]
        before = connection.scalar(_WRITTEN)
        registry = RefRegistry(engine)
        for number in range(_MINTS):
            registry.conversation(f"chat {number % 100}").refer_all("recipe", [uuid4()])
        after = connection.scalar(_WRITTEN)
        time.sleep(2)  # the server counts once a second
        in_place = connection.scalar(_IN_PLACE)
    times = [float(plan.split()[-2]) for plan in plans]  # Execution Time: 1.92 ms
    return f"{min(times):.2f} ms | {(after - before) / _MINTS:.0f} bytes | {in_place:.0%}"


def request(client: TestClient, address: str) -> tuple[list[float], list[float], int]:
    """Return the seconds of some requests, by clock and of work, and the size of the page."""
    walls, works, size = [], [], 0
    client.get(address)
    for _ in range(_REQUESTS):
        began, worked = time.perf_counter(), time.process_time()
        page = client.get(address)
        works.append(time.process_time() - worked)
        walls.append(time.perf_counter() - began)
        page.raise_for_status()
        size = len(page.content) // 1_000
    return walls, works, size


if __name__ == "__main__":
    sys.exit(main())
