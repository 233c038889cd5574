"""Secrets in texts: what storages, servers and libraries put into their error messages."""

import pytest

from tune_media.values import secrets
from tune_media.values.secrets import error_text, keep_secret, redacted

KEY = "Zm9vYmFy0123"


@pytest.mark.parametrize(
    "text",
    [
        "PUT https://me.blob.core.windows.net/c/clip.mp4?sv=2024-01-01&sr=c&{sig}={key}&se=2027: 403 Forbidden",
        "GET https://bucket.s3.amazonaws.com/clip.mp4?X-Amz-Signature={key}",
        "GET https://storage.googleapis.com/clip.mp4?GoogleAccessId=me&Signature={key}%3D failed",
        "s3://bucket/x?access_key=AKIA&secret_key={key}&endpoint_override=localhost: no such bucket",
        "s3://AKIA:{key}@bucket/x: no such bucket",
        "http://{key}@host:5000/api/2.0: 401",
        "postgresql+psycopg2://me:p@ss:{key}@host/runs: no answer",
        "DefaultEndpointsProtocol=https;AccountName=me;AccountKey={key}==;EndpointSuffix=core.windows.net",
        "init(project='p', settings={{'api_key': '{key}', 'silent': True}})",
        "Settings(entity=None, api_key='{key}', base_url='x')",
        '{{"error": "denied", "access_token": "{key} with a space"}}',
        "headers: {{'Authorization': 'Bearer {key}', 'Accept': '*/*'}}",
        "Authorization: Basic {key}=",
        "x-api-key: {key}",
        "invalid bearer {key}",
        "connect(password='{key}')",
        "--tracking_token={key}",
    ],
)
def test_the_values_of_secret_names_are_left_out(text):
    shown = redacted(text.format(key=KEY, sig="sig"))
    assert KEY not in shown
    assert "***" in shown


@pytest.mark.parametrize(
    "text",
    [
        "nothing to hide",
        "KeyError: 'episodes/best'",
        "s3://bucket/sweep/trial_1/media/index.jsonl: AWS Error NO_SUCH_BUCKET during PutObject operation",
        "wandb.init will refuse these arguments: project='my/walkers'; Pass api_key= or set WANDB_API_KEY.",
        "the token has expired, token: expired, api_key=None, Basic authentication failed",
        "keep='best' raised KeyError: 'speed'; seed=3, num_tokens=5, signature (x, y)",
        "file:///home/me@work/clip.mp4",
        "",
    ],
)
def test_other_texts_stay_as_they_are(text):
    assert redacted(text) == text


def test_keys_of_the_environment_and_those_that_were_named_are_left_out(monkeypatch):
    monkeypatch.setattr(secrets, "_kept", set())
    monkeypatch.setenv("MY_CLOUD_SECRET_ACCESS_KEY", "one-long-secret")
    monkeypatch.setenv("SHORT_TOKEN", "is")
    keep_secret("t0psecret", "t0psecret-and-more", None, "")
    assert redacted("this is one-long-secret, t0psecret-and-more") == "this is ***, ***"


def test_an_error_without_a_text_has_a_text():
    class MuteError(Exception):
        def __str__(self):
            raise RuntimeError

    assert error_text(MuteError()) == "MuteError: <MuteError>"


@pytest.mark.parametrize("part", ["a", "token", "x=", "https://", "a:", "'", "sig='"])
def test_a_page_that_a_server_answers_takes_no_minutes(part):
    assert len(redacted(part * 10**6)) < 20_000
