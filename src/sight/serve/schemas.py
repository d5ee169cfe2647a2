"""What travels in JSON, as the OpenAPI document tells it; requests are checked strictly against the same."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from sight.serve.limits import WEARER

Finite = Annotated[float, Field(strict=True, allow_inf_nan=False)]
Whole = Annotated[int, Field(strict=True, ge=1, le=2**53)]
WearerName = Annotated[str, Field(pattern=f"^{WEARER}$", examples=["lab-07"])]

_EVENT: dict[str, Any] = {
    "window": 41,
    "time_s": 41.0,
    "label": "walking",
    "raw": "stairs",
    "q": [0.1, 0.9],
    "p": [0.6, 0.4],
    "gap_s": 0.0,
    "surprise": 0.02,
    "diagnostics": {"surprise": 0.02},
    "latency_ms": 3.1,
}


class Strict(BaseModel):
    """A request: unknown fields and wrong types are refused."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Problem(BaseModel):
    """Every error: one sentence that says what was expected, what came, and what to do."""

    error: str = Field(examples=["There is no such wearer; create it with PUT /v1/wearers/{wearer}."])


class Samples(Strict):
    """A chunk of samples of one wearer."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"seq": 1, "values": [[0.01, -0.98, 0.12]]}]})

    seq: Whole | None = Field(None, description="Number of the chunk, from 1; a repeated one is not applied twice.")
    time_s: list[Finite] | None = Field(None, min_length=1, description="Time of each sample, in seconds.")
    values: list[list[Finite]] = Field(min_length=1, description="One row for each sample, in the model's channels.")


class Create(Strict):
    """How a wearer is to be served; what is left out is the service's default."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"method": "keel", "rate_hz": 50.0}]})

    model: str | None = Field(None, max_length=200, description="name or name@version; the default's newest if absent.")
    method: str | None = Field(None, max_length=64, description="Registry name of the method.")
    params: dict[str, bool | int | float | str | None] = Field(
        default_factory=dict, max_length=64, description="Hyper-parameters of the method."
    )
    rate_hz: Annotated[float, Field(gt=0, le=100_000, allow_inf_nan=False)] | None = Field(
        None, description="Nominal rate of the samples that will come; the model's if absent."
    )


class Move(Strict):
    """Which model to go on with."""

    model: str = Field(min_length=1, max_length=200, description="name or name@version.", examples=["walk@2"])


class AuthMessage(Strict):
    """The first message of a socket where tokens are on."""

    type: Literal["auth"]
    token: str = Field(max_length=512)


class SamplesMessage(Samples):
    """A chunk over a socket."""

    type: Literal["samples"]
    wearer: WearerName


class WatchMessage(Strict):
    """Whom to watch; another one switches."""

    type: Literal["watch"]
    wearer: WearerName


class EventOut(BaseModel):
    """The answer to one window."""

    model_config = ConfigDict(json_schema_extra={"examples": [_EVENT]})

    window: int = Field(description="Number of the window in its stream, from 0.")
    time_s: float = Field(description="Start of the window on the wearer's clock.")
    label: str = Field(description="Class with the highest refined probability.")
    raw: str = Field(description="Class with the highest raw probability.")
    q: list[float] = Field(description="Refined probabilities, in the order of the model's classes.")
    p: list[float] = Field(description="Raw probabilities.")
    gap_s: float = Field(description="Seconds missing before this window.")
    surprise: float | None = Field(description="How much the window surprised the method, where it says so.")
    diagnostics: dict[str, float | None] = Field(description="What else the method tells.")
    latency_ms: float | None = Field(description="From the arrival of its last sample to the answer; null once stored.")


class AckOut(BaseModel):
    """A chunk is durable, and these are the answers it completed."""

    seq: int
    duplicate: bool = Field(description="True where this number had been applied before; nothing was changed.")
    events: list[EventOut]


class PictureOut(BaseModel):
    """What adaptation has learned about a wearer."""

    habit: list[float] = Field(description="Share of each class in this life, as the method remembers it.")
    similarity: list[list[float]] = Field(description="Cosine between the prototypes of the classes.")
    time_use_s: list[float] = Field(description="Seconds of each class on the current day.")
    count: int = Field(description="Windows answered so far.")
    state_bytes: int = Field(description="Bytes of the adapter's state.")


class WearerOut(BaseModel):
    """A wearer as listed."""

    model_config = ConfigDict(extra="allow")

    wearer: str
    model: str
    method: str


class FactsOut(WearerOut):
    """A wearer with what is known about the stream, and the picture that adaptation has made."""

    params: dict[str, Any] = {}
    rate_hz: float
    seq: int = Field(description="Number of the last chunk applied; the next one is one higher.")
    count: int = Field(description="Windows answered so far.")
    classes: list[str]
    channels: list[str]
    units: list[str]
    window_s: float
    stride_s: float
    picture: PictureOut | None = None


class ListedOut(WearerOut):
    """A wearer in the list, and its latest."""

    count: int | None = Field(description="Windows answered so far; null where what is stored is damaged.")
    label: str | None = Field(description="Last refined class; null before the first window.")
    idle_s: float | None = Field(description="Seconds since its last samples; null if none since the service started.")


class WearersOut(BaseModel):
    """The wearers that the token may see."""

    wearers: list[ListedOut]


class EventsOut(BaseModel):
    """Stored answers, oldest first."""

    events: list[EventOut]


class ModelOut(BaseModel):
    """A model that wearers can be served with."""

    model_config = ConfigDict(extra="allow")

    name: str
    version: str
    classes: list[str]
    channels: list[str]
    rate_hz: float
    window_s: float
    stride_s: float


class ModelsOut(BaseModel):
    """All models, and the one new wearers get."""

    default: str
    models: list[ModelOut]


class Health(BaseModel):
    """Whether the service is well."""

    status: Literal["ok"] = "ok"
