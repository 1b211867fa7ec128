"""A SQLAlchemy ORM plugin: language models see short typed refs wherever the database has keys."""
