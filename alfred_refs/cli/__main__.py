"""`python -m alfred_refs.cli` runs the `alfred-refs` command."""

from . import main

main()
