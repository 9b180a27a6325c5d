"""Make what TLS and node authentication need: a CA, the server's certificate, a key for each node.

    python make_keys.py secrets --nodes 5 --host localhost --host 127.0.0.1

Everything is written into one folder, readable by you alone. Keep it out of version control, and
give each client only `ca.crt` and its own key.
"""

import argparse
import ipaddress
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

DAYS = 365


def make_keys(folder: Path, n_nodes: int, hosts: list[str]) -> None:
    """A CA, a certificate for the SuperLink under these host names, and a key for each node."""
    folder.mkdir(parents=True, exist_ok=True)
    os.chmod(folder, 0o700)
    ca_key, ca = make_ca()
    server_key, server = make_certificate(ca_key, ca, hosts)
    write(folder / "ca.crt", pem(ca))
    write(folder / "server.pem", pem(server))
    write(folder / "server.key", private_pem(server_key))
    # the CA's own key is not kept: nobody can sign another server with it
    for number in range(n_nodes):
        key = ec.generate_private_key(ec.SECP384R1())
        write(folder / f"client-{number}", private_ssh(key))
        write(folder / f"client-{number}.pub", public_ssh(key))


def make_ca() -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
    key = ec.generate_private_key(ec.SECP384R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Federation CA")])
    usage = x509.KeyUsage(
        digital_signature=True, key_cert_sign=True, crl_sign=True, content_commitment=False,
        key_encipherment=False, data_encipherment=False, key_agreement=False,
        encipher_only=False, decipher_only=False,
    )  # fmt: skip
    builder = (
        begun(name, name, key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False)
    )
    return key, builder.sign(key, hashes.SHA384())


def make_certificate(
    ca_key: ec.EllipticCurvePrivateKey, ca: x509.Certificate, hosts: list[str]
) -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
    key = ec.generate_private_key(ec.SECP384R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, hosts[0])])
    builder = (
        begun(name, ca.subject, key.public_key())
        .add_extension(x509.SubjectAlternativeName([general_name(host) for host in hosts]), False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), False
        )
    )
    return key, builder.sign(ca_key, hashes.SHA384())


def begun(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))  # clocks differ
        .not_valid_after(now + timedelta(days=DAYS))
    )


def general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def private_ssh(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.OpenSSH,
        serialization.NoEncryption(),
    )


def public_ssh(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.public_key().public_bytes(
        serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    )


def write(path: Path, content: bytes) -> None:
    """Readable by its owner alone, from the first byte on; what is there is not overwritten."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, help="is made; must not hold keys already")
    parser.add_argument("--nodes", type=int, default=5, help="how many client keys")
    parser.add_argument("--host", action="append", help="a name or address of the SuperLink")
    given = parser.parse_args()
    make_keys(given.folder, given.nodes, given.host or ["localhost", "127.0.0.1"])
    print(f"{given.folder}: ca.crt, server.pem, server.key, keys of {given.nodes} clients")
