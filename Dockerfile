# The service. Built by `docker compose build`, or `docker build -t tribunal .`; docs/operating.md tells how it runs.
FROM python:3.11-slim@sha256:9c900dea9e8fb7e16277c179b555cc72d29a352dbc33cff48ad5a0412fd5bfc7 AS build
COPY .ci/uv.txt /tmp/uv.txt
RUN pip install --no-cache-dir --require-hashes -r /tmp/uv.txt
ENV UV_PROJECT_ENVIRONMENT=/opt/tribunal UV_LINK_MODE=copy UV_NO_CACHE=1 UV_PYTHON_DOWNLOADS=never
WORKDIR /src
# What it depends on changes seldom, and is a layer of its own.
COPY pyproject.toml uv.lock README.md LICENSE ./
RUN uv sync --locked --no-dev --extra service --no-install-project
COPY . .
RUN uv sync --locked --no-dev --extra service --no-editable --compile-bytecode

# The same Python, and what was installed; neither uv, nor the sources, nor anything that compiles.
FROM python:3.11-slim@sha256:9c900dea9e8fb7e16277c179b555cc72d29a352dbc33cff48ad5a0412fd5bfc7
RUN useradd --uid 10001 --no-create-home --home-dir /data --shell /usr/sbin/nologin tribunal \
    && mkdir /data && chown tribunal /data
COPY --from=build /opt/tribunal /opt/tribunal
ENV PATH=/opt/tribunal/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 \
    TRIBUNAL_DATA=/data TRIBUNAL_SERVE_HOST=0.0.0.0
USER 10001
WORKDIR /data
VOLUME /data
EXPOSE 8080
HEALTHCHECK --start-period=30s --interval=15s --timeout=5s \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8080/healthz', timeout=4)"]
ENTRYPOINT ["tribunal"]
CMD ["serve"]
