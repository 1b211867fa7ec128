"""The rows that a user has mentioned, looked up among those that their session can see.

```python
MentionedRows(chat, session, toolset).of(mentions_in(text, entities))  # ['recipe_3']
```
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from sqlalchemy import inspect, select
from sqlalchemy.orm import Mapper, lazyload

from alfred_refs import sqla
from alfred_refs.conversation.conversation import Conversation
from alfred_refs.errors import MentionError, SetupError
from alfred_refs.mapping.key_column import KeyColumn
from alfred_refs.mapping.keys import EntityKey, Key
from alfred_refs.session.session import RefSession
from alfred_refs.store import Activity
from alfred_refs.tools import Toolset

from .mentions import Mention

# what the key's type is underneath -> how its text is read
_TYPES: Mapping[str, Callable[[str], Key]] = {"uuid": uuid.UUID, "integer": int, "string": str}


class MentionedRows:
    """The mentioned rows of one text; it also tells which entities there may be mentions of.

    Args:
        conversation: in which they get refs.
        session: looks them up.
        toolset: whose classes are meant by the names of entities; without one, those that have
            these names in the process.
    """

    def __init__(
        self, conversation: Conversation, session: RefSession, toolset: Toolset | None
    ) -> None:
        view = session.own_view
        if view is None or view.id != conversation.id:
            raise SetupError(
                "a mention was looked up in a session of another conversation, or of none",
                "make the session with conversation=context.conversation",
            )
        self._view = view
        self._session = session
        self._toolset = toolset

    def __contains__(self, entity: object) -> bool:
        return isinstance(entity, str) and self._mapper(entity) is not None

    def _mapper(self, entity: str) -> Mapper[Any] | None:
        """Return what maps the rows of an entity, if they have one primary key column."""
        if self._toolset is not None:
            table = self._toolset.tables.of_entity(entity)
            mapper = None if table is None else inspect(table.model).mapper.base_mapper
        else:
            primary = self._view.entities.primary_of(entity)
            mapper = None if primary is None else sqla.mapper_of_table(primary.table)
        return mapper if mapper is not None and len(mapper.primary_key) == 1 else None

    def of(self, found: Sequence[Mention]) -> list[str]:
        """Return the ref of each row, and note that it was mentioned: a statement an entity.

        Raises:
            MentionError: one is not there, or not for this session to see.
        """
        labels: dict[EntityKey, str] = {}
        for entity in dict.fromkeys(each.entity for each in found):
            labels |= self._seen(entity, [each for each in found if each.entity == entity])
        pairs = [(each.entity, self._key(each)) for each in found]
        distinct = dict.fromkeys(pairs)
        done = [Activity(pair, "mentioned", label=labels.get(pair)) for pair in distinct]
        self._view.note(done, "user")
        return self._view.refer_pairs(pairs)

    def _column(self, entity: str) -> KeyColumn:
        [primary] = cast("Mapper[Any]", self._mapper(entity)).primary_key
        return cast(KeyColumn, self._view.entities.of_column(primary))

    def _key(self, mention: Mention) -> Key:
        column = self._column(mention.entity)
        try:
            return _TYPES[column.key_type](mention.key)
        except ValueError:
            raise MentionError(mention.label, mention.entity, "has a malformed key") from None

    def _seen(self, entity: str, found: Sequence[Mention]) -> dict[EntityKey, str]:
        """Return what rows are called that are mentioned, once all are seen.

        Raises:
            MentionError: one is not.
        """
        column = self._column(entity)
        wanted = {self._key(each): each for each in found}
        mapper = cast("Mapper[Any]", self._mapper(entity))
        statement = (
            select(mapper.class_)
            .where(mapper.primary_key[0].in_([column.from_key(key) for key in wanted]))
            .options(lazyload("*"))
            .execution_options(raw_keys=True)  # they are keys, though some may be text
        )
        rows = {
            column.to_key(mapper.primary_key_from_instance(row)[0]): row
            for row in self._session.scalars(statement)
        }
        for key, mention in wanted.items():
            if key not in rows:
                raise MentionError(mention.label, entity, "names no row that can be seen")
        label = self._view.entities.label_of(entity)
        called = {
            (entity, key): None if label is None else label.of(sqla.state_of(row).dict)
            for key, row in rows.items()
        }
        return {pair: text for pair, text in called.items() if text is not None}
