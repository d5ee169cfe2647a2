"""State and step parameters of SIGHT."""

from typing import NamedTuple

from sight.methods.compiled import StateLayout

LAYOUT = StateLayout(
    entries={"prototypes": "KD", "habit": "K", "belief": "K", "count": "int"},
    frequencies="habit",
    prototypes="prototypes",
)
#: Places of the entries in the arrays of the state.
PROTOTYPES, HABIT, BELIEF, COUNT = 0, 0, 1, 0

#: Floors of the authors' code, where the paper has a single epsilon.
NORM_FLOOR, COSINE_FLOOR, SUM_FLOOR, PRIOR_FLOOR = 1e-12, 1e-8, 1e-8, 1e-8


class SightParams(NamedTuple):
    """The hyper-parameters of `SIGHT` as the steps take them; the compiled step has codes in place of words."""

    authors: bool  # variant
    beta: float
    tau: float
    eta_mu: float
    eta_h: float
    omega_mu: float
    eps: float
    surprise: str  # geometric, distance or constant
    constant: float  # the surprise, if it is constant
    routing: bool
    habit: str  # sqrt, raw or off
    prototypes: str  # soft, hard or off
    cosine_floor: float  # of norms in a cosine
    norm_floor: float  # of norms of prototypes
