ARG PYTHON_IMAGE=python:3.13-slim
FROM ${PYTHON_IMAGE} AS wheel
WORKDIR /package
COPY pyproject.toml README.md LICENSE ./
COPY alembic alembic
COPY alfred_refs alfred_refs
RUN python -m pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM ${PYTHON_IMAGE}
COPY --from=wheel /wheels /wheels
RUN python -m pip install --no-cache-dir "$(echo /wheels/*.whl)[inspect]" "psycopg[binary]"
WORKDIR /app
COPY examples/compose/app.py ./
USER nobody
CMD ["sh", "-c", "python -m app && exec uvicorn app:app --host 0.0.0.0 --port 8000"]
