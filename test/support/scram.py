"""
SCRAM-SHA-256 (RFC 5802, RFC 7677), both sides, as bare functions, so that a scene can play any step wrongly.
"""
import base64
import hashlib
import hmac
import os
from collections import namedtuple

Secret = namedtuple("Secret", "iterations salt stored_key server_key")


def b64(data):
    return base64.b64encode(data).decode()


def nonce():
    return b64(os.urandom(18))


def _hmac(key, data):
    return hmac.new(key, data, hashlib.sha256).digest()


def _xor(a, b):
    return bytes(x ^ y for x, y in zip(a, b))


def client_key(password, salt, iterations):
    return _hmac(hashlib.pbkdf2_hmac("sha256", password.encode(), salt, iterations), b"Client Key")


def make_secret(password, salt=b"0123456789abcdef", iterations=4096):
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), salt, iterations)
    stored = hashlib.sha256(_hmac(salted, b"Client Key")).digest()
    return Secret(iterations, salt, stored, _hmac(salted, b"Server Key"))


def secret_text(secret):
    """As PostgreSQL writes it in pg_authid."""
    return "SCRAM-SHA-256$%d:%s$%s:%s" % (secret.iterations, b64(secret.salt), b64(secret.stored_key),
                                          b64(secret.server_key))


def attributes(text):
    """'r=x,s=y' as {'r': 'x', 's': 'y'}."""
    return dict(part.split("=", 1) for part in text.split(",") if "=" in part)


def server_first(client_nonce, secret, own_nonce=None):
    return "r=%s%s,s=%s,i=%d" % (client_nonce, own_nonce or nonce(), b64(secret.salt), secret.iterations)


def client_final(password, client_first_bare, server_first_text, channel=b"n,,"):
    """Client's last message, and the signature it will expect of the server."""
    said = attributes(server_first_text)
    salt, iterations = base64.b64decode(said["s"]), int(said["i"])
    without_proof = "c=%s,r=%s" % (b64(channel), said["r"])
    signed = ",".join((client_first_bare, server_first_text, without_proof)).encode()
    key = client_key(password, salt, iterations)
    proof = _xor(key, _hmac(hashlib.sha256(key).digest(), signed))
    signature = _hmac(make_secret(password, salt, iterations).server_key, signed)
    return "%s,p=%s" % (without_proof, b64(proof)), b64(signature)


def server_final(secret, client_first_bare, server_first_text, client_final_text):
    """Server's last message; None when the proof is wrong."""
    without_proof, _, proof = client_final_text.rpartition(",p=")
    signed = ",".join((client_first_bare, server_first_text, without_proof)).encode()
    key = _xor(base64.b64decode(proof), _hmac(secret.stored_key, signed))
    if hashlib.sha256(key).digest() != secret.stored_key:
        return None
    return "v=" + b64(_hmac(secret.server_key, signed))


def md5_password(user, password, salt):
    inner = hashlib.md5((password + user).encode()).hexdigest()
    return "md5" + hashlib.md5(inner.encode() + salt).hexdigest()
