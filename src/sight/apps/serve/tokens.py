"""Access tokens with scopes and patterns of wearers, stored as hashes in one file."""

import hashlib
import hmac
import json
import math
import secrets
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from pathlib import Path

from filelock import FileLock

from sight._util.atomic import make_folder, staged_file
from sight._util.text import choices
from sight.apps.serve.private_files import create_private

SCOPES = ("ingest", "read", "admin")
PREFIX = "sight_"
#: Raised by one whenever an older `sight` could not read the file.
FORMAT = 2
#: Seconds to wait for another process that edits the file.
LOCK_S = 10.0


@dataclass(frozen=True, kw_only=True)
class Token:
    """A stored token and what it permits."""

    id: str  # public, for listing and removing
    digest: str  # SHA-256 of the secret text, which has 256 random bits: a slow hash would add nothing
    # "ingest" (create wearers, send samples), "read", "admin" (reset, move, export, delete; with "ingest", create
    # wearers with any method).
    scopes: tuple[str, ...]
    wearers: tuple[str, ...] = ("*",)  # patterns with * and ?; one must match the wearer
    created: str = ""  # ISO 8601
    expires: str = ""  # ISO 8601; empty if the token does not expire
    max_wearers: int | None = None  # no wearer is created if so many exist that match `wearers`

    @property
    def expired(self) -> bool:
        return bool(self.expires) and datetime.fromisoformat(self.expires) <= datetime.now(UTC)

    def permits(self, scope: str | None, wearer: str | None = None) -> bool:
        """Return whether the token permits a scope (None: any) on a wearer (None: no particular one)."""
        if scope is not None and scope not in self.scopes:
            return False
        return wearer is None or any(fnmatchcase(wearer, pattern) for pattern in self.wearers)

    def denial(self, scope: str | None) -> str:
        if scope is not None and scope not in self.scopes:
            return f"This needs the scope {scope}; the token has {', '.join(self.scopes)}."
        return f"The token does not permit this wearer; it permits {', '.join(self.wearers)}."


#: Token of every request to a service without tokens, which only this machine can reach.
LOCAL = Token(id="local", digest="", scopes=SCOPES)


class TokenFile:
    """Tokens of a JSON file, which need not exist; changes of the file take effect within `check_every_s`."""

    def __init__(self, path: str | Path, check_every_s: float = 1.0) -> None:
        self.path, self.check_every_s = Path(path), check_every_s
        self._tokens: dict[str, Token] = {}
        self._stamp: tuple[int, int] | None = None
        self._checked = -math.inf
        self._error = ""
        self._reload()

    def __bool__(self) -> bool:
        return bool(self.tokens())

    def __contains__(self, token: Token) -> bool:
        self._reload()
        current = self._tokens.get(token.id)
        return current is not None and not current.expired and replace(current, expires=token.expires) == token

    def tokens(self) -> list[Token]:
        """Return all tokens, oldest first; raise ValueError if the file is damaged."""
        self._reload()
        return list(self._tokens.values())

    def find(self, text: str) -> Token | None:
        """Return the token with this secret text that has not expired, or None; compares all in constant time."""
        digest = _digest(text)
        found = None
        for token in self.tokens():
            if hmac.compare_digest(digest, token.digest) and not token.expired:
                found = token
        return found

    def add(
        self,
        scopes: Sequence[str],
        wearers: Sequence[str] = ("*",),
        *,
        lifetime: timedelta | None = None,
        max_wearers: int | None = None,
    ) -> tuple[str, Token]:
        """Create a token; return its secret text, which is not stored, and the token."""
        for scope in scopes:
            if scope not in SCOPES:
                raise ValueError(f"There is no scope called {scope!r}; {choices(scope, SCOPES)}")
        if not scopes or not all(wearers) or not wearers:
            raise ValueError("Expected at least one scope and one pattern of wearers; for example read and lab-*.")
        wanted = Token(id="", digest="", scopes=tuple(scopes), wearers=tuple(wearers), max_wearers=max_wearers)
        text, token = _new_token(wanted, lifetime)
        with self._editing() as tokens:
            tokens[token.id] = token
        return text, token

    def rotate(self, token_id: str, *, lifetime: timedelta | None = None, overlap: timedelta) -> tuple[str, Token]:
        """Replace a token by a new one that permits the same; the old one expires after `overlap`."""
        with self._editing() as tokens:
            if token_id not in tokens:
                raise ValueError(f"There is no token {token_id!r}; list them with: sight serve token list")
            old = tokens[token_id]
            text, token = _new_token(old, lifetime)
            end = _time(datetime.now(UTC) + overlap)
            tokens[token_id] = replace(old, expires=min(end, old.expires) if old.expires else end)
            tokens[token.id] = token
        return text, token

    def remove(self, token_id: str) -> bool:
        with self._editing() as tokens:
            return tokens.pop(token_id, None) is not None

    @contextmanager
    def _editing(self) -> Iterator[dict[str, Token]]:
        """Yield all tokens and write them if they changed, while no other process edits the file."""
        make_folder(self.path.parent, 0o700)
        with FileLock(self.path.with_name(f"{self.path.name}.lock"), timeout=LOCK_S, mode=0o600):
            self._checked = -math.inf
            tokens = {token.id: token for token in self.tokens()}
            yield tokens
            if tokens == self._tokens:
                return
            content = {"format": FORMAT, "tokens": [asdict(token) for token in tokens.values()]}
            with staged_file(self.path) as draft:
                create_private(draft)
                draft.write_text(json.dumps(content, indent=2) + "\n", "utf-8")
            self._checked = -math.inf

    def _reload(self) -> None:
        """Read the file if it changed and was not checked just now; raise ValueError while it is damaged."""
        now = time.monotonic()
        if now - self._checked >= self.check_every_s:
            self._checked = now
            try:
                status = self.path.stat()
                stamp = (status.st_mtime_ns, status.st_ino)
                if stamp != self._stamp:
                    self._tokens, self._stamp, self._error = {}, stamp, ""
                    self._tokens = {token.id: token for token in _read(self.path.read_bytes())}
            except FileNotFoundError:
                self._tokens, self._stamp, self._error = {}, None, ""
            except (OSError, ValueError) as error:
                self._tokens, self._error = {}, f"{self.path} cannot be read ({error}); restore it, or remove it."
        if self._error:
            raise ValueError(self._error)


def _new_token(like: Token, lifetime: timedelta | None) -> tuple[str, Token]:
    text, now = PREFIX + secrets.token_urlsafe(32), datetime.now(UTC)
    expires = "" if lifetime is None else _time(now + lifetime)
    return text, replace(like, id=secrets.token_hex(4), digest=_digest(text), created=_time(now), expires=expires)


def _read(content: bytes) -> list[Token]:
    try:
        values = json.loads(content)
        version, entries = int(values["format"]), values["tokens"]
        lists = ("scopes", "wearers")
        if version <= FORMAT:
            tokens = [Token(**{**entry, **{name: tuple(entry[name]) for name in lists}}) for entry in entries]
            if all(_is_valid(token) for token in tokens):
                return tokens
            raise ValueError("a field of a token has a wrong type")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError):
        raise ValueError("it is not a list of tokens") from None
    raise ValueError(f"it has format {version}, newer than format {FORMAT}; upgrade sight")


def _is_valid(token: Token) -> bool:
    """Return whether the fields have their types, which JSON does not ensure; raise for a wrong time of expiry."""
    texts = (token.id, token.digest, token.created, token.expires, *token.scopes, *token.wearers)
    most = token.max_wearers
    typed = all(isinstance(text, str) for text in texts) and (most is None or isinstance(most, int))
    return typed and token.digest.isascii() and isinstance(token.expired, bool)


def _time(moment: datetime) -> str:
    return moment.isoformat(timespec="seconds")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
