"""Keep images and keys out of LangSmith traces."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from typing import Any

from tribunal.core.text import scrub
from tribunal.settings.environment import KEY_NAME, environment

_IMAGE = re.compile(r"data:image/[\w.+-]+;base64,[A-Za-z0-9+/=\s]+")
# Anthropic's and Google's wires have no data URI around it
_BASE64 = re.compile(r"[A-Za-z0-9+/]{1000,}={0,2}")
_DEEP = 64  # how deep a run's inputs are looked into; LangSmith's own bound is below the messages of an agent


def mask_trace() -> Callable[[Any], Any]:
    """Return the `anonymizer` of a LangSmith client that names images by their hash, and strikes keys out.

        langsmith.configure(client=langsmith.Client(anonymizer=mask_trace()))

    The keys are those of the environment and of `.env` as they are now, and whatever looks like one.
    """
    from langsmith.anonymizer import create_anonymizer

    secrets = {value for name, value in environment().items() if KEY_NAME.fullmatch(name)}

    def mask(text: str, path: list[str | int]) -> str:
        return scrub(_BASE64.sub(_name_image, _IMAGE.sub(_name_image, text)), secrets)

    return create_anonymizer(mask, max_depth=_DEEP)


def _name_image(image: re.Match[str]) -> str:
    written = image[0].partition("base64,")[2] or image[0]
    return (
        f"(an image, whose base64 has the SHA-256 {hashlib.sha256(written.encode()).hexdigest()})"
    )
