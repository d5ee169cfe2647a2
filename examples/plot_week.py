"""
A week from a wrist device
==========================

From a recording of a wrist device to hours per activity and day: ``sight.adapt`` reads the file, applies the bundled
model ``"wrist"``, adapts it to the wearer and returns tables. On the command line the same is
``sight adapt week.cwa -m wrist --tz Europe/Vienna -o results/``.

The repository contains no recordings, so this example makes up the signal of two days. **The activities below therefore
mean nothing**; look at what the tables contain. With your own file, replace ``recording`` by its path.
"""

# %%
# A recording
# -----------
# Three axes in g, 20 samples a second: still at night, alternating rest and steps by day, and two hours on a table.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import sight

RATE_HZ, DAYS = 20, 2
rng = np.random.default_rng(0)
seconds = np.arange(DAYS * 86400 * RATE_HZ) / RATE_HZ
hour = seconds / 3600 % 24
awake = (hour > 7) & (hour < 23)
steps = awake & (seconds // 600 % 3 == 0)  # ten minutes of every thirty
on_table = (hour > 12) & (hour < 14)
values = np.outer(np.where(awake, 1, 0), [0.1, -0.9, 0.4]) + np.outer(np.where(awake, 0, 1), [0.9, 0.1, 0.4])
values += (steps * 0.35 * np.sin(2 * np.pi * 1.8 * seconds))[:, None] * [0.4, 1.0, 0.5]
values += rng.normal(size=values.shape) * np.where(awake, 0.04, 0.015)[:, None]
values[on_table] = [0.0, 0.0, 1.0]
recording = pd.DataFrame(values, columns=["x", "y", "z"])
recording.insert(0, "time", pd.Timestamp("2025-03-03", tz="Europe/Vienna") + pd.to_timedelta(seconds, unit="s"))

# %%
# Adapt
# -----

adaptation = sight.adapt(recording, model="wrist", tz="Europe/Vienna", progress=False)
print(adaptation.headline)

# %%
# Read the warnings first. They say what does not fit: a unit, a rate, a time zone, a signal unlike the training data.

for warning in adaptation.warnings:
    print("-", warning)

# %%
# Hours per day
# -------------
# A day is valid if the device was worn long enough (16 hours by default); means in ``summary`` are over valid days.

hours = adaptation.daily.set_index("date")
classes = [name for name in hours.columns if f"raw_{name}" in hours.columns]
longest = hours[classes].mean().nlargest(4).index
print(hours[["valid", "wear_h", "non_wear_h", *longest]].round(1).to_string())

# %%
adaptation.plot()
plt.show()

# %%
# Nights and intensity
# --------------------
# Both are computed from the samples of the device, independently of the model: the sleep period of each night, and the
# minutes of moderate or vigorous activity by published limits. Time in bed counts for no activity.

print(adaptation.nights[["date", "valid", "onset", "wake", "sleep_h", "efficiency"]].to_string(index=False))
print(hours[["in_bed_h", "sedentary_min", "light_min", "mvpa_min"]].round(1).to_string())

# %%
# Non-wear
# --------
# Time without the device is listed, never deleted.

print(adaptation.nonwear.to_string(index=False))

# %%
# Files
# -----
# ``adaptation.save("results/")`` writes all tables and the report as ``sight adapt`` does, for R, Excel or a browser.
# ``adaptation.summary`` is one row per wearer; ``sight cohort run`` makes it for a folder of recordings.
