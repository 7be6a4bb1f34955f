"""Embeddings as OpenAI serves them, by a hash of each text's words."""

from __future__ import annotations

import base64
import hashlib
import math
import re
import struct
from typing import Any

from tribunal.eval.doubles.scripted.request import JSON


def embedding(text: str, dimensions: int = 256) -> list[float]:
    """A unit vector of a text by its words, so that texts that share words lie near each other. Deterministic."""
    vector = [0.0] * dimensions
    for word in re.findall(r"\w+", text.lower()) or [""]:
        number = int.from_bytes(hashlib.blake2b(word.encode(), digest_size=8).digest())
        vector[(number >> 1) % dimensions] += 1.0 if number & 1 else -1.0
    length = math.hypot(*vector) or 1.0
    return [value / length for value in vector]


def embeddings(body: JSON) -> JSON:
    """The answer to a request for embeddings: of one text or several, as words or as token numbers."""
    given = body["input"]
    texts = [given] if isinstance(given, str) or (given and isinstance(given[0], int)) else given
    data = []
    for index, text in enumerate(texts):
        words = text if isinstance(text, str) else " ".join(map(str, text))
        vector: Any = embedding(words, body.get("dimensions") or 256)
        if body.get("encoding_format") == "base64":
            vector = base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()
        data.append({"object": "embedding", "index": index, "embedding": vector})
    usage = {"prompt_tokens": len(texts), "total_tokens": len(texts)}
    return {"object": "list", "data": data, "model": body["model"], "usage": usage}
