"""
Add a method
============

A method is a dataclass: its fields are hyper-parameters, its state is every attribute that ends with an underscore, and
one hook refines one window. The base class does the rest: validation, resuming bit for bit, predicting without
adapting, gaps. This example writes a method, checks it against the contract and tries it on a stream.
"""

# %%
# Write it
# --------
# The method returns the median of the last raw probabilities.

from dataclasses import dataclass
from typing import ClassVar

import matplotlib.pyplot as plt
import numpy as np

import sight
from sight.base import Needs, OutputAdapter
from sight.checks import check_adapter
from sight.params import PositiveInt
from sight.results.metrics import score_result
from sight.testing import ToySource, toy_stream


@dataclass(kw_only=True)
class Median(OutputAdapter):
    """Returns the median of the last raw probabilities.

    Parameters
    ----------
    width
        Number of windows.
    """

    name: ClassVar[str] = "median"
    needs: ClassVar[Needs] = Needs(gap="ignored")
    width: PositiveInt = 5

    def _reset(self):
        self.recent_ = np.full((self.width, self.n_classes), 1 / self.n_classes, self.source.weight.dtype)

    def _max_state_bytes(self, head):
        return 8 * self.width * len(head)

    def _refine_one(self, z, p):
        self.recent_ = np.concatenate([self.recent_[1:], p[None]])
        middle = np.median(self.recent_, axis=0)
        return middle / middle.sum()


# %%
# Check it
# --------
# ``check_adapter`` tests the contract: valid probabilities, exact resume, no use of later windows, bounded memory,
# validation of input and more. It raises ``CheckFailed`` with what was violated.

check_adapter(Median())

# %%
# Try it
# ------
# A toy stream of five activities, and a toy model that errs now and then.

source = ToySource()
windows = toy_stream(source, n=300, noise=2.5)
results = {
    "model alone": sight.run(sight.method("none").bind(source), windows),
    "median of 5": sight.run(Median().bind(source), windows),
    "keel": sight.run(sight.method("keel").bind(source), windows),
}
for name, result in results.items():
    print(f"{name}: accuracy {score_result(result)['refined']['accuracy']:.3f}")

# %%
lanes = {"truth": windows.label} | {name: result.q.argmax(axis=1) for name, result in results.items()}
fig, axes = plt.subplots(figsize=(8, 2.4), layout="constrained")
axes.imshow(np.array(list(lanes.values())), aspect="auto", interpolation="none", cmap="Set2")
axes.set(yticks=range(len(lanes)), yticklabels=lanes, xlabel="window")
plt.show()

# %%
# Use it everywhere
# -----------------
# A package can register its methods with an entry point, ``[project.entry-points."sight.methods"] median =
# "package:Median"``. After that ``sight adapt --method median`` and ``sight bench run`` find it by name.
# :doc:`../contributing` has the steps for a method inside this repository.
