"""The user that runs PostgreSQL, which refuses to run as root.

In: the current user and user namespace. Out: an `Account` that starts commands. It never adds a
user, and changes only the directories that it receives.
"""

from __future__ import annotations

import os
import pwd
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

UNPRIVILEGED = "nobody"


@dataclass(frozen=True, slots=True)
class Account:
    """The user that server processes run as.

    Attributes:
        user: user id to switch to; None for the current user.
        group: group id to switch to; None for the current group.
        prefix: words before a command, where setuid is not possible.
    """

    user: int | None = None
    group: int | None = None
    prefix: tuple[str, ...] = ()

    def start(self, command: Sequence[str | Path], **options: Any) -> subprocess.Popen[bytes]:
        """Start `command` as this account, without standard input."""
        return subprocess.Popen(
            [*self.prefix, *command],
            stdin=subprocess.DEVNULL,
            user=self.user,
            group=self.group,
            # without this, the process would keep root's supplementary groups
            extra_groups=None if self.user is None else [],
            **options,
        )

    def own(self, *paths: Path) -> None:
        """Change the owner of `paths` and everything below to this account."""
        if self.user is None or self.group is None:
            return
        for path in paths:
            for inner in (path, *path.rglob("*")):
                os.chown(inner, self.user, self.group, follow_symlinks=False)

    def can_run(self, program: Path) -> bool:
        """Return whether this account can execute `program` and read its libraries."""
        try:
            process = self.start(
                [program, "--version"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
        except PermissionError:
            return False
        return process.wait() == 0


def server_account() -> Account:
    """Return the account for PostgreSQL: the current user, or `nobody` for root."""
    if os.geteuid() != 0:
        return Account()
    nobody = pwd.getpwnam(UNPRIVILEGED)
    if _maps("uid", nobody.pw_uid) and _maps("gid", nobody.pw_gid):
        return Account(nobody.pw_uid, nobody.pw_gid)
    # this user namespace lacks the id; in a nested one, our own id can be mapped to it
    return Account(prefix=("unshare", "--user", f"--map-user={nobody.pw_uid}", "--"))


def _maps(kind: str, wanted: int) -> bool:
    table = Path(f"/proc/self/{kind}_map")
    # without this file there are no user namespaces, and every id exists
    return not table.exists() or maps(table.read_text().splitlines(), wanted)


def maps(lines: Iterable[str], wanted: int) -> bool:
    """Return whether `wanted` is an id in the namespace that `lines` describe.

    Args:
        lines: of `/proc/self/uid_map` or `gid_map`: first id inside, first outside, count.
        wanted: an id inside.
    """
    ranges = (map(int, line.split()) for line in lines)
    return any(first <= wanted < first + count for first, _, count in ranges)
