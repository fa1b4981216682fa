"""Secrets do not reach errors, logs, dead letters or tracebacks."""

from __future__ import annotations

import logging
import subprocess
import sys
import traceback
from collections.abc import Iterator

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from gearshift import redaction
from gearshift.connection import Connection
from gearshift.destinations import Cassandra, Email, Postgres, Sms, Webhook
from gearshift.errors import DeliveryError
from gearshift.redaction import RedactingFormatter, hide, redact
from gearshift.settings import Settings
from gearshift.topics.dead_letters.writer import DeadLetter, dead_letter_headers


@pytest.fixture(autouse=True, scope="module")
def apart() -> Iterator[None]:
    """What is hidden here is not hidden in other tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(redaction, "_known", {})
        yield


CANARY = "c4n4ry-s3cret"
PEM = f"-----BEGIN EC PRIVATE KEY-----\n{CANARY}\n{CANARY}\n-----END EC PRIVATE KEY-----"
MESSAGES = [
    f"connection to postgresql://ann:{CANARY}@db:5432/orders failed",
    f"https://ann:{CANARY}@registry.example/apis",
    f"amqp://ann:{CANARY}@with@at@host/x",
    f"password={CANARY}",
    f"dsn: host=db user=ann password='{CANARY} and more' dbname=x",
    f'{{"api_key": "{CANARY}", "n": 1}}',
    f"{{'client_secret': '{CANARY}', 'token': b'{CANARY}'}}",
    f"GET /?access_token={CANARY}&n=1",
    f"spark.hadoop.fs.s3a.secret.key={CANARY}",
    f"AWS_SECRET_ACCESS_KEY: {CANARY}",
    f"Authorization: Bearer {CANARY}",
    f"{{'Authorization': 'Basic {CANARY}'}}",
    f"401 with bearer {CANARY}",
    f"PASSWD : {CANARY}",
    f"whsec_{CANARY}",
    PEM,
    PEM[:60],
]


@pytest.mark.parametrize("words", MESSAGES)
def test_a_secret_is_recognized_by_its_context(words: str) -> None:
    assert "c4n4ry" not in redact(f"before {words} after")
    assert redact(f"before {words}").startswith("before ")


@pytest.mark.parametrize(
    "words",
    [
        'no broker answers at 127.0.0.1:9092; try "gearshift up"',
        "http://127.0.0.1:8080/in answered 401",
        "password authentication failed for user ann",
        "http://example.org:80/a?to=ann@example.org",
        "Basic authentication is not offered",
        "topic meter-readings, partition 2, offset 77",
    ],
)
def test_other_words_stay_as_they_are(words: str) -> None:
    assert redact(words) == words


def test_every_secret_that_was_given_is_known_wherever_it_turns_up() -> None:
    secrets = {
        name: f"{CANARY}-{name}/ä"
        for name in (
            "sms",
            "hook",
            "mail",
            "cassandra",
            "postgres",
            "dsn",
            "kafka",
            "registry",
            "url",
            "spark",
        )
    }
    Sms(account="AC1", token=secrets["sms"], sender="+15005550006")
    Webhook("https://example.org", secret=secrets["hook"])
    secrets["mail"] = "c4n4ry-mail"
    Email("mail.example", 587, "a@example.org", user="ann", password=secrets["mail"])
    Cassandra(table="a.b", key="c", contact_points=f"ann:{secrets['cassandra']}@127.0.0.1")
    Postgres(table="a", dsn=f"postgresql://ann:{secrets['postgres']}@db/x")
    Postgres(table="a", dsn=f"host=db password={secrets['dsn']}")
    Connection(
        bootstrap_servers="x:1",
        registry_url=f"http://ann:{secrets['url']}@x",
        kafka={"sasl.password": secrets["kafka"], "sasl.mechanisms": "SCRAM-SHA-512"},
        registry={"basic.auth.user.info": f"ann:{secrets['registry']}"},
    )
    Settings.model_validate({"spark": {"spark.hadoop.fs.s3a.secret.key": secrets["spark"]}})
    found = redact(f"I saw {' and '.join(secrets.values())} with SCRAM-SHA-512")
    assert "c4n4ry" not in found
    assert found.endswith("with SCRAM-SHA-512")


def test_errors_logs_and_dead_letters_carry_no_secret() -> None:
    try:
        raise ValueError(f"cannot log in with password={CANARY}")
    except ValueError as raised:
        error = DeliveryError(f"it said: {raised}", delivery="notify")
        trace = "".join(traceback.format_exception(raised))
        record = logging.LogRecord("x", logging.ERROR, "f", 1, "failed: %s", (raised,), sys.exc_info())
    letter = DeadLetter(
        topic="t",
        partition=0,
        offset=0,
        key=None,
        value=b"the record's own bytes",
        headers=(("own", b"1"),),
        app="a",
        delivery="notify",
        group_id="g",
        reason=f"{raised_text(error)} {'x' * 1990}password={CANARY}",
        stacktrace=f"password={CANARY}{'x' * 4090}" + trace,
    )
    headers = dead_letter_headers(letter)
    for words in (str(error), error.what, RedactingFormatter().format(record), str(headers)):
        assert "c4n4ry" not in words
        assert "4n4ry-s3cret" not in words
    assert "Traceback" in RedactingFormatter().format(record)
    assert dict(headers)["own"] == b"1"


def raised_text(error: Exception) -> str:
    return str(error)


@given(secret=st.text(min_size=8, max_size=40), before=st.text(), after=st.text())
def test_a_known_secret_is_never_shown(secret: str, before: str, after: str) -> None:
    assume("*" not in secret)
    hide(secret)
    assert secret not in redact(before + secret + after)


def test_an_uncaught_exception_shows_no_secret() -> None:
    code = (
        "from gearshift.redaction import cover_tracebacks; import threading; cover_tracebacks()\n"
        "def fail(): raise ValueError('password=' + 'c4n4ry'[:])\n"
        "thread = threading.Thread(target=fail); thread.start(); thread.join(); fail()"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False).stderr
    assert found.count("ValueError: password=***") == 2
