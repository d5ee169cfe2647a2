"""
Adapt a torch model
===================

An own network with a linear last layer becomes a source model of sight with :func:`sight.wrap`. Statistics of the
training data, which Keel uses, come from :func:`sight.source_stats`. One export makes the model work in all commands.

The data are HAPT, thirty subjects with a phone at the waist. The network is trained on two of them.
"""

# %%
# Data and network
# ----------------

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import torch
from torch import nn

import sight
from sight.datasets import load, windows_of
from sight.results.metrics import score_result

data = load("hapt")
try:
    subjects = data.subjects()
except ValueError:
    print("HAPT is not on this machine (get it with: sight data fetch hapt); synthetic wearers are used instead.")
    data = load("synthetic", wearers=16, hours=0.3)
    subjects = data.subjects()
windows = {subject: windows_of(data, subject) for subject in subjects}
train, test = subjects[:2], subjects[2:]
x = np.concatenate([windows[subject].x for subject in train])
y = np.concatenate([windows[subject].label for subject in train])


class Net(nn.Module):
    def __init__(self, channels, classes):
        super().__init__()
        layers = [nn.BatchNorm1d(channels)]
        for before, after in ((channels, 32), (32, 64), (64, 64)):
            layers += [nn.Conv1d(before, after, 5, stride=2), nn.BatchNorm1d(after), nn.ReLU()]
        self.features = nn.Sequential(*layers, nn.AdaptiveAvgPool1d(1), nn.Flatten())
        self.classifier = nn.Linear(64, classes)

    def forward(self, x):
        return self.classifier(self.features(x))


torch.manual_seed(0)
torch.set_num_threads(1)
net = Net(len(data.channels), len(data.classes))
optimiser = torch.optim.Adam(net.parameters(), lr=2e-3)
inputs, labels = torch.from_numpy(x[y >= 0]), torch.from_numpy(y[y >= 0]).long()
for _epoch in range(30):
    for batch in torch.randperm(len(inputs)).split(64):
        loss = nn.functional.cross_entropy(net(inputs[batch]), labels[batch])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()

# %%
# Wrap
# ----
# The description of the input becomes the model's card.

source = sight.wrap(
    net,
    encoder="features",
    head="classifier",
    classes=data.classes,
    channels=data.channels,
    units=data.units,
    rate_hz=data.rate_hz,
    window_s=data.window_s,
    stride_s=data.stride_s,
)
source.stats = sight.source_stats(source, x, y)

# %%
# Run, score, compare
# -------------------
# Each wearer gets a fresh adapter. ``compare`` without a second argument compares with the model alone.

results = {subject: sight.run(sight.method("keel").bind(source), windows[subject]) for subject in test}
scores = {subject: score_result(result) for subject, result in results.items()}
for kind in ("raw", "refined"):
    print(f"macro-F1 {kind}: {100 * np.mean([each[kind]['macro_f1_union'] for each in scores.values()]):.1f}")
print(sight.compare(results))
sticky = {subject: sight.run(sight.method("sticky").bind(source), windows[subject]) for subject in test}
print("Keel against sticky:", sight.compare(results, sticky))

# %%
# Export
# ------
# The file works in ``sight adapt``, ``stream``, ``serve`` and the other commands, without torch.

with tempfile.TemporaryDirectory() as folder:
    twin = sight.load(sight.export(source, Path(folder) / "own.onnx"))
    z, p = twin.encode(windows[test[0]].x[:100])
print("largest difference of the export:", float(np.abs(p - results[test[0]].p[:100]).max()))

# %%
# Where the gain comes from
# -------------------------
# Recall of each class, averaged over the subjects.

figure, axes = plt.subplots(figsize=(9, 3.6), layout="constrained")
place = np.arange(len(data.classes))
for shift, kind, colour in ((-0.2, "raw", "0.6"), (0.2, "refined", "C0")):
    recall = np.mean([each[kind]["recall"] for each in scores.values()], axis=0)
    axes.bar(place + shift, 100 * recall, width=0.38, color=colour, label=kind)
axes.set(ylabel="recall, %", xticks=place, xticklabels=[name.replace("_", "\n") for name in data.classes])
axes.legend(frameon=False, ncols=2)
plt.show()
