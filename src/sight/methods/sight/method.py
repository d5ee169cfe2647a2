"""The SIGHT method."""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from sight.base import Needs, Presets
from sight.methods.compiled import CompiledAdapter, StateLayout
from sight.methods.ops import unit
from sight.methods.sight.state import COSINE_FLOOR, LAYOUT, NORM_FLOOR, SightParams
from sight.params import GapHalfLife, NonNegative, Positive, Range, UnitInterval


@dataclass(kw_only=True)
class SIGHT(CompiledAdapter):
    """Temporal tracking: keeps its belief while features match the expectation, and moves it when they deviate.

    Parameters
    ----------
    variant
        "paper": the paper's equations; "authors": the computation of the authors' public code.
    beta
        Sensitivity of the surprise to deviation.
    tau
        Temperature of the routing; a small value makes it sharp.
    eta_mu, eta_h
        Update rates of the prototypes and of the habit.
    omega_mu
        Pull of the prototypes back to the head's directions; 0 for no anchoring.
    eps
        Floor of norms, and added to the habit inside its square root.
    surprise
        "geometric" (the paper's), "distance" (length of the deviation, at most 1), "off" (always 0.5), or a number
        between 0 and 1 for another constant.
    routing
        False distributes released belief evenly over the classes.
    habit
        "sqrt" (the paper's), "raw" (without the square root) or "off".
    prototypes
        "soft" (the paper's), "hard" (only the predicted class moves) or "off".
    gap_half_life_s
        Half-life of the belief over a gap; None keeps it. The paper's experiments have no gaps.

    Notes
    -----
    State and the paper's symbols: ``prototypes`` is the bank M of mu_k, ``habit`` is h, ``belief`` is q_{t-1}; the
    trace's ``surprise`` is lambda_t. A step takes O(K D) time, and the state has K D + 2 K numbers; the anchors belong
    to the model.

    Assumes that activities last, that features stay near the prototype of the believed class during an activity, and
    that they leave it towards the prototype of the next one at a change. If errors are systematic (one source subject,
    whole segments wrong), the belief confirms them and the habit prior amplifies them.

    Differs from the paper, with ``variant="paper"``, only in the direction to the believed class, which is computed
    without cancellation: as printed it is rounding noise when the belief is nearly one-hot. ``variant="authors"``
    differs as the public code does: raw features in displacement and prototypes, an expectation that is not normalised,
    one normalisation of prototypes instead of two, the habit one window late, and other floors. It equals their code
    run in float64. Run in float32, their code predicts rounding noise where the belief is nearly one-hot (up to 0.83
    from its own float64 predictions, 8 of 1,200 labels changed), while this variant stays within 1e-4 of them. The
    preset "authors" is their program: this variant with the values that it sets, which are the paper's and the defaults
    here, and without an effect of gaps. Their class, used without their program, has other defaults (tau 0.2, eta_mu
    0.01). The ablations are our reading; the paper does not define them.

    Examples
    --------
    >>> import numpy as np, sight
    >>> weight = np.eye(3, 4)
    >>> z = np.repeat(np.eye(4)[[0, 1]], 3, axis=0)
    >>> p = np.array([[0.8, 0.1, 0.1]] * 2 + [[0.3, 0.4, 0.3]] + [[0.1, 0.8, 0.1]] * 3)
    >>> sight.refine(z, p, weight, method="sight").argmax(axis=1).tolist()
    [0, 0, 0, 1, 1, 1]

    References
    ----------
    Z. Zhou, Z. Xie, X. Jie: Temporal Structure Matters for Efficient Test-Time Adaptation in Wearable Human
    Activity Recognition.
    """

    name: ClassVar[str] = "sight"
    needs: ClassVar[Needs] = Needs(gap="belief relaxes")
    presets: ClassVar[Presets] = {"authors": {"variant": "authors", "gap_half_life_s": None}}
    layout: ClassVar[StateLayout] = LAYOUT
    trace_names: ClassVar[tuple[str, ...]] = ("surprise",)
    numpy_step: ClassVar[str] = "sight.methods.sight.reference:step"
    numba_step: ClassVar[str] = "sight.methods.sight.compiled:advance"
    fused_step: ClassVar[str | None] = "sight.methods.sight.fused:SightStep"
    variant: Literal["paper", "authors"] = "paper"
    beta: NonNegative = 1.0
    tau: Positive = 0.05
    eta_mu: UnitInterval = 0.005
    eta_h: UnitInterval = 0.05
    omega_mu: UnitInterval = 0.01
    eps: Positive = 1e-8
    surprise: Annotated[Literal["geometric", "distance", "off"] | float, Range(at_least=0, at_most=1)] = "geometric"
    routing: bool = True
    habit: Literal["sqrt", "raw", "off"] = "sqrt"
    prototypes: Literal["soft", "hard", "off"] = "soft"
    gap_half_life_s: GapHalfLife = 30.0

    def _constants(self) -> tuple[Any, ...]:
        authors, named = self.variant == "authors", self.surprise in ("geometric", "distance")
        values = self.params() | {
            "authors": authors,
            "surprise": self.surprise if named else "constant",
            "constant": 0.0 if named else 0.5 if self.surprise == "off" else float(self.surprise),
            "cosine_floor": COSINE_FLOOR if authors else self.eps,
            "norm_floor": NORM_FLOOR if authors else self.eps,
        }
        params = SightParams(**{name: values[name] for name in SightParams._fields})
        return unit(np.asarray(self.source.weight), params.norm_floor), params

    def _initial(self) -> dict[str, Any]:
        uniform = 1 / self.n_classes
        return {"prototypes": self.constants[0], "habit": uniform, "belief": uniform}

    def state_bytes(self) -> dict[str, int]:
        """Return the number of bytes by kind; the paper's figure is their sum."""
        state = self.state()
        return {
            "prototypes": state["prototypes"].nbytes,
            "anchors": self.constants[0].nbytes,
            "statistics": state["habit"].nbytes + state["belief"].nbytes,
        }
