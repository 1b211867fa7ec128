"""What looks into the site and into what is distributed finds what it is there to find."""

from __future__ import annotations

import io
import tarfile
import zipfile
import zlib
from pathlib import Path

import pytest

from tests import distributions, reference, site

pytestmark = pytest.mark.once


def test_links_that_lead_nowhere_are_found(tmp_path: Path) -> None:
    """To a page, an anchor or a picture that is not there; other sites are not asked."""
    (tmp_path / "index.html").write_text(
        '<h1 id="top"><a href="#top">1</a><a href="other.html#here">2</a>'
        '<a href="#gone">3</a><a href="none.html">4</a><img src="picture.svg">'
        '<a href="other.html#gone">5</a><a href="https://example.org/none">6</a>'
    )
    (tmp_path / "other.html").write_text('<h1 id="here">')

    assert list(site.dead_links(tmp_path)) == [
        f"index.html links to {link}, which is not there"
        for link in ("#gone", "none.html", "other.html#gone", "picture.svg")
    ]


def test_names_that_are_not_found_are_told(tmp_path: Path) -> None:
    """Each name that is in neither the inventory nor the index."""
    (tmp_path / "objects.inv").write_bytes(b"1\n2\n3\n4\n" + zlib.compress(b""))
    (tmp_path / "searchindex.js").write_text('Search.setIndex({"objects":{}})')

    assert len(list(site.unfound_names(tmp_path))) == 2 * len(list(reference.public()))


def test_what_a_wheel_lacks_and_has_too_much_is_told(tmp_path: Path) -> None:
    """And addresses of other places, and a README whose links are of a checkout."""
    wheel = tmp_path / "one.whl"
    names = sorted(distributions.expected())
    about = "Project-URL: Repository, https://a\nProject-URL: Issues, https://b\n\n[x](docs/a.md)"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name in [*names[1:], "tests/test_one.py"]:
            archive.writestr(name, "")
        archive.writestr("one.dist-info/METADATA", about)

    assert list(distributions.faults_of_wheel(wheel)) == [
        f"the wheel lacks {names[0]}",
        "the wheel has tests/test_one.py too",
        "https://b is another place",
        "the README's links lead nowhere on PyPI",
    ]


def test_what_was_made_on_the_way_is_found_in_an_sdist(tmp_path: Path) -> None:
    """Beside all that it lacks."""
    sdist = tmp_path / "one.tar.gz"
    with tarfile.open(sdist, "w:gz") as archive:
        archive.addfile(tarfile.TarInfo("one/tests/__pycache__/a.pyc"), io.BytesIO())
    *lacks, made = distributions.faults_of_sdist(sdist)

    assert made == "the sdist has tests/__pycache__/a.pyc"
    assert "the sdist lacks README.md" in lacks
