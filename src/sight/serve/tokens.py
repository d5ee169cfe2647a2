"""Access tokens with scopes and patterns of wearers, stored as hashes in one file."""

from __future__ import annotations

import hashlib
import hmac
import json
import math
import os
import secrets
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path

from sight.atomic import write_atomic
from sight.ops import choices

SCOPES = ("ingest", "read", "admin")
PREFIX = "sight_"
FORMAT = 1


@dataclass(frozen=True, kw_only=True)
class Token:
    """A stored token and what it permits.

    Parameters
    ----------
    id
        Public identifier, for listing and removing.
    digest
        SHA-256 of the secret text. The text has 256 random bits, so a slow hash would add nothing.
    scopes
        Any of "ingest" (create wearers, send samples), "read" and "admin" (reset, move, export, delete).
    wearers
        Patterns with ``*`` and ``?``; one must match the wearer.
    created
        Time of creation, ISO 8601.
    """

    id: str
    digest: str
    scopes: tuple[str, ...]
    wearers: tuple[str, ...] = ("*",)
    created: str = ""

    def permits(self, scope: str | None, wearer: str | None = None) -> bool:
        """Return whether the token permits a scope (None: any) on a wearer (None: no particular one).

        Examples
        --------
        >>> token = Token(id="a", digest="", scopes=("read",), wearers=("lab-*",))
        >>> token.permits("read", "lab-1"), token.permits("read", "home"), token.permits("ingest", "lab-1")
        (True, False, False)
        """
        if scope is not None and scope not in self.scopes:
            return False
        return wearer is None or any(fnmatchcase(wearer, pattern) for pattern in self.wearers)

    def denial(self, scope: str | None) -> str:
        """Return why the token does not permit a scope on a wearer, whether or not the wearer exists."""
        if scope is not None and scope not in self.scopes:
            return f"This needs the scope {scope}; the token has {', '.join(self.scopes)}."
        return f"The token does not permit this wearer; it permits {', '.join(self.wearers)}."


#: Token of every request to a service without tokens, which only this machine can reach.
LOCAL = Token(id="local", digest="", scopes=SCOPES)


class TokenFile:
    """Tokens of a JSON file; changes of the file take effect within `check_every_s`.

    Parameters
    ----------
    path
        The file; it need not exist.
    check_every_s
        Seconds between two checks of the file.

    Examples
    --------
    >>> import tempfile
    >>> tokens = TokenFile(Path(tempfile.mkdtemp()) / "tokens.json")
    >>> text, token = tokens.add(["read"], ["lab-*"])
    >>> tokens.find(text) == token, tokens.find(text + "x")
    (True, None)
    >>> tokens.remove(token.id), tokens.find(text)
    (True, None)
    """

    def __init__(self, path: str | Path, check_every_s: float = 1.0) -> None:
        self.path, self.check_every_s = Path(path), check_every_s
        self._tokens: dict[str, Token] = {}
        self._stamp: tuple[int, int] | None = None
        self._checked = -math.inf
        self._reload()

    def __bool__(self) -> bool:
        return bool(self.tokens())

    def __contains__(self, token: Token) -> bool:
        return token in self.tokens()

    def tokens(self) -> list[Token]:
        """Return all tokens, oldest first."""
        self._reload()
        return list(self._tokens.values())

    def find(self, text: str) -> Token | None:
        """Return the token with this secret text, or None; compares all tokens, each in constant time."""
        digest = _digest(text)
        found = None
        for token in self.tokens():
            if hmac.compare_digest(digest, token.digest):
                found = token
        return found

    def add(self, scopes: Sequence[str], wearers: Sequence[str] = ("*",)) -> tuple[str, Token]:
        """Create a token; return its secret text, which is not stored, and the token."""
        for scope in scopes:
            if scope not in SCOPES:
                raise ValueError(f"There is no scope called {scope!r}; {choices(scope, SCOPES)}")
        if not scopes or not all(wearers) or not wearers:
            raise ValueError("Expected at least one scope and one pattern of wearers; for example read and lab-*.")
        text = PREFIX + secrets.token_urlsafe(32)
        now = datetime.now(UTC).isoformat(timespec="seconds")
        token = Token(
            id=secrets.token_hex(4), digest=_digest(text), scopes=tuple(scopes), wearers=tuple(wearers), created=now
        )
        self._write([*self.tokens(), token])
        return text, token

    def remove(self, token_id: str) -> bool:
        """Remove a token; return whether there was one."""
        kept = [token for token in self.tokens() if token.id != token_id]
        if len(kept) == len(self._tokens):
            return False
        self._write(kept)
        return True

    def _write(self, tokens: Sequence[Token]) -> None:
        content = {"format": FORMAT, "tokens": [asdict(token) for token in tokens]}
        write_atomic(self.path, (json.dumps(content, indent=2) + "\n").encode())
        os.chmod(self.path, 0o600)
        self._checked = -math.inf

    def _reload(self) -> None:
        """Read the file if it changed, and was not checked just now."""
        now = time.monotonic()
        if now - self._checked < self.check_every_s:
            return
        self._checked = now
        try:
            status = self.path.stat()
        except FileNotFoundError:
            self._tokens, self._stamp = {}, None
            return
        stamp = (status.st_mtime_ns, status.st_ino)
        if stamp == self._stamp:
            return
        try:
            entries = json.loads(self.path.read_bytes())["tokens"]
            lists = ("scopes", "wearers")
            tokens = [Token(**{**entry, **{name: tuple(entry[name]) for name in lists}}) for entry in entries]
        except (ValueError, KeyError, TypeError):
            raise ValueError(f"{self.path} is not a list of tokens; restore it, or delete it and add tokens.") from None
        self._tokens, self._stamp = {token.id: token for token in tokens}, stamp


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
