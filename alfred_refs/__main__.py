"""`python -m alfred_refs` is the `alfred-refs` command."""

from .cli import main

main()
