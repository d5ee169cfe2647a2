"""Base of methods that back-propagate at test time, and what they share: norm layers, augmentations, memories.

Needs torch. A method derives from `GradientAdapter` and writes `_loss`; see `sight.methods.tent` for a short example.
"""

from sight.methods.gradient.adapter import GradientAdapter, Rule, TeacherAdapter, cross_entropies, entropies
from sight.methods.gradient.augmentation import magnitude_warp, perturbed, strong, weak
from sight.methods.gradient.norms import (
    InstanceAwareNorm,
    Stats,
    StatsNorm,
    batch_moments,
    learning,
    norm_layers,
    norm_parameters,
    replace_batch_norms,
)
from sight.methods.gradient.private_copy import check_private_copy
from sight.methods.gradient.window_memory import BalancedReservoir, Fifo, TimelyMemory

__all__ = [
    "BalancedReservoir",
    "Fifo",
    "GradientAdapter",
    "InstanceAwareNorm",
    "Rule",
    "Stats",
    "StatsNorm",
    "TeacherAdapter",
    "TimelyMemory",
    "batch_moments",
    "check_private_copy",
    "cross_entropies",
    "entropies",
    "learning",
    "magnitude_warp",
    "norm_layers",
    "norm_parameters",
    "perturbed",
    "replace_batch_norms",
    "strong",
    "weak",
]
