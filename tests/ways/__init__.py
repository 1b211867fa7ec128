"""Ways of using SQLAlchemy's sessions, tried on plain ones and on ones that are active."""
