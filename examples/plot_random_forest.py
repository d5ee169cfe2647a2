"""
Adapt a scikit-learn random forest
==================================

:class:`sight.sklearn.AdaptedClassifier` wraps a classifier of scikit-learn. It is fitted as usual, and its predictions
then adapt to the wearer whose windows it gets, without labels.

The data are HAPT, thirty subjects with a phone at the waist. The forest is trained on three of them.
"""

# %%
# Data
# ----

import matplotlib.pyplot as plt
import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import f1_score

import sight
from sight.datasets import load, windows_of
from sight.sklearn import AdaptedClassifier

data = load("hapt")
try:
    subjects = data.subjects()
except ValueError:
    print("HAPT is not on this machine (get it with: sight data fetch hapt); synthetic wearers are used instead.")
    data = load("synthetic", wearers=16, hours=0.3)
    subjects = data.subjects()
windows = {subject: windows_of(data, subject) for subject in subjects}


def features(x):
    power = np.abs(np.fft.rfft(x - x.mean(axis=2, keepdims=True), axis=2)) ** 2
    bands = [np.log(power[:, :, first : first + 4].sum(axis=2) + 1e-6) for first in (1, 5, 9, 13, 17, 25)]
    jerk = np.abs(np.diff(x, axis=2)).mean(axis=2)
    return np.concatenate([x.mean(axis=2), x.std(axis=2), x.min(axis=2), x.max(axis=2), jerk, *bands], axis=1)


names = np.array([name.replace("_", " ") for name in data.classes])
train, test = subjects[:3], subjects[3:]
x = np.concatenate([features(windows[subject].x) for subject in train])
y = np.concatenate([windows[subject].label for subject in train])
labelled = y >= 0

# %%
# Fit and predict
# ---------------
# ``predict`` takes the windows of one wearer in time order. The probabilities of a forest are shares of votes; the
# class sharpens them.

model = AdaptedClassifier(RandomForestClassifier(100, random_state=0))
model.fit(x[labelled], names[y[labelled]])

raw, adapted = {}, {}
for subject in test:
    rows, known = features(windows[subject].x), windows[subject].label >= 0
    truth = names[windows[subject].label[known]]
    raw[subject] = 100 * f1_score(truth, model.estimator_.predict(rows)[known], average="macro")
    adapted[subject] = 100 * f1_score(truth, model.predict(rows)[known], average="macro")
print(f"macro-F1 over {len(test)} subjects: {np.mean(list(raw.values())):.1f} raw, ", end="")
print(f"{np.mean(list(adapted.values())):.1f} adapted")
print(sight.compare(adapted, raw, metric="macro-F1"))

# %%
# If the recording is complete, later windows help too.

smooth = AdaptedClassifier(model.estimator, lag=5).fit(x[labelled], names[y[labelled]])
later = {}
for subject in test:
    known = windows[subject].label >= 0
    predicted = smooth.predict(features(windows[subject].x))[known]
    later[subject] = 100 * f1_score(names[windows[subject].label[known]], predicted, average="macro")
print(sight.compare(later, raw, metric="macro-F1 with a lag of 5 windows"))

# %%
# Live
# ----
# ``partial_predict`` continues the stream of the present wearer, and ``reset`` starts the next one.

model.reset()
for window in windows[test[0]].x[:5]:
    print(model.partial_predict(features(window[None]))[0])

# %%
# Subject by subject
# ------------------

order = sorted(test, key=raw.get)
figure, axes = plt.subplots(figsize=(9, 3.6), layout="constrained")
place = np.arange(len(order))
axes.vlines(place, [raw[s] for s in order], [later[s] for s in order], color="0.8", zorder=0)
for scores, label, colour in (
    (raw, "forest alone", "0.5"),
    (adapted, "adapted", "C0"),
    (later, "adapted, lag 5", "C2"),
):
    axes.scatter(place, [scores[s] for s in order], label=label, color=colour, s=24)
axes.set(xlabel="subject", ylabel="macro-F1", xticks=place, xticklabels=order)
axes.tick_params(axis="x", labelsize=8)
axes.legend(frameon=False)
plt.show()
