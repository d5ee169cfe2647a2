"""
Compare methods on your own data
================================

Which method suits a model and its wearers? Run each method on wearers whom the model was not trained on, score it with
labels, and look at the difference for each wearer. Labels are used for scores only, never by a method.

The wearers here are synthetic, so that the example needs no files. For your own recordings replace ``Synthetic`` by
``load("folder", root="recordings/")``; :doc:`../training` describes the folder. Take six wearers or more: with fewer,
an interval says little.
"""

# %%
# A model, and wearers it has not seen
# ------------------------------------

import matplotlib.pyplot as plt
import numpy as np

import sight
from sight.datasets.synthetic import Synthetic
from sight.models.train import train
from sight.results.metrics import score_result
from sight.results.score_statistics import mean_difference

dataset = Synthetic(wearers=11, hours=0.3)
seen, unseen = dataset.subjects()[:3], dataset.subjects()[3:]
source = train(
    [dataset.windows(subject) for subject in seen],
    dataset.classes,
    epochs=4,
    channels=dataset.channels,
    units=dataset.units,
)

# %%
# Run each method on each wearer
# ------------------------------
# ``"none"`` is the model alone. A new adapter is bound for each wearer: nothing is carried from one to the next.

METHODS = ("none", "ema", "sticky", "sight", "keel")
scores = {method: [] for method in METHODS}
for subject in unseen:
    windows = dataset.windows(subject)
    encoded = source.encode(windows.x)  # the same for all methods
    for method in METHODS:
        result = sight.run(sight.method(method).bind(source), windows, encoded=encoded)
        scores[method].append(100 * score_result(result)["refined"]["macro_f1_union"])

# %%
# Differences, wearer by wearer
# -----------------------------
# The mean alone hides wearers for whom a method makes things worse. The interval covers other wearers like these; if it
# contains 0, the difference may be chance.

gains = {method: np.subtract(scores[method], scores["none"]) for method in METHODS[1:]}
print(f"model alone: macro-F1 {np.mean(scores['none']):.1f}")
for method, gain in gains.items():
    difference = mean_difference(gain)
    print(
        f"{method:>7}: {difference.mean:+.1f} points [{difference.low:+.1f}, {difference.high:+.1f}], "
        f"worse for {np.sum(gain < 0)} of {len(gain)} wearers"
    )

# %%
fig, axes = plt.subplots(figsize=(7, 3.2), layout="constrained")
for row, gain in enumerate(gains.values()):
    axes.plot(gain, np.full(len(gain), row), "o", color="#0072b2", alpha=0.6, markeredgewidth=0)
    axes.plot(gain.mean(), row, "|", color="black", markersize=22, markeredgewidth=2)
axes.axvline(0, color="grey", linewidth=1)
axes.set(yticks=range(len(gains)), yticklabels=gains, xlabel="gain in macro-F1 over the model alone, points")
axes.invert_yaxis()
axes.spines[["top", "right", "left"]].set_visible(False)
plt.show()

# %%
# One comparison is not enough
# ----------------------------
# The order of the methods depends on the model and on the length of the recordings. Three versions of this script were
# run while it was written; the first one is shown above:
#
# ========================================  =====  ======  =====  =====
# version                                     ema  sticky  sight   keel
# ========================================  =====  ======  =====  =====
# 8 wearers, 18 minutes each, four epochs    +1.9    +2.7   +0.5   +4.2
# 8 wearers, 9 minutes each, three epochs    +6.1    +5.0   +2.6   +0.8
# 6 wearers, 18 minutes each, three epochs   +5.4    +5.1   +2.3   −2.1
# ========================================  =====  ======  =====  =====
#
# So vary the training and the wearers before you choose, and do not choose the version that suits a method. For many
# pairs of source and target wearers, several seeds and resumable runs, use ``sight bench`` with a setting of your own
# (:doc:`../bench`).
