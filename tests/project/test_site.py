"""The checks of the site and of the distributions find errors."""

from __future__ import annotations

import io
import tarfile
import zipfile
import zlib
from pathlib import Path

from tests import distributions, reference, site


def test_broken_links_are_found(tmp_path: Path) -> None:
    """To a missing page, anchor or picture; links to other sites are not checked."""
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


def test_names_that_cannot_be_found_are_reported(tmp_path: Path) -> None:
    """Each name that is missing in the inventory or in the index."""
    (tmp_path / "objects.inv").write_bytes(b"1\n2\n3\n4\n" + zlib.compress(b""))
    (tmp_path / "searchindex.js").write_text('Search.setIndex({"objects":{}})')

    assert len(list(site.unfound_names(tmp_path))) == 2 * len(list(reference.public()))


def test_missing_and_unexpected_files_of_a_wheel_are_reported(tmp_path: Path) -> None:
    """And wrong URLs, and a README with relative links."""
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


def test_build_artefacts_in_an_sdist_are_reported(tmp_path: Path) -> None:
    """And missing files."""
    sdist = tmp_path / "one.tar.gz"
    with tarfile.open(sdist, "w:gz") as archive:
        archive.addfile(tarfile.TarInfo("one/tests/__pycache__/a.pyc"), io.BytesIO())
    *lacks, made = distributions.faults_of_sdist(sdist)

    assert made == "the sdist has tests/__pycache__/a.pyc"
    assert "the sdist lacks README.md" in lacks
