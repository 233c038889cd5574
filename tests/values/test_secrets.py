"""Secrets in texts: what storages, servers and libraries put into their error messages."""

import base64
import json
import time
from urllib.parse import quote, quote_plus

import pyarrow.fs
import pytest

from tune_media.experiment.status import error_of, tracebacks
from tune_media.values import secrets
from tune_media.values.secrets import is_secret_name, keep_secret, redacted, redacted_values, without_secret

KEY = "Zm9vYmFy0123"
LONG = "p@ss/wörd+with 'quotes' & more=="


@pytest.fixture(autouse=True)
def nothing_kept(monkeypatch):
    monkeypatch.setattr(secrets, "_kept", set())


@pytest.mark.parametrize(
    "name",
    [
        *("OPENAI_API_KEY", "OPENAI_API_KEY_2", "MY_KEYS", "HF_TOKEN", "AZURE_PAT", "SENTRY_DSN", "X_AUTH", "SECRET"),
        *("DB_PASSWORD", "DB_PASSWD", "GPG_PASSPHRASE", "GCP_CREDENTIALS", "SESSION_COOKIE", "API_TOKENS3"),
        *("OPENAI_APIKEY", "AWSACCESSKEY", "SLACK_WEBHOOK", "SLACK_WEBHOOK_URL", "http_token"),
    ],
)
def test_the_value_of_a_variable_whose_name_says_secret_is_masked_wherever_it_stands(monkeypatch, name):
    monkeypatch.setenv(name, KEY)
    for text in ("{}", "denied for {}.", "('{}', 3)", "https://host/{}/x", "got {}\nand more", "{0}{0}", "a{}b"):
        assert KEY not in redacted(text.format(KEY))
    assert redacted(f"denied for {KEY}.") == "denied for ***."


@pytest.mark.parametrize("name", ["SSH_AUTH_SOCK", "MONKEY", "PATH", "TOKENIZER", "KEYBOARD", "AUTHOR", "DATABASE_URL"])
def test_other_variables_are_no_secrets(monkeypatch, name):
    monkeypatch.setenv(name, KEY)
    assert redacted(f"denied for {KEY}") == f"denied for {KEY}"


@pytest.mark.parametrize(
    ("value", "is_masked"),
    [
        *((text, False) for text in ("1", "true", "short12", "20261129", "123456.789", "/home/ann/sa.json")),
        *((text, False) for text in ("postgres", "episode_return", "tune_media", "evaluation", "changeme123")),
        *((text, False) for text in ("good morning", "training_iteration2", "cart-pole-1")),
        *((text, True) for text in ("hunter2!", "Postgres", "changeme1234", "CartPole-v1", "0123456789abcdef")),
        *((text, True) for text in ("correct horse battery", "averylongwordinlowercase")),
        ("E3FF2839C048B25C084DEBE9B26995E310250568", True),
    ],
)
def test_a_value_that_other_texts_have_too_is_no_secret(monkeypatch, value, is_masked):
    monkeypatch.setenv("MY_TOKEN", value)
    assert redacted(f"an {value} of it") == ("an *** of it" if is_masked else f"an {value} of it")


def test_a_secret_is_masked_as_urls_and_python_spell_it(monkeypatch):
    monkeypatch.setenv("MY_PASSWORD", LONG)
    for form in (LONG, quote(LONG, safe=""), quote_plus(LONG), repr(LONG)[1:-1]):
        assert redacted(f"refused <{form}>") == "refused <***>"


def test_each_long_line_of_a_secret_is_one(monkeypatch):
    monkeypatch.setenv("DEPLOY_KEY", "first\nMIIEowIBAAKCAQEA0123\nlast line is long enough")
    shown = redacted("first: MIIEowIBAAKCAQEA0123, and last line is long enough")
    assert shown == "first: ***, and ***"


@pytest.mark.parametrize("user", ["ann:", "jo:", "u:", ""])
@pytest.mark.parametrize("after", ["", "x", "@h", ", and more"])
@pytest.mark.parametrize("encode", [base64.b64encode, base64.urlsafe_b64encode])
def test_a_secret_is_masked_in_base64_wherever_it_begins(monkeypatch, user, after, encode):
    monkeypatch.setenv("MY_TOKEN", KEY)
    text = encode(f"{user}{KEY}{after}".encode()).decode()
    shown = redacted(f"got {text}!")
    assert "***" in shown
    assert len(shown) - len("got ***!") <= len(encode(f"{user}{after}".encode())) + 4
    assert (
        redacted(encode(b"something else that is long enough").decode())
        == encode(b"something else that is long enough").decode()
    )


def test_secrets_that_were_named_are_masked_also_short_ones():
    keep_secret("t0p", "t0p-and-more", None, "")
    assert redacted("this is t0p-and-more, t0p") == "this is ***, ***"


@pytest.mark.parametrize(
    "text",
    [
        "s3://bucket/x?access_key=AKIA&secret_key={key}&endpoint_override=localhost: no such bucket",
        "DefaultEndpointsProtocol=https;AccountName=me;AccountKey={key}==;EndpointSuffix=core.windows.net",
        "init(project='p', settings={{'api_key': '{key}', 'silent': True}})",
        "Settings(entity=None, api_key='{key}', base_url='x')",
        '{{"error": "denied", "access_token": "{key} with a space"}}',
        '"{{\\"accessToken\\": \\"{key}\\"}}"',
        "headers: {{'Authorization': 'Bearer {key}', 'Accept': '*/*'}}",
        "Authorization: Basic {key}=",
        "Authorization: AWS4-HMAC-SHA256 Credential=me/20240101, Signature={key}",
        "authorization: Token {key}",
        "Proxy-Authorization: Basic {key}",
        "x-api-key: {key}",
        "Ocp-Apim-Subscription-Key: {key}",
        "{{'X-Goog-Api-Key': b'{key}'}}",
        "connect(password='{key}')",
        "--tracking_token={key}",
        "api_key = {key}",
        "API key: {key}",
        'SECRET_KEY = "{key}"',
        "password = {key}",
        "password: {key}, host",
        "{{'private_key': '{key} and more', 'type': 'service_account'}}",
        "{{'tokens': ['a'], 'hub-token': '{key}'}}",
        "Cookie: session={key}",
        "client_secret={key}",
        "refresh_token={key}&grant_type=x",
        "api_key_2={key}",
        "export WANDB_API_KEY={key}",
        "{{'auth': '{key}'}}",
        "{{'token': '{key} and the text is cut here",
    ],
)
def test_the_values_of_secret_names_are_masked(text):
    assert KEY not in redacted(text.format(key=KEY))
    assert "***" in redacted(text.format(key=KEY))


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("s3://AKIA:{key}@bucket/x: none", "s3://***@bucket/x: none"),
        ("http://{key}@host:5000/api/2.0: 401", "http://***@host:5000/api/2.0: 401"),
        ("postgresql+psycopg2://me:p@ss:{key}@host/runs", "postgresql+psycopg2://***@host/runs"),
        ("rediss://:{key}@host:6380/0", "rediss://***@host:6380/0"),
        ("GET https://b.com/c?X-Amz-Signature={key}: 403", "GET https://b.com/c?X-Amz-Signature=***: 403"),
        ("x?sv=2024-01-01&sig={key}&se=2027: 403", "x?sv=2024-01-01&sig=***&se=2027: 403"),
        ("x?GoogleAccessId=me&Signature={key}%3D failed", "x?GoogleAccessId=me&Signature=*** failed"),
        ("https://maps.example.com/tile?z=3&key={key}", "https://maps.example.com/tile?z=3&key=***"),
        ("https://example.com/cb?code={key}&state=1", "https://example.com/cb?code=***&state=1"),
        ("?session_id={key}#top", "?session_id=***#top"),
        ("-----BEGIN RSA PRIVATE KEY-----\nMII{key}\n-----END x", "-----BEGIN RSA PRIVATE KEY-----***-----END x"),
        ("-----BEGIN PRIVATE KEY-----\\nMII{key} and it ends", "-----BEGIN PRIVATE KEY-----***"),
    ],
)
def test_urls_and_private_keys_are_masked(text, masked):
    assert redacted(text.format(key=KEY)) == masked


@pytest.mark.parametrize(
    "text",
    [
        "nothing to hide",
        "KeyError: 'episodes/best'",
        "s3://bucket/sweep/trial_1/media/index.jsonl: AWS Error NO_SUCH_BUCKET during PutObject operation",
        "wandb.init will refuse these arguments: project='my/walkers'; Pass api_key= or set WANDB_API_KEY.",
        "the token has expired, token: expired, api_key=None, Basic authentication failed",
        "keep='best' raised KeyError: 'speed'; seed=3, num_tokens=5, signature (x, y)",
        "file:///home/me@work/clip.mp4 and me@host and mailto:me@example.com",
        "sort = key, token = next(tokens), cookie: none, --token is missing; filter(key='best', lr=x)",
        "GET /data/curves.json?metric=episode_return_mean&by=lr&key=3",
        "PWD=/home/me/project OLDPWD=/home/me",
        "sig=3, token=12, signature=7, max_tokens: 512, cookie=1.5e3, secret: -0.5, token=True, 'token': inf",
        "author=somebody1, authority=cluster.local, auth=None, oauth=x",
        "keyboard=qwertz, monkey: 12345678901, turkey = 4567890123, cnn_keys: ['image1', 'depth2']",
        "tokenizer: bert-base-uncased-2024, tokens: 1024, tokenPath='x'",
        "http://host:8000/path?step=12#best, http://[::1]:6006/ and ws://127.0.0.1:9222",
        "class Secretary: rows=12345678901, path=/home/me/passwords/list.txt, compass='a', patch='b'",
        "'secret': Box(-1.0, 1.0, (3,), float32), 'token': Discrete(12345678), 'key': MultiDiscrete([512 512])",
        "Dict(secret=Box(-1.0, 1.0), token=MultiBinary(1024))",
        "'token': None, 'secret': False, \"api_key\": null, token='', password=\"\", auth: ***",
        "SignatureDoesNotMatch: the request signature we calculated does not match",
        "hf_abcdefghijKLMNOPQRSTuvwxyz01234567 in a message, if the environment has it not",
        "",
    ],
)
def test_other_texts_stay_as_they_are(text):
    assert redacted(text) == text


def test_what_is_masked_once_stays_so():
    text = f"https://me:{KEY}@host?sig={KEY} token='{KEY}', x-api-key: {KEY}"
    assert redacted(redacted(text)) == redacted(text)


def test_values_below_the_name_of_a_secret_are_masked_for_a_pickle():
    lists = {"tokens": ["abcdef"], "api_keys": "abcdef", "auth": "abcdef", "passwords": (b"abcdef",)}
    assert "abcdef" not in str(redacted_values(lists))
    config = {"tokens": {"hub": "abcdef"}, "notes": ["api_key=abcdefgh1"], "max_tokens": 5, "cnn_keys": ["image"]}
    masked = {"tokens": {"hub": "***"}, "notes": ["api_key=***"], "max_tokens": 5, "cnn_keys": ["image"]}
    assert redacted_values(config) == masked
    assert redacted_values({"password": 5, "token": True, "secret": None, "cookie": ""}) == {
        "password": 5,
        "token": True,
        "secret": None,
        "cookie": "",
    }


def test_names_are_whole_words():
    names = [
        "api_key",
        "apiKey",
        "hubToken",
        "X-Api-Key",
        "wandb.api_key",
        "login/password",
        "tokens/hub",
        "DB_PASSWORD",
    ]
    others = ["cnn_keys", "key", "tokenizer", "monkey", "oauth_url", "patch", "keyboard", "lr", "", "x_auth"]
    assert all(map(is_secret_name, names))
    assert not any(map(is_secret_name, others))
    assert without_secret("İ_token", "abc") == "***"  # a letter that becomes two in lower case


def test_a_text_is_masked_before_it_is_cut(tmp_path, monkeypatch):
    monkeypatch.setenv("MY_TOKEN", KEY)
    (tmp_path / "error.txt").write_text(f"{'x' * 5} {KEY}{'y' * 19_995}")  # the key stands across the cut
    assert KEY[-3:] not in tracebacks(pyarrow.fs.LocalFileSystem(), str(tmp_path))[:10]
    (tmp_path / "error.txt").write_text(f"ValueError: {'x' * 386} {KEY}")
    assert KEY[:3] not in error_of(pyarrow.fs.LocalFileSystem(), str(tmp_path))
    assert redacted(f"{'x' * 50_000} {KEY}") == f"{'x' * 50_000} ***"


@pytest.mark.parametrize(
    "part",
    [
        *("a", "token", "x=", "https://", "a:", "'", "sig='", "-----BEGIN PRIVATE KEY-----", "Cookie: ", "-", "a."),
        *("--password ", "?key=", "https%3A%2F%2F", "api key = ", "token=(", "token  ", "x-key: ", 'token: "', "://"),
    ],
)
def test_a_page_that_a_server_answers_takes_no_minutes(part):
    start = time.process_time()
    redacted(part * (300_000 // len(part)))
    redacted(f"token={part}{' ' * 100_000}")
    assert time.process_time() - start < 5


def test_json_stays_json(monkeypatch):
    monkeypatch.setenv("MY_TOKEN", KEY)
    text = json.dumps({"a": KEY, "token": "abc", "url": f"http://me:{KEY}@host", "n": {"password": 3}})
    assert json.loads(redacted(text)) == {"a": "***", "token": "***", "url": "http://***@host", "n": {"password": 3}}
