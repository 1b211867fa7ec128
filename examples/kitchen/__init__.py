"""A kitchen: an example domain with the relations that are hard on short refs.

``models`` are the tables and ``server`` what stands beside them in PostgreSQL, ``ingredients``
reads ingredient lines, ``load`` fills the tables with 404 real recipes, ``search`` finds in them
by people's own words, with vectors of ``embedding``. None of these knows of alfred_refs: they are
an ordinary SQLAlchemy application.

``turns`` is what an agent does with it, in refs; the other modules show that:
``python -m examples.kitchen`` runs ``demo``.
"""

from typing import Final

DEMO_USER: Final = "Alfred's guest"

CONVERSATION: Final = "kitchen-demo"
