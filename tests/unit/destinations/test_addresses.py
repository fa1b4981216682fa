"""Invalid addresses are rejected where they are declared."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path

import pytest

from gearshift.destinations import Cassandra, Email, Postgres, Sms, Webhook
from gearshift.errors import DefinitionError

HOSTS = ["--help", "CON", "con", "-x.example", "a..b", ".", "%", "a b", "10.0.0.256", "x" * 64, "ex_-.org"]
URLS = [
    "--help",
    "CON",
    "",
    "https://",
    "ftp://example.org",
    "https://exam\nple.org",
    "https://example.org/a b",
    "http://example.org:0/",
    "http://example.org:99999/",
    "http://[::1",
    "https://ann:secret@example.org",
    *(f"https://{host}/in" for host in HOSTS),
]
FINE = [
    "http://127.0.0.1:8080",
    "http://[::1]:8080/in",
    "http://[fe80::1%25eth0]/",
    "https://bücher.example/in?a=b",
    "http://sms_gateway:9000",
    "https://example.org./",
]


@pytest.mark.parametrize("url", URLS)
@pytest.mark.parametrize(
    "declare", [Webhook, lambda url: Sms(account="a", token="t", sender="+15005550006", url=url)]
)
def test_an_invalid_address_is_rejected_with_its_line(declare: Callable[[str], object], url: str) -> None:
    with pytest.raises(DefinitionError) as caught:
        declare(url)
    assert caught.value.file is not None
    assert Path(caught.value.file).name == Path(__file__).name
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("url", FINE)
def test_valid_addresses_are_accepted(url: str) -> None:
    Webhook(url)


@pytest.mark.parametrize("host", HOSTS)
def test_a_mail_server_needs_a_valid_host(host: str) -> None:
    with pytest.raises(DefinitionError, match="invalid host name"):
        Email(host, 587, "alerts@example.org")


def test_every_destination_names_the_line_that_declares_it() -> None:
    wrong: list[Callable[[], object]] = [
        lambda: Webhook("https://example.org", secret=""),
        lambda: Sms(account="", token="t", sender="+15005550006"),
        lambda: Email("mail.example", 0, "alerts@example.org"),
        lambda: Cassandra(table="nothing", key="id"),
        lambda: Postgres(table="a.b.c"),
    ]
    for declare in wrong:
        with pytest.raises(DefinitionError) as caught:
            declare()
        assert Path(caught.value.file or "").name == Path(__file__).name
        assert caught.value.line == inspect.getsourcelines(declare)[1]
