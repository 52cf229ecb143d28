"""Pairs of keys for signatures, as `openssl genpkey` writes them."""

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519

PEM, PKCS8 = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
KINDS = {
    "ed25519": ed25519.Ed25519PrivateKey.generate,
    "ecdsa-p256": lambda: ec.generate_private_key(ec.SECP256R1()),
}


class KeyPair:
    """A key in PEM, whose public half lies in a file.

    Args:
        folder: for the file.
    """

    def __init__(self, folder, name="release", kind="ed25519"):
        key = KINDS[kind]()
        self.private = key.private_bytes(PEM, PKCS8, serialization.NoEncryption()).decode()
        self.public = key.public_key().public_bytes(PEM, serialization.PublicFormat.SubjectPublicKeyInfo).decode()
        self.file = folder / f"{name}.pub.pem"
        self.file.write_text(self.public)
