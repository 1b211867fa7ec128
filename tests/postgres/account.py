"""Who runs PostgreSQL, which refuses to run as root.

In: the process' own user and the user namespace it is in. Out: an `Account` that starts commands.
It never adds a user or changes a directory that it was not given.
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
        user: user id to switch to; None to stay who we are.
        group: group id to switch to; None to stay in ours.
        prefix: words to put before a command, for a switch that the kernel would not make.
    """

    user: int | None = None
    group: int | None = None
    prefix: tuple[str, ...] = ()

    def start(self, command: Sequence[str | Path], **options: Any) -> subprocess.Popen[bytes]:
        """Start `command` as this account, without any input."""
        return subprocess.Popen(
            [*self.prefix, *command],
            stdin=subprocess.DEVNULL,
            user=self.user,
            group=self.group,
            # the supplementary groups of root would stay, and with them what they may read
            extra_groups=None if self.user is None else [],
            **options,
        )

    def own(self, *paths: Path) -> None:
        """Make `paths`, and all that is below them, this account's."""
        if self.user is None or self.group is None:
            return
        for path in paths:
            for inner in (path, *path.rglob("*")):
                os.chown(inner, self.user, self.group, follow_symlinks=False)

    def can_run(self, program: Path) -> bool:
        """Tell whether this account can execute `program`, libraries and parents included."""
        try:
            process = self.start(
                [program, "--version"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
        except PermissionError:
            return False
        return process.wait() == 0


def server_account() -> Account:
    """Return whom to run PostgreSQL as: ourselves, or `nobody` if we are root."""
    if os.geteuid() != 0:
        return Account()
    nobody = pwd.getpwnam(UNPRIVILEGED)
    if _maps("uid", nobody.pw_uid) and _maps("gid", nobody.pw_gid):
        return Account(nobody.pw_uid, nobody.pw_gid)
    # only some ids exist in this user namespace; in one more, ours can be called nobody's
    return Account(prefix=("unshare", "--user", f"--map-user={nobody.pw_uid}", "--"))


def _maps(kind: str, wanted: int) -> bool:
    table = Path(f"/proc/self/{kind}_map")
    # no such file, no user namespaces: every id exists
    return not table.exists() or maps(table.read_text().splitlines(), wanted)


def maps(lines: Iterable[str], wanted: int) -> bool:
    """Tell whether `wanted` is an id in the namespace that `lines` describe.

    Args:
        lines: of `/proc/self/uid_map` or `gid_map`: first id inside, first outside, count.
        wanted: an id inside.
    """
    ranges = (map(int, line.split()) for line in lines)
    return any(first <= wanted < first + count for first, _, count in ranges)
