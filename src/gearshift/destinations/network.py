"""What the destinations that talk to a stranger's server share: whether to trust the way there, and its words."""

from __future__ import annotations

import re

_LOOPBACK = re.compile(r"localhost|127(\.\d{1,3}){3}|::1")
_SHOWN = 200  # characters of an answer that an error quotes


def is_loopback(host: str) -> bool:
    """Whether what is sent there never leaves this machine.

    >>> is_loopback("127.0.0.1"), is_loopback("127.0.0.1.example.org")
    (True, False)
    """
    return _LOOPBACK.fullmatch(host) is not None


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
    return line[:_SHOWN]
