"""Providers whose servers speak as OpenAI's do, at addresses and with keys of their own."""

from __future__ import annotations

from tribunal.models.providers import openai
from tribunal.models.providers.provider import LISTS, RANGES, Provider


def compatible(
    name: str,
    *,
    default_url: str,
    keys: tuple[str, ...] = (),
    base_urls: tuple[str, ...] = (),
    where: str = "",
    most_texts: int | None = None,
) -> Provider:
    """A provider with an OpenAI-compatible server; what isn't said here is as in `Provider`.

    Args:
        name: what stands before the colon in a model's name.
        default_url: its address, with the `/v1` or the like.
        keys: the settings that keys are read from, in order; none: it takes no key.
        base_urls: the settings that another address is read from, in order.
        where: where a key is had.
        most_texts: how many texts it embeds in one request; None: it embeds none.
    """
    return Provider(
        name=name,
        make=openai.compatible_client,
        options=openai.options,
        keys=keys,
        base_urls=base_urls,
        default_url=default_url,
        where=where,
        listing="/models",
        bounds=LISTS | RANGES,
        takes_extra=True,
        embeddings=openai.embeddings(most_texts) if most_texts else None,
    )


QWEN = compatible(
    "qwen",
    default_url="https://dashscope-intl.aliyuncs.com/compatible-mode/v1",
    keys=("DASHSCOPE_API_KEY", "QWEN_API_KEY"),
    base_urls=("DASHSCOPE_BASE_URL", "QWEN_BASE_URL"),
    where="https://www.alibabacloud.com/help/en/model-studio",
    most_texts=10,
)
GLM = compatible(
    "glm",
    default_url="https://api.z.ai/api/paas/v4",
    keys=("ZAI_API_KEY", "ZHIPUAI_API_KEY", "GLM_API_KEY"),
    base_urls=("GLM_BASE_URL", "ZHIPUAI_BASE_URL"),
    where="https://z.ai/model-api",
    most_texts=64,
)
