"""Writes patients.csv: 1,600 made-up patients of eight made-up hospitals, for `understudy try`.

Nothing in it comes from a person. Most hospitals are specialised, so each sees little of what the
others see: a model that has not met some of them for a while forgets their patients.
"""

import numpy as np
import pandas as pd

DIAGNOSES = ("heart", "joint", "lung", "skin")
# name, patients, and what it mostly sees; a general hospital sees everything
HOSPITALS = [
    ("Ashford", 420, "heart"),
    ("Birch", 300, "lung"),
    ("Castle", 240, "joint"),
    ("Dale", 200, None),
    ("Elm", 160, "skin"),
    ("Ferry", 120, "skin"),
    ("Grove", 90, "joint"),
    ("Hill", 70, "heart"),
]
# age, pulse, temperature, oxygen, stiffness: typical values for each diagnosis
TYPICAL = {
    "heart": (68, 92, 36.8, 94, 2.5),
    "joint": (61, 76, 36.9, 97, 5.0),
    "lung": (58, 88, 37.9, 92, 2.5),
    "skin": (44, 78, 37.2, 98, 3.0),
}
SPREAD = (16, 13, 0.8, 2.5, 1.8)

rng = np.random.default_rng(7)
rows = []
for name, patients, mostly in HOSPITALS:
    for _ in range(patients):
        usual = mostly is not None and rng.random() < 0.85
        diagnosis = mostly if usual else str(rng.choice(DIAGNOSES))
        measured = rng.normal(TYPICAL[diagnosis], SPREAD).round(1)
        arrival = rng.choice(["walk-in", "ambulance", "referral"])
        rows.append((name, *measured, arrival, diagnosis))
columns = ["hospital", "age", "pulse", "temperature", "oxygen", "stiffness", "arrival", "diagnosis"]
table = pd.DataFrame(rows, columns=columns)
table.insert(0, "patient", np.arange(1, len(table) + 1))
table["seen_on"] = pd.date_range("2024-01-01", periods=len(table), freq="5h").strftime("%Y-%m-%d")
table.loc[rng.random(len(table)) < 0.12, "pulse"] = np.nan  # not measured
table.loc[rng.random(len(table)) < 0.04, "arrival"] = np.nan
table.to_csv("patients.csv", index=False)
