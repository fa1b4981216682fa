"""Certificates for the local Kafka: an authority that signs one certificate and is then forgotten."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from gearshift.stack.processes.ports import HOST
from gearshift.storage.shared_files import write_whole

_VALID = timedelta(days=3650)
_SKEW = timedelta(hours=1)


def authority_file(folder: Path) -> Path:
    """The PEM file with the authority's certificate, which clients trust."""
    return folder.absolute() / "ca.pem"


def server_file(folder: Path) -> Path:
    """The PEM file with the brokers' certificate and its key."""
    return folder.absolute() / "server.pem"


def make_certificates(folder: Path) -> None:
    """Make both files, unless they exist. Nobody keeps the authority's key, so it signs nothing else."""
    if authority_file(folder).exists():
        return
    authority, own = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    issuer = _name("Gearshift local authority")
    trusted = (
        _certificate(issuer, issuer, authority)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(authority, hashes.SHA256())
    )
    names = [x509.DNSName("localhost"), x509.IPAddress(ip_address(HOST))]
    signed = (
        _certificate(_name("Gearshift local Kafka"), issuer, own)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .sign(authority, hashes.SHA256())
    )
    key = own.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    write_whole(server_file(folder), key.decode() + _text(signed) + _text(trusted))
    write_whole(authority_file(folder), _text(trusted))  # the last one: its presence stands for both


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, common)])


def _certificate(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SKEW)
        .not_valid_after(now + _VALID)
    )


def _text(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()
