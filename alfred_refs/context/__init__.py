"""Prompts from a conversation: its rows, earlier steps and calls, and messages.

Sessions that have `by` record in the conversation which rows were used and which fields a model
saw. A `Context` makes prompts from this record, reads users' text, and puts names into replies.

```python
with sessions(conversation=chat, by="model") as session:
    toolset.call(session, "db_read", {"table": "recipes"})
context = Context(chat, toolset=toolset)
print(context.render("act"))
# - recipe_1 "Thai Curry" (read in turn 1)
#   {"id": "recipe_1", "name": "Thai Curry", "minutes": 30}
```

| module | contents |
| --- | --- |
| `context` | `Context`, the entry point |
| `views` | selecting rows, views as data, rendering to Markdown |
| `instructions` | the tools of a toolset as text, for templates |
| `prompts` | the parts of a prompt, and templates of fixed text |
| `decisions` | types of structured output |
| `mentions` | mentions in users' text, and names in replies |
| `auditing` | finding keys in text and logs |
| `pytest_plugin` | a fixture that finds keys in tests |

Names are imported on first use: every run of pytest imports this package for the plugin, and must
not import SQLAlchemy and pydantic for it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .auditing import find_keys as find_keys
    from .context import AsyncContext as AsyncContext, Context as Context
    from .decisions import (
        ActDecision as ActDecision,
        ReasonCode as ReasonCode,
        SuggestedNext as SuggestedNext,
        ThinkDecision as ThinkDecision,
        UnderstandDecision as UnderstandDecision,
        decision_type as decision_type,
        think_type as think_type,
        understand_type as understand_type,
    )
    from .prompts import (
        Called as Called,
        Exchange as Exchange,
        Item as Item,
        Prompt as Prompt,
        Step as Step,
    )
    from .views import (
        Audience as Audience,
        CallView as CallView,
        ContextView as ContextView,
        EntityView as EntityView,
        Window as Window,
    )

__all__ = [
    "ActDecision",
    "AsyncContext",
    "Audience",
    "CallView",
    "Called",
    "Context",
    "ContextView",
    "EntityView",
    "Exchange",
    "Item",
    "Prompt",
    "ReasonCode",
    "Step",
    "SuggestedNext",
    "ThinkDecision",
    "UnderstandDecision",
    "Window",
    "decision_type",
    "find_keys",
    "think_type",
    "understand_type",
]

_MODULES = {
    "auditing": ["find_keys"],
    "context": ["AsyncContext", "Context"],
    "decisions": [
        *("ActDecision", "ReasonCode", "SuggestedNext", "ThinkDecision", "UnderstandDecision"),
        *("decision_type", "think_type", "understand_type"),
    ],
    "prompts": ["Called", "Exchange", "Item", "Prompt", "Step"],
    "views": ["Audience", "CallView", "ContextView", "EntityView", "Window"],
}

if not TYPE_CHECKING:  # so that a type checker reports unknown names

    def __getattr__(name: str) -> Any:
        """Import a public name on first use; afterwards it is an attribute of the module."""
        found = next((each for each, names in _MODULES.items() if name in names), None)
        if found is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        module = import_module(f".{found}", __name__)
        return globals().setdefault(name, getattr(module, name))


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
