"""A kitchen: an example domain with the relations that are hard on short refs.

``models`` are the tables, ``ingredients`` reads ingredient lines, ``load`` fills the tables with
404 real recipes. Nothing here knows of alfred_refs: it is an ordinary SQLAlchemy application.
"""
