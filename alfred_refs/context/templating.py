"""The fixed texts of prompts: Markdown templates, any of which an application may replace.

```python
Templates("prompts/").text("base")  # prompts/base.md, or ours where there is none
```

Rendered by Jinja (`pip install alfred_refs[prompts]`); a name that a template is not given is an
error, not an empty place.
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from alfred_refs.errors import ContextError, TemplateError

if TYPE_CHECKING:
    from jinja2 import Environment

NAMES = ("base", "crud", "read", "write", "analyze", "generate", "decision")
"""All templates that there are, each in a file of this name with `.md`."""


class Templates:
    """The templates of one application.

    Args:
        directory: whose files replace ours, one by one; `None` for ours alone.

    Raises:
        ContextError: the directory is not there, or has a file that replaces nothing.
        TemplateError: one of its files is broken.
    """

    def __init__(self, directory: str | Path | None = None) -> None:
        self._directory = None if directory is None else Path(directory)
        if self._directory is not None:
            self._check(self._directory)

    def _check(self, directory: Path) -> None:
        if not directory.is_dir():
            raise ContextError(
                f"the directory of templates {str(directory)!r} is not there",
                "give one with files such as base.md, or none",
            )
        for file in sorted(directory.glob("*.md")):
            if file.stem not in NAMES:
                known = ", ".join(f"{name}.md" for name in NAMES)
                raise ContextError(
                    f"{file.name!r} replaces no template", f"name it one of {known}"
                )
            self._template(file.stem)

    @cached_property
    def _environment(self) -> Environment:
        try:
            import jinja2  # noqa: PLC0415  # an extra
        except ImportError as error:
            raise ContextError(
                "prompts are rendered by Jinja, which is not installed",
                "pip install 'alfred_refs[prompts]'",
            ) from error
        own = [] if self._directory is None else [jinja2.FileSystemLoader(self._directory)]
        ours = jinja2.FileSystemLoader(Path(__file__).parent / "templates")
        return jinja2.Environment(
            loader=jinja2.ChoiceLoader([*own, ours]),
            undefined=jinja2.StrictUndefined,
            autoescape=False,  # noqa: S701  # Markdown for a model; what users write is quoted
        )

    def _template(self, name: str) -> Any:
        from jinja2 import TemplateSyntaxError  # noqa: PLC0415  # an extra

        try:
            return self._environment.get_template(f"{name}.md")
        except (TemplateSyntaxError, UnicodeDecodeError) as error:
            raise TemplateError(name, f"is broken: {error}", "correct it") from error

    def text(self, name: str, **values: Any) -> str:
        """Return a template with its values.

        Raises:
            TemplateError: it is broken, or uses what it is not given.
        """
        template = self._template(name)
        from jinja2 import TemplateError as JinjaError  # noqa: PLC0415  # an extra

        try:
            return str(template.render(**values)).strip()
        except JinjaError as error:
            given = ", ".join(values) or "nothing"
            raise TemplateError(name, f"fails: {error}", f"it is given {given}") from error
