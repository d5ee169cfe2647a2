"""From what went wrong to what a client is told: a word for the metrics, one sentence, and a status."""

from __future__ import annotations

from typing import NamedTuple

from sight.serve.errors import (
    BadChunk,
    BadRequest,
    Conflict,
    Damaged,
    LimitReached,
    StoreFailed,
    UnknownModel,
    UnknownWearer,
    WrongSequence,
)
from sight.serve.limits import Refused

#: The same for a token that is missing, wrong, removed, or not meant for this wearer, whether the wearer exists or not.
DENIED = "This needs a token that permits it; send it as 'Authorization: Bearer TOKEN'."

_KINDS: tuple[tuple[type[Exception], str, int], ...] = (
    (UnknownWearer, "unknown", 404),
    (UnknownModel, "model", 422),
    (WrongSequence, "sequence", 409),
    (Damaged, "damaged", 409),
    (Conflict, "conflict", 409),
    (LimitReached, "wearers", 409),
    (BadRequest, "request", 422),
    (BadChunk, "chunk", 422),
    (StoreFailed, "store", 503),
    (ValueError, "value", 422),
    (TypeError, "value", 422),
)


class Problem(NamedTuple):
    """What a client is told."""

    reason: str
    text: str
    status: int


def problem(error: Exception) -> Problem:
    """Say what happened; what was no mistake of the client is not described, for the log has it.

    Examples
    --------
    >>> problem(UnknownWearer("anna"))
    Problem(reason='unknown', text="There is no wearer 'anna'; create it first.", status=404)
    >>> problem(ZeroDivisionError("secret")).text
    'Something went wrong in the service; its log tells what.'
    """
    if isinstance(error, Refused):
        return Problem(error.reason, str(error), error.status)
    for kind, reason, status in _KINDS:
        if isinstance(error, kind):
            return Problem(reason, " ".join(str(error).split())[:500], status)
    return Problem("internal", "Something went wrong in the service; its log tells what.", 500)
