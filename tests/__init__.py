"""What all tests go by: where the project lies, and the published data beside it, where there is any."""

import os
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
SHARED_DATA = Path(os.environ.get("TRIBUNAL_SHARED_DATA") or PROJECT.parent / "shared" / "data")
