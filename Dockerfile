# Both stages start from the same image, so that the virtual environment finds its Python again.
FROM python:3.11-slim-bookworm AS build

ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore
WORKDIR /src

# The packages first, as they change less often than the code. No pip in /app: nothing installs there
# later. The build back end comes from the developers' pins, the only ones that name it.
COPY requirements.lock requirements-dev.lock ./
RUN python -m venv --without-pip /app \
    && python -m pip --python /app/bin/python install --require-hashes -r requirements.lock \
    && awk '/^[a-zA-Z0-9]/ { keep = /^setuptools==/ } keep' requirements-dev.lock > build.lock \
    && python -m venv /build \
    && /build/bin/python -m pip install --require-hashes -r build.lock

COPY . .
RUN /build/bin/python -m pip wheel --no-deps --no-build-isolation --wheel-dir /wheels . \
    && python -m pip --python /app/bin/python install --no-deps /wheels/*.whl


FROM python:3.11-slim-bookworm

# The root file system may be mounted read-only: bytecode is there already, logs go to stdout.
ENV PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
COPY --from=build /app /app
# `tonnage migrate` reads alembic's settings and revisions from the working directory.
COPY pyproject.toml /srv/tonnage/
COPY migrations /srv/tonnage/migrations
WORKDIR /srv/tonnage

USER 65532:65532
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=3s --start-period=10s --retries=3 \
    CMD ["/app/bin/python", "-c", "from urllib.request import urlopen; urlopen('http://127.0.0.1:8000/health/live', timeout=2)"]
ENTRYPOINT ["/app/bin/tonnage"]
CMD ["serve", "--host", "0.0.0.0"]
