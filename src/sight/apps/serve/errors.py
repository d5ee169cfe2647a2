"""Errors of the service, each with the reason counted in the metrics and the HTTP status it maps to."""
# ruff: noqa: N818 - each class is named after what is wrong

#: The same text for a token that is missing, wrong or removed.
DENIED = "This needs a token that permits it; send it as 'Authorization: Bearer TOKEN'."
METHOD_DENIED = (
    "Another method than the default, or other params, needs a token with the scope admin; leave out method and params."
)
INTERNAL = "Internal error; see the log of the service."
STORE_FAILED = "The store of the service failed; send the same request again in a moment, or see the service's log."


class ServiceError(ValueError):
    """A request that the service refuses; nothing was changed."""

    reason = "request"  # label of the metric sight_refused_total
    status = 422  # of the HTTP response


class Refused(ServiceError):
    """An input that is not valid, not permitted, or beyond a limit, with its own reason and status."""

    def __init__(self, reason: str, text: str, status: int = 422) -> None:
        super().__init__(text)
        self.reason, self.status = reason, status


class UnknownWearer(ServiceError):
    """The wearer was never created, or was deleted."""

    reason = "unknown"
    status = 404

    def __init__(self, wearer: str) -> None:
        super().__init__(f"There is no wearer {wearer!r}; create it first.")


class UnknownModel(ServiceError):
    """No model of this name is loaded."""

    reason = "model"


class Conflict(ServiceError):
    """A valid request that does not fit what is stored."""

    reason = "conflict"
    status = 409


class Damaged(Conflict):
    """Stored data of one wearer that cannot be read; the wearer is refused until it is reset or deleted."""

    reason = "damaged"


class WrongSequence(Conflict):
    """A chunk number was skipped."""

    reason = "sequence"

    def __init__(self, wearer: str, got: int, expected: int) -> None:
        super().__init__(f"{wearer}: expected chunk {expected}, got {got}; send the chunks between first.")
        self.expected = expected  # number that the next chunk must have


class ReusedNumber(WrongSequence):
    """A chunk with a number that was applied before, whose content differs or cannot be compared any more."""

    reason = "reused"

    def __init__(self, wearer: str, got: int, expected: int) -> None:
        Conflict.__init__(
            self,
            f"{wearer}: chunk {got} was applied before, with other content or too long ago to compare; continue with "
            f"chunk {expected}, or start a new sequence with POST /v1/wearers/{wearer}/sequence.",
        )
        self.expected = expected


class StoreFailed(RuntimeError):
    """The store failed to write; the batch may or may not be stored, so send it again under the same numbers.

    The text is for the log. It may name other wearers and the address of the store, so clients get `public` instead.
    """

    reason = "store"
    status = 503

    def __init__(self, text: str, public: str = STORE_FAILED) -> None:
        super().__init__(text)
        self.public = public


def describe(error: Exception) -> tuple[str, str, int]:
    """Return reason, text and HTTP status of an error; internal errors are described in the log only."""
    if not isinstance(error, ValueError | TypeError | StoreFailed):
        return "internal", INTERNAL, 500
    text = error.public if isinstance(error, StoreFailed) else " ".join(str(error).split())[:500]
    return getattr(error, "reason", "value"), text, getattr(error, "status", 422)
