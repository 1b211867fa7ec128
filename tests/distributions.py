"""Check the contents of sdist and wheel: `python -m tests.distributions dist`.

The wheel has the package, its migrations and metadata, and nothing else. The sdist has the tests
too. Neither has build artefacts.
"""

from __future__ import annotations

import sys
import tarfile
import zipfile
from collections.abc import Iterator
from email import message_from_string
from email.message import Message
from pathlib import Path

ROOT = Path(__file__).parents[1]

# folder of the checkout -> folder in the wheel
PACKED = {"alfred_refs": "alfred_refs", "alembic": "alfred_refs/store/migrations"}

IN_SDIST = (
    *("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "pyproject.toml", "run.py"),
    *("docs/index.md", "docs/picture.svg", "examples/typed.py", "tests/conftest.py"),
)

MADE = ("__pycache__", ".venv", "build/", ".pyc", ".git/", "_cache/")


def expected() -> set[str]:
    """Return the expected files of a wheel."""
    return {
        f"{inside}/{path.relative_to(ROOT / folder).as_posix()}"
        for folder, inside in PACKED.items()
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def faults_of_wheel(wheel: Path) -> Iterator[str]:
    """Yield missing and unexpected files of a wheel, and errors in its metadata."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        about = next(name for name in names if name.endswith(".dist-info/METADATA"))
        told = message_from_string(archive.read(about).decode("utf-8"))
    files = {name for name in names if ".dist-info/" not in name}
    yield from (f"the wheel lacks {name}" for name in sorted(expected() - files))
    yield from (f"the wheel has {name} too" for name in sorted(files - expected()))
    yield from _faults_of_metadata(told)


def _faults_of_metadata(told: Message) -> Iterator[str]:
    urls = dict(url.split(", ") for url in told.get_all("Project-URL", ()))
    repository = urls["Repository"]
    yield from (f"{url} is another place" for url in urls.values() if repository not in url)
    text = str(told.get_payload())
    if "](docs/" in text or f"]({repository}/raw/main/docs/picture.svg)" not in text:
        yield "the README's links lead nowhere on PyPI"


def faults_of_sdist(sdist: Path) -> Iterator[str]:
    """Yield missing and unexpected files of an sdist."""
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    wanted = {path.relative_to(ROOT).as_posix() for path in (ROOT / "alfred_refs").rglob("*.py")}
    yield from (f"the sdist lacks {name}" for name in sorted({*IN_SDIST, *wanted} - names))
    yield from (f"the sdist has {name}" for name in names if any(each in name for each in MADE))


def main(built: Path) -> int:
    """Print the errors of the distributions in a folder, and return an exit code."""
    [wheel], [sdist] = built.glob("*.whl"), built.glob("*.tar.gz")
    faults = [*faults_of_wheel(wheel), *faults_of_sdist(sdist)]
    for fault in faults:
        sys.stderr.write(f"{fault}\n")
    if not faults:
        sizes = (path.stat().st_size // 1_000 for path in (wheel, sdist))
        sys.stdout.write(
            "a wheel of {} kB and an sdist of {} kB hold what they should\n".format(*sizes)
        )
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
