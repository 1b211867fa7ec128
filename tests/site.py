"""Look whether the site holds together: `python -m tests.site build/site`, as `run.py docs` does.

Each link leads to a page of it, and to an anchor that is there; other sites are not asked. Each
public name is in the inventory, by which other projects link to it, and in the index that the
site's own search looks through.
"""

from __future__ import annotations

import json
import sys
import zlib
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from tests import reference


class Page(HTMLParser):
    """The anchors of a page, and where its links lead.

    Args:
        path: of the page's file.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: set[str] = set()
        self.feed(path.read_text("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what an element says of itself."""
        del tag
        told = dict(attrs)
        self.anchors.update(filter(None, [told.get("id")]))
        self.links.update(filter(None, [told.get("href"), told.get("src")]))


def dead_links(site: Path) -> Iterator[str]:
    """Yield the links between pages that lead nowhere."""
    pages = {path: Page(path) for path in sorted(site.rglob("*.html"))}
    for path, page in pages.items():
        for link in sorted(page.links):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            anchor = unquote(parts.fragment)
            known = pages[target].anchors if target in pages else set()
            if not target.exists() or (anchor and target in pages and anchor not in known):
                yield f"{path.relative_to(site)} links to {link}, which is not there"


def unfound_names(site: Path) -> Iterator[str]:
    """Yield what tells of public names that cannot be found."""
    inventory = (site / "objects.inv").read_bytes().split(b"\n", 4)[4]
    linked = {line.split(" ")[0] for line in zlib.decompress(inventory).decode().splitlines()}
    index = (site / "searchindex.js").read_text("utf-8")
    objects = json.loads(index[index.index("(") + 1 : index.rindex(")")])["objects"]
    searched = {f"{module}.{each[4]}" for module, found in objects.items() for each in found}
    for name in reference.public():
        if name not in linked:
            yield f"{name} is not in objects.inv"
        if name not in searched:
            yield f"{name} is not found by the site's search"


def main(site: Path) -> int:
    """Print what is wrong with a site, and return an exit code."""
    faults = [*dead_links(site.resolve()), *unfound_names(site)]
    for fault in faults:
        sys.stderr.write(f"{fault}\n")
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
