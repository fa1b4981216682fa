"""Host names, loopback addresses and quoting of server responses, for destinations that call external services."""

from __future__ import annotations

import re
from ipaddress import ip_address

from gearshift.errors import DefinitionError
from gearshift.redaction import redact

_LOOPBACK = re.compile(r"localhost|127(\.\d{1,3}){3}|::1")
_LABEL = re.compile(r"(?!-)[A-Za-z0-9_-]{1,63}(?<!-)")
_DEVICE = re.compile(r"con|prn|aux|nul|(com|lpt)[0-9]", re.IGNORECASE)  # device names on Windows
_SHOWN = 200  # characters of a response that an error quotes


def is_loopback(host: str) -> bool:
    """Whether traffic to the host stays on this machine.

    >>> is_loopback("127.0.0.1"), is_loopback("127.0.0.1.example.org")
    (True, False)
    """
    return _LOOPBACK.fullmatch(host) is not None


def require_host(host: str) -> None:
    """Reject an invalid host: it must be an IP address or a name of valid labels.

    >>> require_host("mail.example.org"), require_host("::1"), require_host("gateway"), require_host("bücher.example")
    (None, None, None, None)
    >>> require_host("--help")
    Traceback (most recent call last):
    gearshift.errors.DefinitionError: invalid host name '--help'; write it as in example.org or 10.0.0.1
    """
    try:
        ip_address(host.partition("%")[0])
        return
    except ValueError:
        pass
    try:
        name = host.encode("idna").decode("ascii").removesuffix(".")
    except UnicodeError:
        name = ""
    labels = name.split(".")
    known = len(name) <= 253 and all(_LABEL.fullmatch(label) for label in labels)
    # A numeric last label is a mistyped IP address.
    if not known or labels[-1].isdigit() or _DEVICE.fullmatch(name):
        raise DefinitionError(f"invalid host name {host!r}", hint="write it as in example.org or 10.0.0.1")


def shown(answer: bytes | str, *, hidden: tuple[str | None, ...] = ()) -> str:
    """The beginning of a server's response for an error: one line, without control characters and secrets.

    >>> shown(b"401\\r\\nwrong token: abcd", hidden=("abcd",))
    '401 wrong token: ***'
    """
    text = answer[:4096].decode("utf-8", "replace") if isinstance(answer, bytes) else answer[:4096]
    line = "".join(letter for letter in " ".join(text.split()) if letter.isprintable())
    for secret in hidden:
        if secret:
            line = line.replace(secret, "***")
    return redact(line)[:_SHOWN]
