"""Masks secrets in texts, before they are cut or stored; SECURITY.md says what is masked, and what is not."""

from __future__ import annotations

import base64
import functools
import os
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote, quote_plus

from tune_media.values.foreign import is_a, shown, walked

HIDDEN = "***"
_MIN_LENGTH = 8  # of a secret that is searched for: a shorter one may be any word of a message
_MIN_LINE = 16
_WORDS = "token|secret|password|passwd|passphrase|credential|cookie|pat|dsn"
_HOLDING = (str, bytes, dict, list, tuple)
_kept: set[str] = set()
_VARIABLE = re.compile(
    rf"(?:(?:^|_)(?:key|auth|{_WORDS})s?_?\d*|(?:api|access)keys?\d*|webhook(?:_url)?)$", re.IGNORECASE
)
# A number, an absolute path, or a few words in lower case, such as `postgres`, that other texts have, too
_HARMLESS = re.compile(r"[-+]?[\d.]+(?:e[-+]?\d+)?|/.*|(?=.{,19}\Z)[a-z]+(?:[ _.-][a-z]+)*[_.-]?\d{,3}", re.DOTALL)

# Ends of names, in lower case
_NAME = (
    rf"(?:{_WORDS}|authorization|auth(?<![\w-]auth)|-key(?<=\w-key)"
    r"|(?:api|access|account|private|secret|subscription)[ _-]?key)s?_?\d*"
)
_BEFORE_VALUE = re.compile(rf"{_NAME}(?=\\?[\"']?\s*[:=])")
_WHOLE_NAME = re.compile(rf"{_NAME}(?=[/.]|\Z)")
_WORD_START = re.compile(r"(?<![A-Za-z])|(?<=[a-z])(?=[A-Z])|-")
_CHARACTER = r"""[^\s&"'<>,;()\[\]{}]"""
_NO_DIGITS = rf"{_CHARACTER[:-1]}\d]{{0,200}}"
# What is in quotes; after a `=` one word, and after a space one that has a digit (not `token: expired`)
_VALUE = re.compile(
    r"""\\?["']?\s*[:=](?:\s*[bf]?\\?(?:"([^"\\]+)|'([^'\\]+))"""
    rf"""|(?<==)({_CHARACTER}+)(?<![:.])(?![^\s&"'<>,;)\]}}])|\s*(?={_NO_DIGITS}\d)({_CHARACTER}{{{_MIN_LENGTH},}})(?<![:.]))"""
)
_OF_HEADER = re.compile(r"""["']?: ?b?["']?([^\r\n"']+)""")
_HEADERS = ("authorization", "-key")
_QUERY = re.compile(
    r"(?i)([?&](?:sig|key|code|auth|sid|jwt|pass|pwd|session(?:_?id)?|(?:x-(?:amz|goog)-)?(?:signature|credential))=)"
    r"""([^\s&"'<>#]+)(?<![:.])"""
)
_NOT_SECRET = re.compile(r"(?i)[-+]?[\d.,]+(?:e[-+]?\d+)?|true|false|none|null|nan|[-+]?inf(?:inity)?")
_CREDENTIALS = re.compile(r"""(?<=\w)://[^\s/?#'"<>]*@""")
_PRIVATE_KEY = re.compile(r"(-----BEGIN [A-Z ]*PRIVATE KEY-----).*?(?=-----END|\Z)", re.DOTALL)


def keep_secret(*secrets: str | None) -> None:
    """Keep keys and tokens out of every text of this process from now on."""
    _kept.update(secret for secret in secrets if secret)


def redacted(text: str) -> str:
    """Return a text without the secrets that SECURITY.md names; mask first, and cut afterwards."""
    return _redacted(text, _known())


def _redacted(text: str, known: re.Pattern[str] | None) -> str:
    if known is not None:
        text = known.sub(HIDDEN, text)
    if "PRIVATE KEY" in text:
        text = _PRIVATE_KEY.sub(rf"\1{HIDDEN}", text)
    if "://" in text:
        text = _CREDENTIALS.sub(f"://{HIDDEN}@", text)
    if "=" not in text and ":" not in text:
        return text
    if "?" in text or "&" in text:
        text = _QUERY.sub(_masked, text)
    return _without_named(text)


def _without_named(text: str) -> str:
    """Return a text without the values of names such as ``token``."""
    parts, done = [], 0
    for name in _BEFORE_VALUE.finditer(_lower(text)):
        if name.start() < done or not _WORD_START.match(text, name.start()):
            continue
        is_header = text[max(0, name.start() - 1) : name.end()].lower().endswith(_HEADERS)
        value = (is_header and _OF_HEADER.match(text, name.end())) or _VALUE.match(text, name.end())
        if value is not None and not _NOT_SECRET.fullmatch(value[value.lastindex or 0].strip()):
            start, end = value.span(value.lastindex or 0)
            parts += [text[done:start], HIDDEN]
            done = end
    return "".join(parts) + text[done:]


def _masked(query: re.Match[str]) -> str:
    return query[0] if _NOT_SECRET.fullmatch(query[2]) else f"{query[1]}{HIDDEN}"


def redacted_values(value: Any, name: str = "") -> Any:
    """Return a value with the texts in it redacted, those whole that the name of a secret names, for a pickle.

    >>> redacted_values({"api_key": "abc", "notes": ["s3://me:abc@bucket", 3]})
    {'api_key': '***', 'notes': ['s3://***@bucket', 3]}
    """
    if not isinstance(value, _HOLDING):
        return value
    known = _known()

    def masked(value: Any, place: Any) -> Any:
        if not isinstance(value, (str, bytes)) or not value:
            return value
        while place is not None:  # of {"tokens": {"hub": ...}}, all texts are secret
            place, key = place
            if type(key) is str and is_secret_name(key):
                return HIDDEN
        return _redacted(value, known) if isinstance(value, str) else value

    return walked(value, masked, (None, name) if name else None, lambda place, key: (place, key))


@functools.lru_cache(maxsize=10_000)
def is_secret_name(name: str) -> bool:
    """Return whether a part of a name, such as that of a hyperparameter, is the name of a secret.

    >>> [is_secret_name(name) for name in ("wandb.api_key", "tokens/value", "auth", "cnn_keys", "env_config/lr")]
    [True, True, True, False, False]
    """
    ends = _WHOLE_NAME.finditer(_lower(name))
    return any(_WORD_START.match(name, end.start()) for end in ends)


def _lower(text: str) -> str:
    """Return a text of the same length in lower case: a few letters outside ASCII become two."""
    return (text if text.isascii() else text.encode("ascii", "replace").decode()).lower()


def without_secret(name: str, value: Any) -> Any:
    """Return a hyperparameter as people may see it, without secrets; a number or a switch is none.

    >>> without_secret("login/password", "abc"), without_secret("model/max_tokens", 512), without_secret("lr", 0.1)
    ('***', 512, 0.1)
    """
    if value is None or is_a(value, (bool, int, float)) or (is_a(value, str) and not value):
        return value
    return HIDDEN if is_secret_name(name) else redacted_values(value)


def error_text(error: BaseException) -> str:
    """Return the type and the message of an exception, without secrets; it never raises."""
    return f"{type(error).__name__}: {redacted(shown(error, str))}"


def _known() -> re.Pattern[str] | None:
    """Return what finds the secrets of the environment, and those that were kept, in all their forms."""
    values = (os.environ.get(name, "") for name in os.environ if _is_secret_variable(name))
    return _pattern(frozenset(_kept).union(v for v in values if len(v) >= _MIN_LENGTH and not _HARMLESS.fullmatch(v)))


@functools.cache
def _is_secret_variable(name: str) -> bool:
    return _VARIABLE.search(name) is not None


@functools.lru_cache(maxsize=4)
def _pattern(secrets: frozenset[str]) -> re.Pattern[str] | None:
    forms = {form for secret in secrets for form in _forms(secret) if len(form) >= _MIN_LENGTH or form in secrets}
    return re.compile("|".join(map(re.escape, sorted(forms, key=len, reverse=True)))) if forms else None


def _forms(secret: str) -> Iterator[str]:
    yield from (secret, quote(secret, safe=""), quote_plus(secret), repr(secret)[1:-1])
    yield from (line for line in secret.splitlines() if len(line) >= _MIN_LINE)
    content = secret.encode("utf-8", "surrogateescape")
    for before in range(3):  # bytes, for example of a user's name; characters that hold parts of others are left out
        text = base64.b64encode(bytes(before) + content).decode().rstrip("=")
        inner = text[(0, 2, 3)[before] : len(text) - ((before + len(content)) % 3 > 0)]
        yield from (inner, inner.replace("+", "-").replace("/", "_"))
