"""A scripted model, and two customers who talk to the application of `docs/agent-loop.md`."""

from __future__ import annotations

import json
import uuid
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx
from sqlalchemy.ext.asyncio import async_sessionmaker

Names = dict[str, Any]


@dataclass
class Call:
    """A call of a tool, as a provider's client has it."""

    id: str
    name: str
    arguments: str


@dataclass
class Said:
    """An answer of the model."""

    calls: list[Call] = field(default_factory=list)
    text: str = ""

    def message(self, arguments: list[str]) -> dict[str, Any]:
        """Return the message for the history, with the arguments of calls."""
        called = [
            {"id": c.id, "type": "function", "function": {"name": c.name, "arguments": given}}
            for c, given in zip(self.calls, arguments, strict=True)
        ]
        return {"role": "assistant", "content": None, "tool_calls": called}

    async def chunks(self) -> AsyncIterator[str]:
        """Yield the text in pieces that cut refs."""
        for start in range(0, len(self.text), 7):
            yield self.text[start : start + 7]


def _calls(*asked: tuple[str, dict[str, Any]]) -> Said:
    return Said([Call(f"call-{n}", tool, json.dumps(a)) for n, (tool, a) in enumerate(asked)])


def _script() -> Iterator[Said]:
    yield _calls(
        ("db_read", {"table": "products", "order_by": "name"}), ("db_read", {"table": "orders"})
    )
    lamps = {"product": "product_2", "_product_label": "Lamp"}
    yield _calls(("place_order", {**lamps, "count": 9}))
    yield _calls(("place_order", {**lamps, "count": 3}))
    yield Said(text="Three of product_2 are on their way.")
    yield Said(text="It was order_1, for [product_2](/chats/chat-7/rows/product_2).")


async def talk(names: Names) -> tuple[str, list[tuple[int, bool]]]:
    """Send messages of two customers, and follow a link as each of them.

    Args:
        names: of the page's programs, with an asynchronous `engine`.

    Returns:
        what the model and the customers read; and of each follower the status, and whether the
        target is the page of the product.
    """
    read: list[str] = []
    script = _script()

    async def model(messages: list[dict[str, Any]], _: object) -> Said:
        sent = [each for each in messages[-2:] if each["role"] != "assistant"]
        read.extend(f"{each['role']}: {each['content']}" for each in sent)
        return next(script)

    async def say(customer: uuid.UUID, text: str) -> None:
        answer = await client.post(
            "/chats/chat-7/messages", json={"text": text}, headers=_by(customer)
        )
        read.append(f"{answer.status_code} {answer.text}")

    names["model"] = model
    ann, bob, lamp = await _fill(names)
    transport = httpx.ASGITransport(app=names["app"])
    async with httpx.AsyncClient(transport=transport, base_url="http://shop") as client:
        await say(ann, "Three lamps, please.")
        await say(ann, "What did I order?")
        await say(bob, "What did Ann order?")
        pages = [
            await client.get("/chats/chat-7/rows/product_2", headers=_by(customer))
            for customer in (ann, bob)
        ]
    await names["engine"].dispose()
    target = f"/products/{lamp}"
    followed = [(page.status_code, page.headers.get("location") == target) for page in pages]
    return "".join(f"{line}\n" for line in read), followed


def _by(customer: uuid.UUID) -> dict[str, str]:
    return {"Authorization": f"Bearer {customer}"}


async def _fill(names: Names) -> tuple[uuid.UUID, uuid.UUID, uuid.UUID]:
    """Create the tables, and return the keys of two customers and of the lamp."""
    async with names["engine"].begin() as connection:
        await connection.run_sync(names["Base"].metadata.create_all)
    await names["registry"].aio.create_tables()
    ann, bob, lamp = (uuid.uuid4() for _ in range(3))
    customer, product = names["Customer"], names["Product"]
    rows = [customer(id=ann), customer(id=bob), product(id=lamp, name="Lamp", stock=4)]
    async with async_sessionmaker(names["engine"]).begin() as session:
        session.add_all([*rows, product(name="Desk", stock=1)])
    return ann, bob, lamp
