"""Texts without keys and passwords: an exception is turned into text here, so that no index line or log shows any."""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Sequence
from operator import itemgetter
from typing import Any
from urllib.parse import quote, quote_plus

from tune_media.values.foreign import is_a, shown

HIDDEN = "***"
_MIN_LENGTH = 8  # of an environment variable's value: a shorter one may be any word of a message
_MAX_TEXT = 10_000  # characters: some patterns take the square of it
_kept: set[str] = set()
_IN_ENVIRONMENT = re.compile(
    r"(KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIALS?|COOKIE|CONN(ECTION)?_STR(ING)?|WEBHOOK(_URL)?|\w_PWD"
    r"|(^|_)(PAT|PASS|PW|AUTH|DSN|SAS))_?\d*$",
    re.IGNORECASE,
)
_URI_WITH_PASSWORD = re.compile(r"\w+://[^/:@\s]*:([^\s]+)@|https?://([^/:@\s]+)@")

# A password in a URI ends at the last @: of the host's part for http, which has no "/" in it, and of all for databases.
_OF_HTTP = re.compile(r"""://[^/\s'"]*@""")
_OF_OTHERS = re.compile(r"""://[^/:@\s'"]*(?::[^\s'"]*)?@""")
_ENCODED_URI = re.compile(r"""(%3A%2F%2F)[^\s'"&/]*(%40)""", re.IGNORECASE)
_PRIVATE_KEY = re.compile(r"(-----BEGIN [\w ]*PRIVATE KEY[\w ]*-----).*?(?=-----END|\Z)", re.DOTALL)
_HEADER = re.compile(
    r"""(?i)(?<![\w-])((?:proxy-)?authorization|(?:set-)?cookie)(:\s*)(?!\*\*\*)"""
    r"""(?=[^\s=;,'"]{1,200}=|(?:(?!cookie)[^\r\n'"]){0,200}\d)[^\r\n'"]{4,}"""
)
_BEARER = re.compile(r"(?i)(\bBearer\s+)(?=[^\s\d]{0,200}\d)[\w.~+/=-]{8,}")
_BASIC = re.compile(r"(?i)(\bBasic\s+)([A-Za-z0-9+/]{8,}={0,2})")
_COMMAND = re.compile(r"""(?im)((?:^|\s)(?:-u|--user)[\s=]+["']?[^\s:'"]+:)[^\s"']+""")
_OF_MYSQL = re.compile(r"""(?i)(\b(?:mysql|mariadb)\w*\s(?:[^\r\n]{0,200}?\s)??-p["']?)(?![,;.)])[^\s"']+""")
_NETRC = re.compile(r"(?i)(\blogin\s+\S+\s+password\s+)\S+")
_HOOK = re.compile(
    r"(?i)(hooks\.slack\.com/(?:services|workflows|triggers)/|discord(?:app)?\.com/api/webhooks/|webhook\.office\.com/"
    r"|api\.telegram\.org/bot)[^\s'\"<>]+"
)

# The names of secrets, which stand before `=`, `: `, or in quotes before these, in any case: `sig=`, `"token": "`.
_PASSWORDS = ("password", "passwd", "passphrase", "pwd")  # their values may be words
_NAMES = (
    *_PASSWORDS,
    *("sig", "signature", "secret", "token", "credential", "credentials", "authorization", "cookie", "api key"),
    *(f"{of}{dash}key" for of in ("api", "access", "account", "private", "secret") for dash in ("", "-", "_")),
)
_SHORT_NAMES = re.compile(r"(?:^|[^a-z])(?:pass|pw|auth|jwt)$")  # whole words only
_CODE_NAMES = re.compile(r"(?:^|[^a-z])(?:otp|pin|passcode)$")
_CODE = re.compile(r"""(?i)[=:]\s*(?:\\?["'])?(\d[\d-]{3,}(?!\w)|(?=[a-z_-]{0,20}\d)[\w-]{8,})""")
_QUERY_NAMES = re.compile(r"[?&](?:key|auth|code|pass|jwt|sid|session(?:_?id)?)$")
_LONGEST_NAME = 24
_FOLDER = re.compile(r"(?:^|[^A-Za-z])(?:OLD)?PWD$")  # a shell's variables, whose values are paths
_MORE_NAMES = (
    *("pass", "pw", "auth", "key", "code", "jwt", "sid", "session", "session_id", "sessionid", "sas", "pat", "dsn"),
    *("otp", "pin", "passcode"),
)  # in some places only
_LAST = "".join({name[-1] for name in (*_NAMES, *_MORE_NAMES)})
_BACKWARDS = "|".join(
    f"({'|'.join(re.escape(name[::-1]) for name in names)})"
    for names in (_PASSWORDS, _NAMES[len(_PASSWORDS) :], _MORE_NAMES)
)
_OF_PASSWORD, _OF_SECRET, _OF_SOME = 2, 3, 4  # the groups below that a name is in
# Of a text in lower case that is read backwards: only the operators that follow a name cost time. No short number is a
# secret.
_NO_NUMBER = "".join(rf"(?<![\s&,;)]{digits}[=:])" for digits in (r"\d", r"\d\d", r"\d\d\d"))
_NAMED = re.compile(rf"""[=:]{_NO_NUMBER}([\s\\"']*)[\d_]*(?=[{_LAST}])(?:{_BACKWARDS})""")
_NAMED_ENCODED = re.compile(rf"[ad]3%()[\d_]*(?:{_BACKWARDS})")
_OF_ENVIRONMENT = re.compile(r"[A-Z][A-Z0-9_]*$")
_ELEMENT = re.compile(r"(?i)(<(?:[\w:-]{0,40}(?:password|secret|token|api_?key))>)[^<]+(?=</)")
_OPTION = re.compile(
    r"--(?=[a-zA-Z])([\w-]{1,60})(?:[\"']?,\s*|\s+)[\"']?(?![-'\"])(?=[^\s\d]{0,200}\d|\S{6,})([^\s\"',\]]+)"
)
_CHARACTER = r"""[^\s&"'<>,;)\]}]"""
_IN_QUOTES = r"""[=:]\s*b?(?:\\?"(?!\\?")([^"]+)|'(?!')([^']+))"""
_QUOTED = re.compile(_IN_QUOTES)
_TUPLE = re.compile(r"=\s*\(([^()]+)\)")
# Not of `"secret": Box(-1.0, 1.0)`, the space of an observation.
_PLAIN = r"""(?!None\b|null\b|true\b|false\b|\*\*\*|[a-z]+\(\[?[\d.-]+[\s,)\]])(?:(?:Basic|Bearer)\s+)?"""
_DIRECT = rf"={_PLAIN}((?!\d{{1,6}}(?![^\s&,;)])){_CHARACTER}*(?![:.]){_CHARACTER})"
# Not of `token: expired`.
_SPACED = rf"[=:]\s*{_PLAIN}(?=[^\s\d]{{0,200}}\d)({_CHARACTER}{{{_MIN_LENGTH},}})"
_WORD = (
    r"[=:]\s*(?!(?:none|null|true|false|wrong|denied|expired|invalid|missing|required|incorrect|unknown|empty|string"
    rf"|hidden|changed|forgotten|str|bytes|secret)\b)((?!\*\*\*){_CHARACTER}{{6,}})(?=\s*(?:[,;)\]}}\"'\r\n]|$))"
)
# By the name's group, and whether the operator follows the name directly.
_VALUES = {
    (group, is_direct): re.compile(
        "(?i)" + "|".join((_IN_QUOTES, *([_DIRECT] * is_direct), _SPACED, *([_WORD] * (group == _OF_PASSWORD))))
    )
    for group in (_OF_PASSWORD, _OF_SECRET, _OF_SOME)
    for is_direct in (False, True)
}
_ENCODED = re.compile(rf"(?i)%3[AD]\+?({_CHARACTER}+)")
_LONG = re.compile(rf"=({_CHARACTER}{{6,}})")
_SHORT = re.compile(rf"(?i)={_PLAIN}((?!\d{{1,3}}\b){_CHARACTER}{{4,}})")
_DIGEST = re.compile(r"""(?i)(\bresponse=\\?["']?)[0-9a-f]{32,}""")

# Keys of well-known forms: of GitHub, Hugging Face, OpenAI, Anthropic, Stripe, GitLab, Slack, AWS, Google, npm, PyPI,
# W&B, Docker, DigitalOcean, Shopify, SendGrid, Vault, Databricks, Replicate, Groq, Telegram, Linear, Square, Brevo,
# age, PlanetScale, Notion, Figma, Dynatrace, NVIDIA, Tailscale, Grafana, Postman, Mailgun, and JSON web tokens.
# A separator stands before each: an expression that begins with a set of characters skips all others in a third of the
# time.
_TOKEN = re.compile(
    r"""(?x)([^A-Za-z0-9_-])(?=[A-Za-z0-9_.:+/=-]{15})(?:
    gh[oprsu]_\w{16,} | github_pat_\w{16,} | hf_[A-Za-z0-9]{16,}
    | [sr]k(?=[\w-]*[-_](?=[A-Za-z]{0,40}\d)[A-Za-z0-9]{12})[\w-]{17,}
    | gl[a-z]{2,4}-[\w-]{16,} | xox[a-z]-[\w-]{10,} | xapp-[\w-]{16,} | (?:AKIA|ASIA)[A-Z0-9]{16}
    | AIza[\w-]{30,} | ya29\.[\w-]{16,}
    | npm_[A-Za-z0-9]{30,} | pypi-[\w-]{30,} | wandb_v\d_[\w-]{16,} | eyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)*
    | dckr_pat_[\w-]{16,} | do[opr]_v1_[0-9a-f]{32,} | shp(?:at|ss|pa|ca)_[0-9a-fA-F]{16,} | SG\.[\w-]{16,}\.[\w-]{16,}
    | whsec_[\w+/=-]{16,} | hv[sb]\.[\w-]{16,} | dapi[0-9a-f]{32} | r8_\w{30,} | gsk_\w{30,} | \d{8,10}:AA[\w-]{30,}
    | lin_api_\w{20,} | sq0[a-z]{3}-[\w-]{20,} | xkeysib-[\w-]{20,} | AGE-SECRET-KEY-1\w{30,}
    | pscale_[a-z]+_[\w.-]{20,}
    | ntn_\w{20,} | figd_[\w-]{20,} | dt0c01\.\w{20,}\.\w{20,} | nvapi-[\w-]{30,} | tskey-[a-z]+-[\w-]{16,}
    | glsa_\w{30,} | PMAK-[\w-]{24,} | key-[0-9a-f]{32}
    )"""
)


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
    return _redacted(text, _known())


def _redacted(text: str, secrets: Sequence[str]) -> str:
    for secret in secrets:
        text = text.replace(secret, HIDDEN)
    if len(text) > _MAX_TEXT:
        text = f"{text[:_MAX_TEXT]}…"
    folded = text.lower()
    if "private key" in folded:
        text = _PRIVATE_KEY.sub(rf"\1{HIDDEN}", text)
    if "@" in text:
        text = _without_passwords(text)
    if "%3a%2f%2f" in folded:
        text = _ENCODED_URI.sub(rf"\1{HIDDEN}\2", text)
    if "authorization" in folded or "cookie" in folded:
        text = _HEADER.sub(rf"\1\2{HIDDEN}", text)
    if "hook" in folded or "telegram" in folded:
        text = _HOOK.sub(rf"\1{HIDDEN}", text)
    if "-u" in text:
        text = _COMMAND.sub(rf"\1{HIDDEN}", text)
    if "mysql" in folded or "mariadb" in folded:
        text = _OF_MYSQL.sub(rf"\1{HIDDEN}", text)
    if "login" in folded:
        text = _NETRC.sub(rf"\1{HIDDEN}", text)
    if "response=" in folded:
        text = _DIGEST.sub(rf"\1{HIDDEN}", text)
    if "</" in text:
        text = _ELEMENT.sub(rf"\1{HIDDEN}", text)
    text = _without_values(text)
    if "--" in text:
        text = _OPTION.sub(_without_option, text)
    if "bearer" in folded:
        text = _BEARER.sub(rf"\1{HIDDEN}", text)
    if "basic" in folded:
        text = _BASIC.sub(_without_basic, text)
    return _TOKEN.sub(rf"\1{HIDDEN}", f"\n{text}")[1:]


def _without_passwords(text: str) -> str:
    parts, done = [], 0
    for found in re.finditer("://", text):
        at = found.start()
        is_http = text[max(0, at - 5) : at].lower().endswith(("http", "https"))
        is_uri = at >= done and text[at - 1 : at].isalnum()
        match = (_OF_HTTP if is_http else _OF_OTHERS).match(text, at) if is_uri else None
        if match is not None:
            parts += [text[done:at], f"://{HIDDEN}@"]
            done = match.end()
    return "".join(parts) + text[done:]


def _without_values(text: str) -> str:
    """Return a text without what stands after the names of secrets."""
    parts, done = [], 0
    folded, length = text.lower(), len(text)
    if len(folded) != length:  # a few letters become two
        folded = "".join(letter.lower() if letter.isascii() else letter for letter in text)
    backwards = folded[::-1]
    found = [(length - named.start(1), named) for named in _NAMED.finditer(backwards)]
    if "%3" in text:
        found += [(length - named.start(1), named) for named in _NAMED_ENCODED.finditer(backwards)]
    for place, named in sorted(found, key=itemgetter(0)):
        match = _value_after(text, place, not named[1], named.lastindex or 0) if place >= done else None
        if match is not None:
            group = match.lastindex or 0
            parts += [text[done : match.start(group)], HIDDEN]
            done = match.end(group)
    return "".join(parts) + text[done:]


def _value_after(text: str, at: int, is_direct: bool, group: int) -> re.Match[str] | None:
    """Return the value after an operator, the last group of the match, if it is a secret's."""
    start = max(0, at - _LONGEST_NAME)
    if text.startswith("=/", at) and _FOLDER.search(text, start, at):
        return None
    is_of_environment = group == _OF_SOME and is_direct and not text[at - 1].islower() and _is_variable(text[start:at])
    if group != _OF_SOME or is_of_environment:
        return _ENCODED.match(text, at) if text[at] == "%" else _VALUES[group, is_direct].match(text, at)
    before = text[start:at].lower()
    name = before.rstrip(" \t\r\n\\\"'")
    if name.endswith(("auth", "jwt")) and _SHORT_NAMES.search(name):
        match = _QUOTED.match(text, at)
        if match is not None and re.search(r"\d", match[0]):
            return match
    if name.endswith(("otp", "pin", "passcode")) and _CODE_NAMES.search(name):
        return _CODE.match(text, at)
    if not is_direct or text[at] != "=":
        return None
    if _QUERY_NAMES.search(before):
        return _LONG.match(text, at)
    if _SHORT_NAMES.search(before):
        return _QUOTED.match(text, at) or _TUPLE.match(text, at) or _SHORT.match(text, at)
    return None


def _is_variable(before: str) -> bool:
    variable = _OF_ENVIRONMENT.search(before)
    return variable is not None and _IN_ENVIRONMENT.search(variable[0]) is not None


def _without_basic(basic: re.Match[str]) -> str:
    """Return a word after `Basic` unless it is the Base64 of a user, a colon and a password."""
    credentials = basic[2].rstrip("=")
    try:
        is_secret = ":" in base64.b64decode(credentials[: len(credentials) // 4 * 4]).decode()
    except ValueError:
        is_secret = False
    return f"{basic[1]}{HIDDEN}" if is_secret else basic[0]


def _without_option(option: re.Match[str]) -> str:
    is_secret = option[1].lower().endswith(_NAMES)
    return f"{option[0][: -len(option[2])]}{HIDDEN}" if is_secret else option[0]


def redacted_values(value: Any, name: str = "") -> Any:
    """Return a value with the texts in it redacted, those whole that the name of a secret names, for a pickle.

    >>> redacted_values({"api_key": "abc", "notes": ["s3://me:abc@bucket", 3]})
    {'api_key': '***', 'notes': ['s3://***@bucket', 3]}
    """
    if not isinstance(value, (str, bytes, dict, list, tuple)):  # a number: what is known takes 0.1 ms to collect
        return value
    return _redacted_values(value, name, _known())


def _redacted_values(value: Any, name: str, secrets: Sequence[str]) -> Any:
    if isinstance(value, (str, bytes)) and value and (name.lower() == "auth" or _is_secret(name.removesuffix("s"))):
        return HIDDEN
    if isinstance(value, str):
        parts = (value[at : at + _MAX_TEXT] for at in range(0, len(value), _MAX_TEXT))
        return "".join(_redacted(part, secrets) for part in parts)
    if type(value) is dict:
        whole = name.removesuffix("s") if _is_secret(name.removesuffix("s")) else ""  # {"tokens": {"hub": ...}}
        return {key: _redacted_values(item, whole or str(key), secrets) for key, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_redacted_values(item, name, secrets) for item in value)
    return value


def _is_secret(name: str) -> bool:
    return name.lower().endswith(_NAMES)


def is_secret_name(name: str) -> bool:
    """Return whether a part of a name, such as that of a hyperparameter, is the name of a secret.

    >>> [is_secret_name(name) for name in ("wandb.api_key", "credentials/value", "api_keys", "auth", "env_config/lr")]
    [True, True, True, True, False]
    """
    parts = re.split(r"[/.]", name)
    return any(part.lower() == "auth" or _is_secret(part.removesuffix("s")) for part in parts)


def without_secret(name: str, value: Any) -> Any:
    """Return a hyperparameter as people may see it: without keys and passwords.

    A number of tokens is no secret, and a switch is none.

    >>> without_secret("login/password", "abc"), without_secret("model/max_tokens", 512), without_secret("lr", 0.1)
    ('***', 512, 0.1)
    """
    if not is_secret_name(name) or value is None or is_a(value, bool) or (is_a(value, str) and not value):
        return redacted_values(value)
    is_count = is_a(value, (int, float)) and "token" in name.lower()
    return value if is_count else HIDDEN


def error_text(error: BaseException) -> str:
    """Return the type and the message of an exception, without secrets; it never raises."""
    return f"{type(error).__name__}: {redacted(shown(error, str))}"


def _known() -> list[str]:
    """Return what ``keep_secret`` was given and what the environment has, in all spellings, the longest first."""
    whole = sorted(_kept | _secrets_of_environment(), key=len, reverse=True)
    return [text for one in whole for text in {one, quote(one, safe=""), quote_plus(one)}]


def _secrets_of_environment() -> set[str]:
    whole = {value for name, value in os.environ.items() if _IN_ENVIRONMENT.search(name)}
    parts = {next(filter(None, uri)) for value in os.environ.values() for uri in _URI_WITH_PASSWORD.findall(value)}
    return {value for value in whole | parts if len(value) >= _MIN_LENGTH}
