"""Mentions: rows that a user points at in a user interface, which writes their keys.

Text with `@[Thai Curry](recipe:a508000d-9b55-40f0-8886-dbdd88bd2de2)` comes in, as a user
interface makes it of what the user picks from a list. Each mention is found here, and taken apart;
a ref takes its place before a model or the history sees the text. Mentions count anywhere, in code
too: a key is a key. Text that only looks like one, such as `@[me](https://example.org)`, stays.
Pure: nothing is looked up.

```python
[found] = mentions_in("cook @[Curry [hot]](recipe:1) now", {"recipe"})
found.label, found.entity  # 'Curry [hot]', 'recipe'
```
"""

from __future__ import annotations

import re
from collections.abc import Container
from dataclasses import dataclass, field
from urllib.parse import unquote

from alfred_refs.errors import MentionError

_TARGET = re.compile(r"\(\s*(?P<entity>[a-z][a-z0-9_]*)\s*:\s*(?P<key>[^()\s]*)\s*\)")
_BEGUN = re.compile(r"\(\s*(?P<entity>[a-z][a-z0-9_]*)\s*:")
_LONGEST = 300  # characters of a label: an interface shows a name


@dataclass(frozen=True, slots=True)
class Mention:
    """One mention in a text.

    Attributes:
        start: where it begins.
        end: where the text goes on.
        label: what it calls the row.
        entity: what it says the row is.
        key: of the row, as text; what is percent-encoded in it is decoded.
    """

    start: int
    end: int
    label: str
    entity: str
    key: str = field(repr=False)


def mentions_in(text: str, entities: Container[str]) -> list[Mention]:
    """Return the mentions in a text, in order.

    Args:
        text: what a user wrote.
        entities: what there may be mentions of. In front of any other name there may be a URL.

    Raises:
        MentionError: one is not closed, or has no key.
    """
    found = []
    start = text.find("@[")
    while start >= 0:
        mention = _mention_at(text, start, entities)
        if mention is not None:
            found.append(mention)
        start = text.find("@[", start + 2 if mention is None else mention.end)
    return found


def _mention_at(text: str, start: int, entities: Container[str]) -> Mention | None:
    closed = _end_of_label(text, start + 2)
    begun = None if closed is None else _BEGUN.match(text, closed + 1)
    if closed is None or begun is None or begun["entity"] not in entities:
        return None
    label, entity = text[start + 2 : closed], begun["entity"]
    target = _TARGET.match(text, closed + 1)
    if target is None:
        raise MentionError(label, entity, "is not closed, or has more than a key in it")
    if not target["key"]:
        raise MentionError(label, entity, "has no key")
    return Mention(start, target.end(), label, entity, unquote(target["key"]))


def _end_of_label(text: str, start: int) -> int | None:
    """Return where the bracket is that closes a label; there may be others inside."""
    depth = 1
    for place in range(start, min(len(text), start + _LONGEST)):
        if text[place] == "[":
            depth += 1
        elif text[place] == "]":
            depth -= 1
        if depth == 0:
            return place
    return None
