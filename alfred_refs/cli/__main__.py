"""`python -m alfred_refs.cli` is the `alfred-refs` command."""

from .main import main

main()
