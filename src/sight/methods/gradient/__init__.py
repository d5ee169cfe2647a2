"""Base of methods that back-propagate at test time; needs torch.

A method derives from `GradientAdapter` and writes `_loss`; `sight.methods.tent` is a short example. The modules beside
it hold what methods share: `norms`, `augmentation`, `window_memory`, `private_copy`.
"""

from sight.methods.gradient.adapter import GradientAdapter, Rule, TeacherAdapter, cross_entropies, entropies
from sight.methods.gradient.norms import Stats

__all__ = ["GradientAdapter", "Rule", "Stats", "TeacherAdapter", "cross_entropies", "entropies"]
