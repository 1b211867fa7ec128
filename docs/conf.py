"""How `python3 run.py docs` makes a site of these pages, which stay readable where they lie.

A page links to others as files, as GitHub wants it. What lies beside `docs/` is no page of the
site: there a link leads to the repository, whose address is in `pyproject.toml`. The first page is
the README, with the table of contents of `index.md` after it.
"""

from __future__ import annotations

import logging
import posixpath
import re
import tomllib
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.util.logging import getLogger

DOCS = Path(__file__).parent
ROOT = DOCS.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]

project = PROJECT["name"]
version = release = PROJECT["version"]
author = copyright = PROJECT["authors"][0]["name"]  # noqa: A001  # Sphinx's name

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_build"]

html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_title = f"{project} {version}"
html_theme_options = {
    "source_repository": PROJECT["urls"]["Repository"],
    "source_branch": "main",
    "source_directory": "docs/",
}

myst_heading_anchors = 4
# a block that names no language is what a program prints
highlight_language = "text"
# `do $$ ... $$` is no SQL to the highlighter, though it is to PostgreSQL
suppress_warnings = ["misc.highlighting_failure"]

# `RefSession` in a docstring is a link where it is a public name, and code where it is not
default_role = "py:obj"
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
maximum_signature_line_length = 88
napoleon_numpy_docstring = False
toc_object_entries_show_parents = "hide"

_log = getLogger(__name__)
logging.getLogger("alembic").setLevel(logging.WARNING)  # tells of each plugin that it sets up

_CODE = re.compile(r"(^```.*?^```$|`[^`\n]+`)", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"(?<=\]\()([^)#\s]+)(?=[)#])")
_INDENTED = re.compile(r" {4,}\S")


def relink(text: str, folder: str) -> str:
    """Return a page with links that hold on the site, outside its code.

    Args:
        text: of the page.
        folder: where it lies, from the root of the repository.
    """

    def relinked(found: re.Match[str]) -> str:
        target = found[1]
        if "://" in target or target.startswith("mailto:"):
            return target
        path = posixpath.normpath(posixpath.join(folder, target))
        if not (ROOT / path).exists():
            raise FileNotFoundError(
                f"a page in {folder!r} links to {target!r}, which is not there"
            )
        if path == "README.md":
            return posixpath.relpath("docs/index.md", folder or ".")
        if path.startswith("docs/") and path.endswith((".md", ".svg")):
            return posixpath.relpath(path, folder if folder.startswith("docs") else "docs")
        kind = "tree" if (ROOT / path).is_dir() else "blob"
        return f"{PROJECT['urls']['Repository']}/{kind}/main/{path}"

    parts = _CODE.split(text)
    parts[::2] = [_LINK.sub(relinked, part) for part in parts[::2]]
    return "".join(parts)


def read_page(_: Sphinx, name: str, source: list[str]) -> None:
    """Put links right, and the README before the table of contents."""
    if name == "index":
        source[0] = relink(f"{(ROOT / 'README.md').read_text('utf-8')}\n{source[0]}", "")
    else:
        source[0] = relink(source[0], posixpath.dirname(f"docs/{name}"))


def read_docstring(_: Sphinx, __: str, ___: str, ____: Any, _____: Any, lines: list[str]) -> None:
    """Make blocks of code of what docstrings fence, or indent after an empty line."""
    fenced, previous, made = False, "", []
    for line in lines:
        if line.startswith(
            ".. container::"
        ):  # a class of SQLAlchemy's own site, around an example
            continue
        if line.strip().startswith("```"):
            fenced = not fenced
            made += ["", ".. code-block:: python", ""] if fenced else [""]
        elif fenced:
            made.append(f"    {line}")
        else:
            starts = made and not made[-1].strip() and _INDENTED.match(line)
            if (
                starts
                and previous
                and not previous.startswith(" ")
                and not previous.endswith("::")
            ):
                made += [".. code-block:: python", ""]
            made.append(line)
            previous = line if line.strip() else previous
    lines[:] = made


def setup(app: Sphinx) -> None:
    """Have pages and docstrings read as above."""
    app.connect("source-read", read_page)
    app.connect("autodoc-process-docstring", read_docstring, priority=1)  # before napoleon
