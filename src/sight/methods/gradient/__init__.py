"""Base of methods that back-propagate at test time; needs torch. `sight.methods.tent` is a short example."""

from sight.methods.gradient.adapter import GradientAdapter, Rule, TeacherAdapter, cross_entropies, entropies
from sight.methods.gradient.norms import Stats

__all__ = ["GradientAdapter", "Rule", "Stats", "TeacherAdapter", "cross_entropies", "entropies"]
