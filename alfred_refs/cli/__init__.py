"""The `alfred-refs` command: the registry's tables, and the conversations in them.

    $ alfred-refs migrate postgresql://localhost/app
    the registry's tables are at revision 0008
    $ alfred-refs resolve chat-7 recipe_1
    a508000d-9b55-40f0-8886-dbdd88bd2de2

| module | contents |
| --- | --- |
| `commands` | the command group, and most commands |
| `doctor` | `alfred-refs doctor`: check a toolset |
| `serving` | `alfred-refs mcp` and `alfred-refs inspect`: serve a toolset |
| `console` | shared by the commands: options, errors on one line, tables and JSON |

It needs the extra `cli`. Nothing else in the package imports it, and `alfred-refs --help` imports
neither SQLAlchemy nor rich's console: commands import their modules when they run.
"""

import sys

_EXTRA = ("click", "rich")


def main() -> None:
    """Run the command.

    Raises:
        SystemExit: always: 0 if it succeeded, 1 if it failed, 2 if it was misused or the extra is
            not installed.
    """
    try:
        from alfred_refs.cli.commands import alfred_refs
    except ModuleNotFoundError as error:
        package = str(error.name).partition(".")[0]
        if package not in _EXTRA:
            raise
        sys.stderr.write(f"alfred-refs needs {package}; run `pip install alfred-refs[cli]`\n")
        sys.exit(2)
    alfred_refs(prog_name="alfred-refs")
