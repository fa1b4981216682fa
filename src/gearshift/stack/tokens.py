"""The token that opens the local registry: signed once with a key that is then forgotten."""

from __future__ import annotations

import base64
import json
import time
from pathlib import Path

from gearshift.errors import StackError
from gearshift.stack.accounts import USER
from gearshift.stack.files import write_whole

_VALID = 100 * 365 * 86_400  # seconds; whoever wants another token deletes the file


def token_file(folder: Path) -> Path:
    """Where the token of the registry in this folder is kept."""
    return folder.absolute() / "token"


def read_token(folder: Path) -> str:
    """The token of the registry in this folder."""
    file = token_file(folder)
    try:
        return file.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise StackError(
            f"cannot read {file}: {error.strerror}", hint="run as the user who started the stack"
        ) from None


def make_token(folder: Path) -> str:
    """The public key, in Base64, with which the registry tells the token of this folder from others; made if there is none."""
    public = folder.absolute() / "token.key"
    if not (public.exists() and token_file(folder).exists()):
        key, token = _signed()
        write_whole(public, key + "\n")
        write_whole(token_file(folder), token + "\n")
    return public.read_text(encoding="utf-8").strip()


def client_properties(token: str) -> dict[str, str]:
    """How a Confluent client of a registry is given the token."""
    return {
        "bearer.auth.credentials.source": "STATIC_TOKEN",
        "bearer.auth.token": token,
        # Confluent's own cloud wants to know these; they go into headers that nobody here reads.
        "bearer.auth.logical.cluster": "local",
        "bearer.auth.identity.pool.id": "local",
    }


def _signed() -> tuple[str, str]:
    # Half a second of imports and of arithmetic that only the first start pays.
    from cryptography.hazmat.primitives.asymmetric import padding, rsa
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    now = int(time.time())
    claims = {"sub": USER, "preferred_username": USER, "iat": now, "exp": now + _VALID}
    body = b".".join(_encoded(json.dumps(part).encode()) for part in ({"alg": "RS256", "typ": "JWT"}, claims))
    token = body + b"." + _encoded(key.sign(body, padding.PKCS1v15(), SHA256()))
    public = key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return base64.b64encode(public).decode(), token.decode()


def _encoded(part: bytes) -> bytes:
    return base64.urlsafe_b64encode(part).rstrip(b"=")
