"""Who may suspend, resume and terminate workflows from outside: whoever can read the database."""

from __future__ import annotations

import hashlib
import hmac


def steering_token(secret: str) -> str:
    """The permission, made of the secret that the processes of a database share.

    It needs no setting, and a port that is open to the world lets nobody steer who has not the
    database. The secret itself can't be found from it.
    """
    return hmac.new(secret.encode(), b"greenroom steering", hashlib.sha256).hexdigest()
