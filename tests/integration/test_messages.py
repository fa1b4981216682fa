"""Texts, mails and webhooks against servers that check what real ones check, and fail as real ones do."""

from __future__ import annotations

import socket
import ssl
import time
import traceback
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from threading import Thread

import pytest

from examples.smart_meter.gateway import Gateway, Message
from gearshift.destinations import Email, EmailMessage, Sms, SmsMessage, Webhook, verify
from gearshift.errors import DeliveryError, PermanentError, RetriableError
from gearshift.record import Destination, Record, Row
from tests.gateways import HttpGateway, SmtpGateway, certificate
from tests.support import closed_port

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
TOKEN = "t0p-s3cret"
TEXT = SmsMessage("+31 6 1234-5678", "load is 2.4 kW ⚡ & rising")
MAIL = EmailMessage("ann@example.org", "Load of meter-1 ⚡", "The load is 2.4 kW.\n.\nSwitch it off.\n")


@dataclass
class LoadAlert:
    meter_id: str
    amount: Decimal
    read_at: datetime


ALERT = LoadAlert("meter-1", Decimal("2.40"), datetime(2026, 3, 1, 12, tzinfo=UTC))


def row(value: object, offset: int = 7) -> Row:
    return Row(
        value, Record(value=None, key=b"k", topic="alerts", partition=0, offset=offset, timestamp=None)
    )


def sms(gateway: HttpGateway, token: str = TOKEN) -> Sms:
    return Sms(account="AC1", token=token, sender="+15005550006", url=gateway.url)


def email(gateway: SmtpGateway, **options: str) -> Email:
    return Email("127.0.0.1", gateway.port, "Alerts <alerts@example.org>", **({"tls": "none"} | options))  # type: ignore[arg-type]


@pytest.fixture
def provider() -> Iterator[HttpGateway]:
    with HttpGateway(accounts={"AC1": TOKEN}, deduplicate=True) as gateway:
        yield gateway


@pytest.fixture
def receiver() -> Iterator[HttpGateway]:
    with HttpGateway(secret=SECRET) as gateway:
        yield gateway


@pytest.fixture
def mail_server() -> Iterator[SmtpGateway]:
    with SmtpGateway(users={"alerts": TOKEN}) as gateway:
        yield gateway


@pytest.fixture
def tls(tmp_path: Path) -> ssl.SSLContext:
    """Of a server whose certificate nobody trusts until `gateway.pem` is named."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate(tmp_path))
    return context


def test_a_text_reaches_the_provider_as_its_api_wants_it(provider: HttpGateway) -> None:
    destination = sms(provider)
    destination.open("sms-sender")
    destination.write([row(TEXT)])
    destination.flush()
    destination.close()
    [request] = provider.accepted
    assert request.path == "/2010-04-01/Accounts/AC1/Messages.json"
    assert request.form == {"To": "+31612345678", "From": "+15005550006", "Body": TEXT.text}
    assert request.key == request.headers["i-twilio-idempotency-token"] == row(TEXT).record.idempotency_key


def test_a_text_whose_answer_was_lost_is_sent_once_when_it_is_tried_again(provider: HttpGateway) -> None:
    destination = sms(provider)
    provider.lose_answers(1)
    with pytest.raises(RetriableError, match=f"{provider.url} closed the connection during the request"):
        destination.write([row(TEXT)])
    destination.write([row(TEXT)])
    destination.close()
    assert len(provider.requests) == 2
    assert len(provider.accepted) == 1


def test_a_handler_sends_a_text_without_opening_anything(provider: HttpGateway) -> None:
    destination = sms(provider)
    destination.send(TEXT.to, TEXT.text)
    destination.close()
    destination.send(TEXT.to, "and again after a close", "key-2")
    destination.close()
    assert [request.key for request in provider.accepted] == [None, "key-2"]


def stops(error: Exception) -> bool:
    """Whether it stops a delivery, instead of setting a record aside or trying again."""
    return isinstance(error, DeliveryError) and not isinstance(error, PermanentError | RetriableError)


def test_a_wrong_token_stops_the_delivery_and_is_not_in_the_error(provider: HttpGateway) -> None:
    destination = sms(provider, token="wr0ng-t0ken")
    with pytest.raises(
        DeliveryError, match=r'answered 401: {"code": 20003, "message": "Authenticate".*; check the token'
    ) as caught:
        destination.write([row(TEXT)])
    assert stops(caught.value)
    provider.fail(status=400, body=b"you sent\r\nwr0ng-t0ken\x1b[31m" + b"x" * 500)
    with pytest.raises(PermanentError, match=r"answered 400: you sent \*\*\*\[31mxxx") as echoed:
        destination.write([row(TEXT)])
    destination.close()
    for error in (caught.value, echoed.value):
        assert "wr0ng" not in "".join(traceback.format_exception(error)).replace('token="wr0ng-t0ken"', "")
    assert len(str(echoed.value)) < 250


def test_a_webhook_is_signed_json_that_its_receiver_can_verify(receiver: HttpGateway) -> None:
    webhook = Webhook(f"{receiver.url}/in?from=us", secret=SECRET)
    webhook.open("hooks")
    webhook.write([row(ALERT)])
    webhook.write([row({"plain": "mapping"}, offset=8)])
    webhook.flush()
    webhook.close()
    first, second = receiver.accepted
    assert first.path == "/in?from=us"
    assert first.headers["content-type"] == "application/json"
    assert first.json == {"meter_id": "meter-1", "amount": "2.40", "read_at": "2026-03-01T12:00:00+00:00"}
    assert verify(SECRET, first.headers, first.body) == first.key == row(ALERT).record.idempotency_key
    assert second.json == {"plain": "mapping"}
    assert second.key != first.key
    assert first.connection == second.connection


def test_a_webhook_with_another_secret_is_refused(receiver: HttpGateway) -> None:
    webhook = Webhook(receiver.url, secret="another secret")
    with pytest.raises(DeliveryError, match="answered 401: bad signature") as caught:
        webhook.write([row(ALERT)])
    assert stops(caught.value)
    webhook.close()


@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 502, 503, 504])
def test_an_answer_that_may_change_is_retriable(receiver: HttpGateway, status: int) -> None:
    webhook = Webhook(receiver.url, secret=SECRET)
    receiver.fail(status=status, body=b"not now")
    with pytest.raises(RetriableError, match=f"answered {status}: not now"):
        webhook.write([row(ALERT)])
    webhook.write([row(ALERT)])
    webhook.close()
    first, again = receiver.requests
    assert first.key == again.key
    assert first.body == again.body
    assert receiver.connections == 1


@pytest.mark.parametrize("status", [301, 307, 400, 401, 402, 403, 404, 405, 407, 410, 413, 415, 422])
def test_an_answer_of_one_record_is_permanent_any_other_stops_and_redirects_are_not_followed(
    receiver: HttpGateway, status: int
) -> None:
    webhook = Webhook(f"{receiver.url}/secret-path", secret=SECRET)
    receiver.fail(status=status, headers={"Location": f"{receiver.url}/elsewhere"})
    with pytest.raises(DeliveryError, match=f"answered {status}") as caught:
        webhook.write([row(ALERT)])
    webhook.close()
    assert isinstance(caught.value, PermanentError) == (status in (400, 413, 422)) != stops(caught.value)
    assert len(receiver.requests) == 1
    assert "secret-path" not in str(caught.value)


def test_a_receiver_says_when_to_come_again(receiver: HttpGateway) -> None:
    webhook = Webhook(receiver.url, secret=SECRET)
    receiver.fail(status=429, headers={"Retry-After": "7"})
    receiver.fail(status=503, headers={"Retry-After": "999999999999"})
    receiver.fail(status=503)
    waits: list[object] = []
    for _ in range(3):
        with pytest.raises(RetriableError) as caught:
            webhook.write([row(ALERT)])
        waits.append(getattr(caught.value, "retry_after", "missing"))
    webhook.close()
    assert waits == [timedelta(seconds=7), timedelta(hours=1), None]


def test_a_receiver_that_is_down_or_slow_is_retriable_and_its_return_is_noticed(
    receiver: HttpGateway,
) -> None:
    webhook = Webhook(receiver.url, secret=SECRET, timeout=timedelta(seconds=0.3))
    webhook.write([row(ALERT)])
    receiver.down()
    for _ in range(2):
        with pytest.raises(RetriableError, match=f"cannot connect to {receiver.url}"):
            webhook.write([row(ALERT)])
    receiver.up()
    webhook.write([row(ALERT)])
    receiver.be_slow(timedelta(seconds=30))
    began = time.monotonic()
    with pytest.raises(RetriableError, match=r"did not respond within 0\.3 s"):
        webhook.write([row(ALERT)])
    webhook.close()
    assert time.monotonic() - began < 20


def test_an_answer_that_drips_holds_nobody_up() -> None:
    """The status has said that it was taken; what drips after it is not waited for longer than the timeout."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def drip() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(65_536)
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
                try:
                    while True:
                        connection.sendall(b".")
                        time.sleep(0.05)  # the pace of the drip, not a wait for something
                except OSError:
                    return

        dripping = Thread(target=drip, daemon=True)
        dripping.start()
        webhook = Webhook(f"http://127.0.0.1:{listener.getsockname()[1]}", timeout=timedelta(seconds=0.5))
        began = time.monotonic()
        webhook.write([row(ALERT)])
        assert time.monotonic() - began < 20
        webhook.close()
        dripping.join(10)
        assert not dripping.is_alive()


def test_a_webhook_goes_over_tls_to_a_receiver_whose_certificate_is_trusted(
    tls: ssl.SSLContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with HttpGateway(secret=SECRET, tls=tls) as receiver:
        stranger = Webhook(receiver.url, secret=SECRET)
        with pytest.raises(DeliveryError, match="is not trusted; set SSL_CERT_FILE") as raised:
            stranger.write([row(ALERT)])
        assert type(raised.value) is DeliveryError, "it stops the delivery: every record would meet it"
        stranger.close()
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "gateway.pem"))
        known = Webhook(receiver.url, secret=SECRET)
        known.write([row(ALERT)])
        known.close()
        assert len(receiver.accepted) == 1


def test_many_threads_share_a_destination_and_keep_their_connections(provider: HttpGateway) -> None:
    destination = sms(provider)
    with ThreadPoolExecutor(8) as lanes:
        list(lanes.map(lambda n: destination.write([row(TEXT, offset=n)]), range(400)))
    destination.close()
    assert len({request.key for request in provider.accepted}) == 400
    assert provider.connections <= 8


def test_a_connection_that_the_server_closed_while_idle_is_replaced(provider: HttpGateway) -> None:
    destination = sms(provider)
    destination.write([row(TEXT, offset=1)])
    provider.hang_up()
    provider.down()
    provider.up()
    destination.write([row(TEXT, offset=2)])
    destination.close()
    assert len(provider.accepted) == 2
    assert provider.connections == 2


def test_a_mail_arrives_as_it_was_written_with_an_id_of_its_record(mail_server: SmtpGateway) -> None:
    destination = email(mail_server, user="alerts", password=TOKEN)
    destination.open("mail-sender")
    destination.write([row(MAIL)])
    destination.write([row(EmailMessage("bob@example.org", "Hi", "plain", html="<b>rich</b> é"), offset=8)])
    destination.write([row(MAIL)])
    destination.flush()
    destination.close()
    first, second, again = mail_server.mails
    assert (first.sender, first.recipients, first.user) == (
        "alerts@example.org",
        ("ann@example.org",),
        "alerts",
    )
    assert first.message["Subject"] == MAIL.subject
    assert first.message["From"] == "Alerts <alerts@example.org>"
    assert first.message.get_content().splitlines() == MAIL.text.splitlines()
    assert first.message["Message-ID"] == f"<{row(MAIL).record.idempotency_key}@example.org>"
    assert again.message["Message-ID"] == first.message["Message-ID"] != second.message["Message-ID"]
    rich = second.message.get_body(("html",))
    plain = second.message.get_body(("plain",))
    assert rich is not None
    assert plain is not None
    assert rich.get_content().strip() == "<b>rich</b> é"
    assert plain.get_content().strip() == "plain"
    assert mail_server.connections == 1


def test_an_encoded_word_in_a_mail_stays_the_text_that_it_is(mail_server: SmtpGateway) -> None:
    """Decoded, each of these is a line break and a recipient of its own."""
    word = "=?utf-8?q?hi=0D=0ABcc:_all@example.org=0D=0A?="
    destination = Email(
        "127.0.0.1",
        mail_server.port,
        f"{word} <alerts@example.org>",
        user="alerts",
        password=TOKEN,
        tls="none",
    )
    destination.write([row(EmailMessage("ann@example.org", word, word, html=word))])
    with pytest.raises(PermanentError, match="not a single e-mail address"):
        destination.send("=?utf-8?q?a=0D=0ABcc:_all?=@example.org", "subject", "text")
    destination.close()
    [mail] = mail_server.mails
    assert sorted(mail.message.keys()) == sorted(
        ["From", "To", "Subject", "Date", "Message-ID", "Auto-Submitted", "MIME-Version", "Content-Type"]
    )
    assert not [line for line in mail.raw.splitlines() if line.lower().startswith(b"bcc")]
    assert mail.message["Subject"] == word
    # Python's own parser leaves a space where a long name was folded.
    assert [
        (each.display_name.replace(" ", ""), each.addr_spec) for each in mail.message["From"].addresses
    ] == [(word, "alerts@example.org")]


def test_a_wrong_password_stops_the_delivery_and_is_not_in_the_error(mail_server: SmtpGateway) -> None:
    destination = email(mail_server, user="alerts", password="wr0ng-pass")
    with pytest.raises(DeliveryError, match=r"rejected the login: 535 .*with \*\*\*") as caught:
        destination.write([row(MAIL)])
    destination.close()
    assert stops(caught.value)
    assert "wr0ng" not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize("verb", ["MAIL", "RCPT", "DATA", "."])
def test_a_mail_server_that_says_later_is_retriable_and_never_is_permanent(verb: str) -> None:
    with SmtpGateway() as server:
        destination = email(server)
        server.fail(verb, 451)
        with pytest.raises(RetriableError, match=f"127.0.0.1:{server.port} rejected the .*: 451 on command"):
            destination.write([row(MAIL)])
        server.fail(verb, 550)
        with pytest.raises(DeliveryError, match=r"rejected the .*: 550 on command") as refused:
            destination.write([row(MAIL)])
        # The sender is that of every mail; so is a login that is missing or was taken away, whatever tells of it.
        assert isinstance(refused.value, PermanentError) == (verb != "MAIL") != stops(refused.value)
        server.fail(verb, 530)
        with pytest.raises(DeliveryError, match=r"530 on command; check user= and password=") as unknown:
            destination.write([row(MAIL)])
        assert stops(unknown.value)
        destination.write([row(MAIL)])
        destination.close()
        assert len(server.mails) == 1


@pytest.mark.parametrize("verb", ["EHLO", "RCPT", "DATA", "."])
def test_a_mail_server_that_hangs_up_is_retriable(verb: str) -> None:
    with SmtpGateway() as server:
        destination = email(server)
        server.hang_up_on(verb)
        with pytest.raises(RetriableError, match=r"connection to 127\.0\.0\.1:\d+ failed"):
            destination.write([row(MAIL)])
        destination.write([row(MAIL)])
        destination.close()
        assert {mail.message["Message-ID"] for mail in server.mails} == {
            f"<{row(MAIL).record.idempotency_key}@example.org>"
        }


def test_a_kept_connection_that_the_mail_server_closed_is_replaced_unnoticed() -> None:
    with SmtpGateway() as server:
        destination = email(server)
        destination.write([row(MAIL)])
        server.hang_up()
        destination.write([row(MAIL)])
        server.fail("MAIL", 421)
        destination.write([row(MAIL)])
        destination.close()
        assert len(server.mails) == 3
        assert server.connections == 3


def test_a_mail_server_that_is_down_is_retriable_and_its_return_is_noticed() -> None:
    with SmtpGateway() as server:
        destination = email(server)
        destination.write([row(MAIL)])
        server.down()
        with pytest.raises(RetriableError, match=r"connection to 127\.0\.0\.1:\d+ failed"):
            destination.write([row(MAIL)])
        server.up()
        destination.write([row(MAIL)])
        destination.close()
        assert len(server.mails) == 2


@pytest.mark.parametrize("kind", ["starttls", "tls"])
def test_a_mail_goes_over_tls_to_a_server_whose_certificate_is_trusted(
    kind: str, tls: ssl.SSLContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with SmtpGateway(users={"alerts": TOKEN}, tls=tls, tls_from_the_start=kind == "tls") as server:
        destination = email(server, tls=kind, user="alerts", password=TOKEN)
        with pytest.raises(DeliveryError, match="is not trusted; set SSL_CERT_FILE") as raised:
            destination.write([row(MAIL)])
        assert type(raised.value) is DeliveryError, "it stops the delivery: every record would meet it"
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "gateway.pem"))
        destination.write([row(MAIL)])
        destination.close()
        [mail] = server.mails
        assert mail.encrypted
        assert mail.user == "alerts"


def test_a_mail_server_without_tls_gets_no_password(mail_server: SmtpGateway) -> None:
    destination = email(mail_server, tls="starttls", user="alerts", password=TOKEN)
    with pytest.raises(DeliveryError, match="does not support the requested TLS or login") as refused:
        destination.write([row(MAIL)])
    assert stops(refused.value)
    destination.close()
    assert mail_server.mails == []


def test_an_address_outside_ascii_goes_to_a_server_that_takes_it() -> None:
    abroad = EmailMessage("jürgen@example.org", "Grüße", "Guten Tag")
    with SmtpGateway() as narrow, SmtpGateway(international=True) as wide:
        with pytest.raises(PermanentError, match="does not support addresses outside ASCII"):
            email(narrow).send(abroad.to, abroad.subject, abroad.text)
        destination = email(wide)
        destination.write([row(abroad)])
        destination.close()
        [mail] = wide.mails
        assert mail.recipients == ("jürgen@example.org",)


def test_many_threads_send_mail_side_by_side() -> None:
    with SmtpGateway() as server:
        destination = email(server)
        with ThreadPoolExecutor(4) as lanes:
            list(lanes.map(lambda n: destination.write([row(MAIL, offset=n)]), range(60)))
        destination.close()
        assert len({mail.message["Message-ID"] for mail in server.mails}) == 60
        assert server.connections <= 4


def test_nobody_listening_is_retriable_for_each() -> None:
    port = closed_port()
    destinations: list[tuple[Destination, object]] = [
        (Sms(account="AC1", token=TOKEN, sender="+15005550006", url=f"http://127.0.0.1:{port}"), TEXT),
        (Webhook(f"http://127.0.0.1:{port}"), ALERT),
        (Email("127.0.0.1", port, "alerts@example.org", tls="none"), MAIL),
    ]
    for destination, value in destinations:
        with pytest.raises(RetriableError, match=f"127.0.0.1:{port}"):
            destination.write([row(value)])
        destination.close()


def test_the_gateway_of_the_smart_meter_story_keeps_one_text_per_key() -> None:
    seen: list[Message] = []
    with Gateway(on_message=seen.append) as gateway:
        destination = Sms(account="AC1", token=TOKEN, sender="+15005550006", url=gateway.url)
        with ThreadPoolExecutor(4) as lanes:
            list(lanes.map(lambda n: destination.write([row(TEXT, offset=n % 20)]), range(40)))
        destination.close()
        assert len(gateway.messages) == len(seen) == 20
        assert gateway.repeats == 20
        to, text, received_at = gateway.messages[0]
        assert (to, text) == ("+31612345678", TEXT.text)
        assert datetime.now(UTC) - received_at < timedelta(minutes=1)
