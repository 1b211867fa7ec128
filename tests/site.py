"""Check links and names of the built site: `python -m tests.site build/site`.

Each link within the site must lead to an existing page and anchor. Each public name must be in the
inventory, which other projects use for links, and in the index of the site's search.
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
    """The anchors and links of a page.

    Args:
        path: of the page's file.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: set[str] = set()
        self.feed(path.read_text("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collect the id and link of an element."""
        del tag
        told = dict(attrs)
        self.anchors.update(filter(None, [told.get("id")]))
        self.links.update(filter(None, [told.get("href"), told.get("src")]))


def dead_links(site: Path) -> Iterator[str]:
    """Yield broken links within the site."""
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
    """Yield messages about public names that cannot be found."""
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
    """Print the errors of a site, and return an exit code."""
    faults = [*dead_links(site.resolve()), *unfound_names(site)]
    for fault in faults:
        sys.stderr.write(f"{fault}\n")
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
