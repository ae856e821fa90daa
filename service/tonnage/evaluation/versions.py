"""Release numbers out of what logs and reports call a version.

Development builds carry no release number and count as the newest that the catalog describes: the
cases of that kind are of late builds. ``(V0)`` and ``(V1)`` name vLLM's engine core, which two
releases in between chose per setup; the other core's defaults are those of the last release before
the change, or of the first after it.
"""

import re

LAST_OF_V0 = "0.7.3"
FIRST_OF_V1 = "0.8.0"
FORK_POINT = "b3600"
"""ik_llama.cpp counts its own builds from a llama.cpp of August 2024."""

_RELEASE = re.compile(r"^v?(\d+(?:\.(?:\d+|x))+)")
_BUILD = re.compile(r"^b?(\d{3,6})\b")
_DEVELOPMENT = re.compile(r"^0\.1\.dev\d+")


def vllm_version(text: str | None) -> str | None:
    """A version that the engine reads; None for development builds and for none stated."""
    if text is None or _DEVELOPMENT.match(text):
        return None
    found = _RELEASE.match(text)
    if found is None:
        return None
    version = found.group(1).replace("x", "9")
    numbers = tuple(int(part) for part in version.split("."))
    if "(V0)" in text and numbers >= (0, 8):
        return LAST_OF_V0
    if "(V1)" in text and numbers < (0, 8):
        return FIRST_OF_V1
    return version


def released(text: str | None) -> str | None:
    """The release that a version names, an open last part (``1.x``) counting as its newest."""
    found = _RELEASE.match(text or "")
    return found.group(1).replace("x", "9") if found else None


def llama_cpp_version(engine: str, build: str | None) -> str | None:
    """``1691 (7082d24)`` is b1691; None where no build is stated."""
    if engine == "ik_llama.cpp":
        return FORK_POINT
    found = _BUILD.match(build or "")
    return f"b{found.group(1)}" if found else None
