"""${message}.

It finds nothing to do where `RefRegistry.create_tables()` has done it: `if_not_exists=True`.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
${imports if imports else ""}
revision = ${repr(up_revision).replace("'", '"')}
down_revision = ${repr(down_revision).replace("'", '"')}
branch_labels = ${repr(branch_labels)}
depends_on = ${repr(depends_on)}

adds = ("table", "column")  # what shows that it is done
rewrites_rows = False  # autogenerate in an application does the rest


def upgrade() -> None:
    ${upgrades if upgrades else "pass"}


def downgrade() -> None:
    ${downgrades if downgrades else "pass"}
