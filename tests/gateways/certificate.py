"""A certificate for the gateways that speak TLS."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import pkcs12


def certificate(folder: Path) -> Path:
    """A certificate and its key for 127.0.0.1 and localhost, signed by itself, in one file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "gateway")])
    alternatives = [x509.DNSName("localhost"), x509.IPAddress(ip_address("127.0.0.1"))]
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(datetime.now(UTC) - timedelta(hours=1))
        .not_valid_after(datetime.now(UTC) + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    file = folder / "gateway.pem"
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    file.write_bytes(made.public_bytes(serialization.Encoding.PEM) + private)
    return file


def java_stores(pem: Path, password: str) -> tuple[Path, Path]:
    """The certificate and its key as a key store, and the certificate alone as a trust store, as Java reads them."""
    key = serialization.load_pem_private_key(pem.read_bytes(), None)
    made = x509.load_pem_x509_certificate(pem.read_bytes())
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    closed = serialization.BestAvailableEncryption(password.encode())
    keys, trusted = pem.with_name("keys.p12"), pem.with_name("trusted.p12")
    keys.write_bytes(pkcs12.serialize_key_and_certificates(b"gateway", key, made, None, closed))
    trusted.write_bytes(
        pkcs12.serialize_java_truststore([pkcs12.PKCS12Certificate(made, b"gateway")], closed)
    )
    return keys, trusted
