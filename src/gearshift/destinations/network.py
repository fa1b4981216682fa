"""What the destinations that talk to a stranger's server share: whether to trust the way there, and its words."""

from __future__ import annotations

import re
from ipaddress import ip_address

from gearshift.errors import DefinitionError
from gearshift.redaction import redact

_LOOPBACK = re.compile(r"localhost|127(\.\d{1,3}){3}|::1")
_LABEL = re.compile(r"(?!-)[A-Za-z0-9_-]{1,63}(?<!-)")
_DEVICE = re.compile(r"con|prn|aux|nul|(com|lpt)[0-9]", re.IGNORECASE)  # names of devices on Windows
_SHOWN = 200  # characters of an answer that an error quotes


def is_loopback(host: str) -> bool:
    """Whether what is sent there never leaves this machine.

    >>> is_loopback("127.0.0.1"), is_loopback("127.0.0.1.example.org")
    (True, False)
    """
    return _LOOPBACK.fullmatch(host) is not None


def require_host(host: str) -> None:
    """Refuse what no name server could know: a host is an address, or a name of labels.

    >>> require_host("mail.example.org"), require_host("::1"), require_host("gateway"), require_host("bücher.example")
    (None, None, None, None)
    >>> require_host("--help")
    Traceback (most recent call last):
    gearshift.errors.DefinitionError: '--help' is not the name of a host; write it as in example.org or 10.0.0.1
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
    # A last label of digits is an address with a mistake in it.
    if not known or labels[-1].isdigit() or _DEVICE.fullmatch(name):
        raise DefinitionError(
            f"{host!r} is not the name of a host", hint="write it as in example.org or 10.0.0.1"
        )


def shown(answer: bytes | str, *, hidden: tuple[str | None, ...] = ()) -> str:
    """The beginning of a server's answer as an error may quote it: one line, no control characters, no secrets.

    >>> shown(b"401\\r\\nwrong token: abcd", hidden=("abcd",))
    '401 wrong token: ***'
    """
    text = answer[:4096].decode("utf-8", "replace") if isinstance(answer, bytes) else answer[:4096]
    line = "".join(letter for letter in " ".join(text.split()) if letter.isprintable())
    for secret in hidden:
        if secret:
            line = line.replace(secret, "***")
    return redact(line)[:_SHOWN]
