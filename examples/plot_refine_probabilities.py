"""
Refine the probabilities of any classifier
==========================================

A classifier of somebody else gives probabilities, one row per window, and nothing more. :func:`sight.refine` makes them
better: it learns the bias of the classifier for this wearer, and follows activities over time.

The data are HAPT, thirty subjects with a phone at the waist. The classifier is trained on eight of them.
"""

# %%
# Data and classifier
# -------------------
# Features are classic ones: mean, spread, range, jerk and power in frequency bands of each channel.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier

import sight
from sight.datasets import load, windows_of
from sight.results.metrics import confusion, macro_f1_union

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


train, test = subjects[:8], subjects[8:]
x = np.concatenate([features(windows[subject].x) for subject in train])
y = np.concatenate([windows[subject].label for subject in train])
classifier = HistGradientBoostingClassifier(max_iter=30, random_state=0).fit(x[y >= 0], y[y >= 0])
probabilities = {}
for subject in test:
    p = np.zeros((len(windows[subject].x), len(data.classes)))
    p[:, classifier.classes_] = classifier.predict_proba(features(windows[subject].x))
    probabilities[subject] = p

# %%
# Refine
# ------
# One call per wearer. ``sharpness=3`` suits boosted trees; ``lag=5`` lets each prediction wait for the five windows
# after it, which costs nothing on recorded data. Labels are used for the scores only.


def score(subject, q):
    table = confusion(windows[subject].label, q.argmax(axis=1), len(data.classes))
    return 100 * macro_f1_union(table)


options = {"live": {"sharpness": 3}, "with a lag of 5 windows": {"sharpness": 3, "lag": 5}}
raw = {subject: score(subject, p) for subject, p in probabilities.items()}
print(f"{'macro-F1 raw':35} {np.mean(list(raw.values())):.1f}")
for name, arguments in options.items():
    refined = {
        subject: score(subject, sight.refine(p, gap_before_s=windows[subject].gap_before_s, **arguments))
        for subject, p in probabilities.items()
    }
    print(f"{'refined, ' + name:35} {np.mean(list(refined.values())):.1f}")
    print(" ", sight.compare(refined, raw, metric="macro-F1"))

# %%
# One wearer
# ----------
# The first recording of the wearer who gains most; white windows have no label.

gains = {subject: refined[subject] - raw[subject] for subject in test}
subject = max(gains, key=gains.get)
w, p = windows[subject], probabilities[subject]
q = sight.refine(p, gap_before_s=w.gap_before_s, **arguments)
end = int(np.argmax(w.gap_before_s > 60)) or len(w.x)
lanes = {"truth": w.label, "raw": p.argmax(axis=1), "refined": q.argmax(axis=1)}
colours = plt.get_cmap("tab10")
image = np.array([[colours(k) if k >= 0 else (1, 1, 1, 1) for k in label[:end]] for label in lanes.values()])
figure, axes = plt.subplots(figsize=(9, 3), layout="constrained")
axes.imshow(image, aspect="auto", interpolation="nearest", extent=(0, end * w.stride_s / 60, 2.5, -0.5))
axes.hlines((0.5, 1.5), 0, end * w.stride_s / 60, color="white", linewidth=6)
axes.set(yticks=range(3), yticklabels=lanes, xlabel="minutes")
axes.set_title(f"Subject {subject}: macro-F1 {raw[subject]:.0f} raw, {refined[subject]:.0f} refined")
handles = [plt.Rectangle((0, 0), 1, 1, color=colours(k)) for k in range(len(data.classes))]
labels = [name.replace("_", " ") for name in data.classes]
figure.legend(handles, labels, loc="outside lower center", ncols=7, frameon=False)
plt.show()
