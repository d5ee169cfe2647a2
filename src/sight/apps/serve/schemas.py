"""JSON of requests and responses: pydantic models that validate requests and describe both in the OpenAPI document."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from sight.apps.serve.chunks import LAST_SEQ
from sight.apps.serve.limits import WEARER, WEARER_LENGTH

MAX_PARAMS = 64
Finite = Annotated[float, Field(strict=True, allow_inf_nan=False)]
Row = Annotated[list[Finite], Field(fail_fast=True)]  # the first wrong value ends the validation
ChunkNumber = Annotated[int, Field(strict=True, ge=1, le=LAST_SEQ)]
WearerName = Annotated[str, Field(pattern=f"^{WEARER}$", max_length=WEARER_LENGTH, examples=["lab-07"])]


class Strict(BaseModel):
    """A request; unknown fields and wrong types are refused."""

    model_config = ConfigDict(extra="forbid", strict=True)


class ErrorOut(BaseModel):
    """Every error: one sentence with what was expected, what was found and what to do."""

    error: str = Field(examples=["There is no wearer 'lab-07'; create it first."])


class Samples(Strict):
    """A chunk of samples of one wearer."""

    seq: ChunkNumber | None = Field(
        None, description="Number of the chunk, from 1; a repeated one is not applied twice."
    )
    time_s: Row | None = Field(None, min_length=1, description="Time of each sample, in seconds.")
    values: Annotated[list[Row], Field(fail_fast=True)] = Field(
        min_length=1, description="One row for each sample, in the model's channels."
    )


class Create(Strict):
    """Model, method and rate of a wearer; what is left out takes the service's default."""

    model: str | None = Field(
        None, max_length=200, description="name or name@version; newest version of the default model if absent."
    )
    method: str | None = Field(None, max_length=64, description="Registry name of the method.")
    params: dict[str, bool | int | float | str | None] = Field(
        default_factory=dict, max_length=MAX_PARAMS, description="Hyper-parameters of the method."
    )
    rate_hz: Annotated[float, Field(gt=0, le=100_000, allow_inf_nan=False)] | None = Field(
        None, description="Nominal rate of the samples that will be sent; the model's rate if absent."
    )

    @field_validator("params", mode="before")
    @classmethod
    def _few_params(cls, params: Any) -> Any:
        """Refuse too many params before each of them is validated."""
        if isinstance(params, dict) and len(params) > MAX_PARAMS:
            raise ValueError(f"expected at most {MAX_PARAMS} params, got {len(params)}")
        return params


class Move(Strict):
    """Model to continue with."""

    model: str = Field(min_length=1, max_length=200, description="name or name@version.", examples=["walk@2"])


class AuthMessage(Strict):
    """First message of a WebSocket if the service requires tokens."""

    type: Literal["auth"]
    token: str = Field(max_length=512)


class SamplesMessage(Samples):
    """A chunk over a WebSocket."""

    type: Literal["samples"]
    wearer: WearerName


class WatchMessage(Strict):
    """Subscribe to a wearer; replaces the previous subscription."""

    type: Literal["watch"]
    wearer: WearerName


class EventOut(BaseModel):
    """The prediction for one window."""

    window: int = Field(description="Number of the window in its stream, from 0.")
    time_s: float = Field(description="Start of the window on the wearer's clock.")
    label: str = Field(description="Class with the highest refined probability.")
    raw: str = Field(description="Class with the highest raw probability.")
    q: list[float] = Field(description="Refined probabilities, in the order of the model's classes.")
    p: list[float] = Field(description="Raw probabilities.")
    gap_s: float = Field(description="Seconds missing before this window.")
    surprise: float | None = Field(description="How unexpected the window was for the method; null if not reported.")
    diagnostics: dict[str, float | None] = Field(description="All values that the method reports for the window.")
    latency_ms: float | None = Field(
        description="From the arrival of the chunk to its acknowledgement; null in stored events."
    )


class AckOut(BaseModel):
    """A chunk is durable; predictions of the windows it completed."""

    seq: int
    duplicate: bool = Field(description="True if this number had been applied before; nothing was changed.")
    dropped: int | None = Field(
        description="Samples that were not used because their time does not increase; null for an earlier chunk."
    )
    events: list[EventOut]


class AdaptationOut(BaseModel):
    """What the method has learned about a wearer."""

    class_frequencies: list[float] = Field(description="Share of each class.")
    frequencies_from: Literal["method", "day"] = Field(
        description="Whether the method estimates class_frequencies, or they are the time use of the current day."
    )
    similarity: list[list[float]] = Field(description="Cosine similarity between the prototypes of the classes.")
    prototypes_from: Literal["wearer", "model"] = Field(
        description="Whether the prototypes are adapted to the wearer, or those of the model."
    )
    time_use_s: list[float] = Field(description="Seconds of each class on the current day.")
    count: int = Field(description="Windows predicted so far.")
    state_bytes: int = Field(description="Size of the adaptation state in bytes.")


class WearerOut(BaseModel):
    """Name, model and method of a wearer."""

    model_config = ConfigDict(extra="allow")

    wearer: str
    model: str
    method: str


class WearerInfoOut(WearerOut):
    """A wearer's configuration, the state of its stream, and what the method has learned."""

    params: dict[str, Any] = {}
    rate_hz: float
    seq: int = Field(description="Number of the last chunk applied; the next one is one higher.")
    count: int = Field(description="Windows predicted so far.")
    samples: int = Field(description="Samples used so far.")
    dropped: int = Field(description="Samples that were not used because their time does not increase.")
    warnings: list[str] = Field(
        default=[], description="What does not look like the model's training data in the first windows."
    )
    classes: list[str]
    channels: list[str]
    units: list[str]
    window_s: float
    stride_s: float
    adaptation: AdaptationOut | None = None


class WearerRowOut(WearerOut):
    """A wearer in the list, with its latest prediction."""

    count: int | None = Field(description="Windows predicted so far; null if the stored data are damaged.")
    label: str | None = Field(description="Last refined class; null before the first window.")
    idle_s: float | None = Field(description="Seconds since its last samples; null if none since the service started.")


class WearersOut(BaseModel):
    """The wearers that the token may read."""

    wearers: list[WearerRowOut]


class EventsOut(BaseModel):
    """Stored predictions, oldest first."""

    events: list[EventOut]
    next: int | None = Field(description="Value of `after` for the next page; null if there are no more events.")


class ModelOut(BaseModel):
    """A model that wearers can use."""

    model_config = ConfigDict(extra="allow")

    name: str
    version: str
    classes: list[str]
    channels: list[str]
    rate_hz: float
    window_s: float
    stride_s: float


class ModelsOut(BaseModel):
    """All models, and the default for new wearers."""

    default: str
    models: list[ModelOut]


class Health(BaseModel):
    """State of the service."""

    status: Literal["ok"] = "ok"
