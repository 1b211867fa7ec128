"""An application with PostgreSQL, PgBouncer and the inspector, in containers: see `README.md`."""
