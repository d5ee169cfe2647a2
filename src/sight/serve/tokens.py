"""Who may do what: tokens with scopes and a pattern of wearers, kept as hashes in one file."""

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
    """What is stored of a token, and what it permits.

    Parameters
    ----------
    id
        Public name, to list and remove it by.
    digest
        SHA-256 of the secret text. The text is 256 random bits, so a slow hash would add nothing.
    scopes
        Any of "ingest" (create and send), "read" (see) and "admin" (reset, export, delete).
    wearers
        Patterns with ``*`` and ``?``; one must match the wearer.
    created
        When, as ISO text.
    """

    id: str
    digest: str
    scopes: tuple[str, ...]
    wearers: tuple[str, ...] = ("*",)
    created: str = ""

    def permits(self, scope: str | None, wearer: str | None = None) -> bool:
        """Tell whether it allows a scope (None: any) on a wearer (None: on none in particular).

        Examples
        --------
        >>> token = Token(id="a", digest="", scopes=("read",), wearers=("lab-*",))
        >>> token.permits("read", "lab-1"), token.permits("read", "home"), token.permits("ingest", "lab-1")
        (True, False, False)
        """
        if scope is not None and scope not in self.scopes:
            return False
        return wearer is None or any(fnmatchcase(wearer, pattern) for pattern in self.wearers)


#: What a service without tokens gives to everybody who reaches it, which is this machine alone.
ANYBODY = Token(id="anybody", digest="", scopes=SCOPES)


class TokenBook:
    """The tokens of a file; changes of the file are seen soon, so a removed one stops working.

    Parameters
    ----------
    path
        The JSON file; it need not exist.
    every_s
        How long a look at the file counts.

    Examples
    --------
    >>> import tempfile
    >>> book = TokenBook(Path(tempfile.mkdtemp()) / "tokens.json")
    >>> text, token = book.add(["read"], ["lab-*"])
    >>> book.find(text) == token, book.find(text + "x")
    (True, None)
    >>> book.remove(token.id), book.find(text)
    (True, None)
    """

    def __init__(self, path: str | Path, every_s: float = 1.0) -> None:
        self.path, self.every_s = Path(path), every_s
        self._tokens: dict[str, Token] = {}
        self._stamp: tuple[int, int] | None = None
        self._looked = -math.inf
        self._look()

    def __bool__(self) -> bool:
        return bool(self.tokens())

    def tokens(self) -> list[Token]:
        """Return all tokens, oldest first."""
        self._look()
        return list(self._tokens.values())

    def find(self, text: str) -> Token | None:
        """Return the token with this secret text; every one is compared, each in constant time."""
        digest = _digest(text)
        found = None
        for token in self.tokens():
            if hmac.compare_digest(digest, token.digest):
                found = token
        return found

    def holds(self, token: Token) -> bool:
        """Tell whether a token found earlier is still in the book."""
        self._look()
        return self._tokens.get(token.id) == token

    def add(self, scopes: Sequence[str], wearers: Sequence[str] = ("*",)) -> tuple[str, Token]:
        """Make a token and return its secret text, which is not kept, beside it."""
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
        """Forget a token; tell whether there was one."""
        kept = [token for token in self.tokens() if token.id != token_id]
        if len(kept) == len(self._tokens):
            return False
        self._write(kept)
        return True

    def _write(self, tokens: Sequence[Token]) -> None:
        content = {"format": FORMAT, "tokens": [asdict(token) for token in tokens]}
        write_atomic(self.path, (json.dumps(content, indent=2) + "\n").encode())
        os.chmod(self.path, 0o600)
        self._looked = -math.inf

    def _look(self) -> None:
        """Read the file if it is another one than last time, and the last look was not just now."""
        now = time.monotonic()
        if now - self._looked < self.every_s:
            return
        self._looked = now
        try:
            status = self.path.stat()
        except FileNotFoundError:
            self._tokens, self._stamp = {}, None
            return
        stamp = (status.st_mtime_ns, status.st_ino)
        if stamp == self._stamp:
            return
        try:
            content = json.loads(self.path.read_bytes())
            tokens = [Token(**{**entry, **_tuples(entry)}) for entry in content["tokens"]]
        except (ValueError, KeyError, TypeError):
            raise ValueError(
                f"{self.path} is not a list of tokens; restore it, or remove it and add them anew."
            ) from None
        self._tokens, self._stamp = {token.id: token for token in tokens}, stamp


def _tuples(entry: dict[str, list[str]]) -> dict[str, tuple[str, ...]]:
    return {name: tuple(entry[name]) for name in ("scopes", "wearers")}


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
