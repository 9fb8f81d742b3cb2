"""A token issuer of one's own: keys made here, tokens signed with them, a key set to be served."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

from greenroom.clock import Clock, SystemClock

AUDIENCE = "https://shop.example/mcp"


class TokenKey:
    """A private key with an id."""

    def __init__(self, key_id: str, kind: str = "EC") -> None:
        self.id = key_id
        self.private: Any
        if kind == "EC":
            self.private, self.algorithm = ec.generate_private_key(ec.SECP256R1()), "ES256"
            described: Any = ECAlgorithm.to_jwk(self.private.public_key(), as_dict=True)
        elif kind == "RSA":
            self.private = rsa.generate_private_key(65537, 2048)
            self.algorithm = "RS256"
            described = RSAAlgorithm.to_jwk(self.private.public_key(), as_dict=True)
        else:
            self.private, self.algorithm = ed25519.Ed25519PrivateKey.generate(), "EdDSA"
            described = OKPAlgorithm.to_jwk(self.private.public_key(), as_dict=True)
        self.jwk: dict[str, Any] = {**described, "kid": key_id, "use": "sig"}

    def sign(self, claims: dict[str, Any], *, algorithm: str | None = None, **header: Any) -> str:
        """A token with just these claims."""
        lines = {"kid": self.id, **header}
        lines = {name: value for name, value in lines.items() if value is not None}
        return jwt.encode(claims, self.private, algorithm or self.algorithm, headers=lines)


class TokenIssuer:
    """Signs tokens as an authorization server does."""

    def __init__(
        self, url: str = "https://login.example", *, clock: Clock | None = None, kind: str = "EC"
    ) -> None:
        self.url = url
        self.clock = clock or SystemClock()
        self.key = TokenKey("k-1", kind)

    def claims(self, **changes: Any) -> dict[str, Any]:
        """What a good token says, changed; None leaves a claim out."""
        now = self.clock.now_ms() // 1000
        good = {"iss": self.url, "sub": "ada", "aud": AUDIENCE, "iat": now, "exp": now + 300}
        return {name: value for name, value in {**good, **changes}.items() if value is not None}

    def token(self, **changes: Any) -> str:
        """A token that says so."""
        return self.key.sign(self.claims(**changes))

    def key_set(self) -> dict[str, Any]:
        """The public keys, as they are served."""
        return {"keys": [self.key.jwk]}


class KeyServer:
    """Serves key sets over HTTP on the loopback interface, and counts who asks."""

    def __init__(self) -> None:
        self.documents: dict[str, Any] = {}
        self.asked: list[str] = []
        self.url = ""
        self.give_token: Callable[[dict[str, list[str]]], str] | None = None
        """Makes the access token for the fields of a request to `/token`."""

    def answer(self, path: str) -> tuple[int, bytes]:
        """What a path is answered with."""
        self.asked.append(path)
        document = self.documents.get(path)
        if document is None:
            return 404, b"{}"
        return 200, document if isinstance(document, bytes) else json.dumps(document).encode()


@contextmanager
def key_server() -> Iterator[KeyServer]:
    """A key server, while it runs."""
    keys = KeyServer()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path.startswith("/elsewhere"):
                self.send_response(302)
                self.send_header("Location", "/keys")
                self.end_headers()
                return
            status, body = keys.answer(self.path)
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_POST(self) -> None:
            fields = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
            assert self.path == "/token"
            assert keys.give_token is not None
            keys.asked.append(self.path)
            answer = {"access_token": keys.give_token(fields), "token_type": "Bearer"}
            body = json.dumps(answer).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Says nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    keys.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield keys
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
