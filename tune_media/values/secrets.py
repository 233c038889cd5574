"""Texts without keys and passwords: an exception is turned into text here, so that no index line or log shows any."""

from __future__ import annotations

import os
import re

from tune_media.values.foreign import shown

_HIDDEN = "***"
_MIN_LENGTH = 8  # of an environment variable's value: a shorter one may be any word of a message
_MAX_TEXT = 10_000  # characters: some patterns take the square of it
_kept: set[str] = set()
_IN_ENVIRONMENT = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)$", re.IGNORECASE)

# A password in a URI ends at the last @: of the host's part for http, which has no "/" in it, and of all for databases.
_PASSWORD = re.compile(r"""(https?://)[^/\s'"]*@|(\b\w+://)[^/:@\s'"]*(?::[^\s'"]*)?@""")

# The name of a secret, and what stands between it and its value: `sig=`, `api_key='`, `"token": "`, `X-Api-Key: `.
_NAME = r"""(?<![\w-])[\w-]*?
    (?:sig|signature|api-?_?key|apikey|access_?-?key|account_?key|secret|secret_?-?key|token|passw(?:or)?d|pwd
    |credentials?|authorization)"""
_CHARACTER = r"""[^\s&"'<>,;)\]}]"""
_VALUE = r"""(?!None\b|null\b|\*\*\*)(?:(?:Basic|Bearer)\s+)?"""
_ASSIGNED = re.compile(
    rf"""(?ix)
    ({_NAME}\\?["']?\s*[=:]\s*\\?")(?!\\?")[^"]+ |           # in quotes, whatever is in it
    ({_NAME}\\?["']?\s*[=:]\s*')(?!')[^']+ |
    ({_NAME}=){_VALUE}{_CHARACTER}*(?![:.]){_CHARACTER} |
    ({_NAME}\\?["']?:\s*){_VALUE}(?=\S*\d){_CHARACTER}{{{_MIN_LENGTH},}}   # `token: expired` says no secret
    """
)
_BEARER = re.compile(r"(?i)(\b(?:Basic|Bearer)\s+)(?=\S*\d)[\w.~+/=-]{8,}")


def keep_secret(*secrets: str | None) -> None:
    """Keep keys and tokens out of every text of this process from now on."""
    _kept.update(secret for secret in secrets if secret)


def redacted(text: str) -> str:
    """Return a text without the keys and passwords that it may repeat.

    Left out are: what ``keep_secret`` was given; the values of environment variables whose names end like
    ``AWS_SECRET_ACCESS_KEY`` or ``HF_TOKEN``; passwords in URIs; and the values of names such as ``sig``, ``token`` and
    ``api_key``, in a query, a header, an argument or a dict. A text above 10,000 characters is cut.

    Example:
        >>> redacted("postgresql://me:se/c@ret@host/runs and http://me:secret@host/a@b")
        'postgresql://***@host/runs and http://***@host/a@b'
        >>> redacted("https://host/clip.mp4?sv=2024&sig=Zm9v%3D: 403, {'api_key': 'abc', 'project': 'walkers'}")
        "https://host/clip.mp4?sv=2024&sig=***: 403, {'api_key': '***', 'project': 'walkers'}"
        >>> redacted("s3://bucket/a@b and file:///home/me@work")
        's3://bucket/a@b and file:///home/me@work'
    """
    for secret in sorted(_kept | _secrets_of_environment(), key=len, reverse=True):
        text = text.replace(secret, _HIDDEN)
    if len(text) > _MAX_TEXT:
        text = f"{text[:_MAX_TEXT]}…"
    text = _PASSWORD.sub(lambda found: f"{found[1] or found[2]}{_HIDDEN}@", text)
    text = _ASSIGNED.sub(lambda found: f"{next(filter(None, found.groups()))}{_HIDDEN}", text)
    return _BEARER.sub(rf"\1{_HIDDEN}", text)


def error_text(error: BaseException) -> str:
    """Return the type and the message of an exception, without secrets; it never raises.

    Example:
        >>> error_text(OSError("PUT https://host/clip.mp4?sig=abc: no answer"))
        'OSError: PUT https://host/clip.mp4?sig=***: no answer'
    """
    return f"{type(error).__name__}: {redacted(shown(error, str))}"


def _secrets_of_environment() -> set[str]:
    return {value for name, value in os.environ.items() if len(value) >= _MIN_LENGTH and _IN_ENVIRONMENT.search(name)}
