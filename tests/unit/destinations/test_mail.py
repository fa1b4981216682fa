"""No message field can add a header to an e-mail."""

from __future__ import annotations

from email import message_from_bytes, policy
from email.header import decode_header, make_header
from email.message import EmailMessage as Parsed

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from gearshift.destinations import EmailMessage
from gearshift.destinations.messages.mail import Sender, compose
from gearshift.errors import DefinitionError, PermanentError

OURS = ["From", "To", "Subject", "Date", "Message-ID", "Auto-Submitted"]
CONTENT = {"Content-Type", "Content-Transfer-Encoding", "MIME-Version"}
WORD = "=?utf-8?q?hi=0D=0ABcc:_all@example.org?="
HOSTILE = st.sampled_from(
    [
        WORD,
        WORD + " ",
        " " + WORD,
        f'"{WORD}"',
        "=?",
        "?=",
        "=?utf-8?b?DQpCY2M6IGE=?=",
        "a:b",
        '"',
        "\\",
        "<",
        ">",
        ",",
    ]
)
TEXT = st.lists(st.text(max_size=40) | HOSTILE, max_size=6).map("".join)
ADDRESS = st.just("ann@example.org") | TEXT | TEXT.map(lambda local: f"{local}@example.org")


@given(name=TEXT, to=ADDRESS, subject=TEXT, text=TEXT, html=st.none() | TEXT, key=st.just("k") | TEXT)
@example(name=WORD, to="ann@example.org", subject=WORD, text=WORD, html=WORD, key="k")
@example(name="", to=f"{WORD}@example.org", subject="", text="", html=None, key="k")
def test_any_text_in_any_field_gives_exactly_the_declared_headers(
    name: str, to: str, subject: str, text: str, html: str | None, key: str
) -> None:
    try:
        sender = Sender.read(f"{name} <alerts@example.org>")
        raw = compose(sender, EmailMessage(to, subject, text, html), key)
    except (DefinitionError, PermanentError):
        assume(False)
        return
    for rules in (policy.compat32, policy.default):
        parsed = message_from_bytes(raw, policy=rules)
        assert parsed.keys()[: len(OURS)] == OURS
        assert set(parsed.keys()[len(OURS) :]) <= CONTENT
        assert len(set(parsed.keys())) == len(parsed.keys())
        assert parsed["Message-ID"] == f"<{key}@example.org>"
    plain = message_from_bytes(raw, policy=policy.compat32)
    assert str(make_header(decode_header(plain["Subject"]))) == subject
    modern = message_from_bytes(raw, policy=policy.default)
    assert isinstance(modern, Parsed)
    assert modern["Subject"] == subject
    assert [each.addr_spec for each in modern["From"].addresses] == ["alerts@example.org"]
    if to.isascii():
        assert [each.addr_spec for each in modern["To"].addresses] == [to]
    assert max(map(len, raw.split(b"\r\n\r\n", 1)[0].split(b"\r\n"))) < 998


@pytest.mark.parametrize("name", ["", "Alerts", "Meter & Co.", 'the "best"', "Zähler", WORD])
def test_a_sender_name_is_parsed_unchanged(name: str) -> None:
    raw = compose(Sender(name, "alerts@example.org"), EmailMessage("ann@example.org", "hi", "text"), "k")
    parsed = message_from_bytes(raw, policy=policy.default)
    assert isinstance(parsed, Parsed)
    assert [(each.display_name, each.addr_spec) for each in parsed["From"].addresses] == [
        (name, "alerts@example.org")
    ]
