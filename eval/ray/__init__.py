"""Carry out runs on a Ray cluster."""

import os

# Started by `uv run`, as by ./run, Ray would copy the command's folder to every worker and start it by `uv run` there.
# It reads this when it is imported. Workers have the environment that is installed on their machine.
os.environ.setdefault("RAY_ENABLE_UV_RUN_RUNTIME_ENV", "0")
