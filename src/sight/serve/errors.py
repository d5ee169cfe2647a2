"""What can be wrong with a request, each kind with a name; every text is one sentence with the remedy."""
# ruff: noqa: N818 - what is wrong has a better name than its kind with "Error" behind it

from __future__ import annotations


class KeeperError(ValueError):
    """A request that the keeper refuses; nothing was changed."""


class UnknownWearer(KeeperError):
    """Nobody of this name was created, or they were deleted."""

    def __init__(self, wearer: str) -> None:
        super().__init__(f"There is no wearer {wearer!r}; create it first.")


class UnknownModel(KeeperError):
    """No model of this name is loaded."""


class BadRequest(KeeperError):
    """A name, method or setting that cannot be."""


class BadChunk(KeeperError):
    """Samples of the wrong shape, too many of them, or numbers that are none."""


class Conflict(KeeperError):
    """The request is sound but does not fit what is stored."""


class Damaged(Conflict):
    """What is stored of one wearer cannot be read; its data stay, and it is refused until somebody decides."""


class WrongSequence(Conflict):
    """A chunk was left out.

    Attributes
    ----------
    expected
        The number that the next chunk must have.
    """

    def __init__(self, wearer: str, got: int, expected: int) -> None:
        super().__init__(f"{wearer}: expected chunk {expected}, got {got}; send the chunks between first.")
        self.expected = expected


class LimitReached(KeeperError):
    """One more would be more than the service was told to hold."""


class StoreFailed(RuntimeError):
    """The store did not take a batch; it may or may not be in it, so send it again under the same numbers."""
