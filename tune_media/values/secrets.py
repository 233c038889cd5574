"""Texts without keys and passwords: an exception is turned into text here, so that no index line or log shows any."""

from __future__ import annotations

import os
import re
from typing import Any
from urllib.parse import quote, quote_plus

from tune_media.values.foreign import shown

HIDDEN = "***"
_MIN_LENGTH = 8  # of an environment variable's value: a shorter one may be any word of a message
_MAX_TEXT = 10_000  # characters: some patterns take the square of it
_kept: set[str] = set()
_IN_ENVIRONMENT = re.compile(
    r"(KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIALS?|COOKIE|CONN(ECTION)?_STR(ING)?|WEBHOOK(_URL)?"
    r"|(^|_)(PAT|PASS|PW|AUTH|DSN))\d*$",
    re.IGNORECASE,
)
_URI_WITH_PASSWORD = re.compile(r"\w+://[^/:@\s]*:([^\s]+)@|https?://([^/:@\s]+)@")

# A password in a URI ends at the last @: of the host's part for http, which has no "/" in it, and of all for databases.
_PASSWORD = re.compile(
    r"""(https?://)[^/\s'"]*@|(\b\w+://)[^/:@\s'"]*(?::[^\s'"]*)?@|(\b\w+%3A%2F%2F)[^\s'"&/]*%40""", re.IGNORECASE
)
_PRIVATE_KEY = re.compile(r"(-----BEGIN [\w ]*PRIVATE KEY[\w ]*-----).*?(?=-----END|\Z)", re.DOTALL)
_HEADER = re.compile(
    r"""(?i)(?<![\w-])((?:proxy-)?authorization|(?:set-)?cookie)(:\s*)(?!\*\*\*)"""
    r"""(?=[^\s=;,'"]{1,200}=|(?:(?!cookie)[^\r\n'"]){0,200}\d)[^\r\n'"]{4,}"""
)

# The name of a secret, and what stands between it and its value: `sig=`, `api_key='`, `"token": "`, `X-Api-Key: `.
_WORD = r"""(?:sig|signature|api[-_ ]?key|access_?-?key|account_?key|private_?-?key|secret|secret_?-?key|token
    |passw(?:or)?d|passphrase|pwd|credentials?|authorization|cookie)"""
_NAME = rf"(?<![\w-])[\w-]*?{_WORD}"
_CHARACTER = r"""[^\s&"'<>,;)\]}]"""
_VALUE = r"""(?!None\b|null\b|\*\*\*)(?:(?:Basic|Bearer)\s+)?"""
_ASSIGNED = re.compile(
    rf"""(?ix)
    ({_NAME}\\?["']?\s*[=:]\s*b?\\?")(?!\\?")[^"]+ |           # in quotes, whatever is in it
    ({_NAME}\\?["']?\s*[=:]\s*b?')(?!')[^']+ |
    ({_NAME}=){_VALUE}{_CHARACTER}*(?![:.]){_CHARACTER} |
    ({_NAME}(?:\\?["']?:\s*|\s*=\s*)){_VALUE}(?=\S*\d){_CHARACTER}{{{_MIN_LENGTH},}} |   # not of `token: expired`
    ({_NAME}%3[AD]\+?){_CHARACTER}+ |                               # URL-encoded
    ([?&](?:key|auth|code|pass|jwt|sid|session(?:_?id)?)=){_CHARACTER}{{6,}} |
    ((?<!-)--(?!-)[\w-]{{0,40}}?{_WORD}(?:["']?,\s*|\s+)["']?)(?![-'"])(?=\S*\d|\S{{6,}})[^\s"',\]]+ |  # a command's
    (\s-u\s+["']?[^\s:'"]+:)[^\s"']+
    """
)
_BEARER = re.compile(r"(?i)(\b(?:Basic|Bearer)\s+)(?=\S*\d)[\w.~+/=-]{8,}")

# Keys of well-known forms: of GitHub, Hugging Face, OpenAI, Anthropic, Stripe, GitLab, Slack, AWS, Google, npm, PyPI,
# W&B, and JSON web tokens.
_TOKEN = re.compile(
    r"""(?x)(?<![\w-])(?:
    gh[a-z]_\w{16,} | github_pat_\w{16,} | hf_[A-Za-z0-9]{16,} | [sr]k[-_](?=[\w-]*\d)[\w-]{16,} | glpat-[\w-]{16,}
    | xox[a-z]-[\w-]{10,} | (?:AKIA|ASIA)[A-Z0-9]{16} | AIza[\w-]{30,} | ya29\.[\w-]{16,} | npm_[A-Za-z0-9]{30,}
    | pypi-[\w-]{30,} | wandb_v\d_[\w-]{16,} | eyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)*
    )"""
)
_SECRET_NAME = re.compile(rf"(?ix)[\w-]*?{_WORD}")


def keep_secret(*secrets: str | None) -> None:
    """Keep keys and tokens out of every text of this process from now on."""
    _kept.update(secret for secret in secrets if secret)


def redacted(text: str) -> str:
    """Return a text without the keys and passwords that it may repeat.

    Left out are: what ``keep_secret`` was given; the values of environment variables whose names end like
    ``AWS_SECRET_ACCESS_KEY``, ``HF_TOKEN`` or ``AZURE_PAT``, and passwords in others such as ``DATABASE_URL``, also
    URL-encoded; passwords in URIs; private keys; the values of names such as ``sig``, ``token`` and ``api_key``, in a
    query, a header, an argument, a command or a dict; and keys of well-known forms, such as ``ghp_...``. A text above
    10,000 characters is cut.
    """
    for secret in sorted(_kept | _secrets_of_environment(), key=len, reverse=True):
        for spelling in {secret, quote(secret, safe=""), quote_plus(secret)}:
            text = text.replace(spelling, HIDDEN)
    if len(text) > _MAX_TEXT:
        text = f"{text[:_MAX_TEXT]}…"
    text = _PRIVATE_KEY.sub(rf"\1{HIDDEN}", text)
    text = _PASSWORD.sub(lambda match: f"{match[1] or match[2] or match[3]}{HIDDEN}{'%40' if match[3] else '@'}", text)
    text = _HEADER.sub(rf"\1\2{HIDDEN}", text)
    text = _ASSIGNED.sub(lambda match: f"{next(filter(None, match.groups()))}{HIDDEN}", text)
    return _TOKEN.sub(HIDDEN, _BEARER.sub(rf"\1{HIDDEN}", text))


def redacted_values(value: Any, name: str = "") -> Any:
    """Return a value with the texts in it redacted, those whole that the name of a secret names, for a pickle.

    >>> redacted_values({"api_key": "abc", "notes": ["s3://me:abc@bucket", 3]})
    {'api_key': '***', 'notes': ['s3://***@bucket', 3]}
    """
    if isinstance(value, str):
        parts = (value[at : at + _MAX_TEXT] for at in range(0, len(value), _MAX_TEXT))
        return HIDDEN if value and _SECRET_NAME.fullmatch(name) else "".join(map(redacted, parts))
    if type(value) is dict:
        return {key: redacted_values(item, str(key)) for key, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)(redacted_values(item, name) for item in value)
    return value


def is_secret_name(name: str) -> bool:
    """Return whether a part of a name, such as that of a hyperparameter, is the name of a secret.

    >>> [is_secret_name(name) for name in ("wandb.api_key", "credentials/value", "api_keys", "auth", "env_config/lr")]
    [True, True, True, True, False]
    """
    parts = re.split(r"[/.]", name)
    return any(part.lower() == "auth" or _SECRET_NAME.fullmatch(part.removesuffix("s")) for part in parts)


def without_secret(name: str, value: Any) -> Any:
    """Return a hyperparameter as people may see it: without keys and passwords.

    A number of tokens is no secret, and a switch is none.

    >>> without_secret("login/password", "abc"), without_secret("model/max_tokens", 512), without_secret("lr", 0.1)
    ('***', 512, 0.1)
    """
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    is_plain = "token" in name.lower() if is_number else not value or isinstance(value, bool)
    return redacted_values(value) if is_plain or not is_secret_name(name) else HIDDEN


def error_text(error: BaseException) -> str:
    """Return the type and the message of an exception, without secrets; it never raises."""
    return f"{type(error).__name__}: {redacted(shown(error, str))}"


def _secrets_of_environment() -> set[str]:
    whole = {value for name, value in os.environ.items() if _IN_ENVIRONMENT.search(name)}
    parts = {next(filter(None, uri)) for value in os.environ.values() for uri in _URI_WITH_PASSWORD.findall(value)}
    return {value for value in whole | parts if len(value) >= _MIN_LENGTH}
