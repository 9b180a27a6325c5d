"""Small tables to be tried: three shops, made up."""

import numpy as np
import pandas as pd

SHOPS = {"north": 40, "south": 30, "west": 20}


def sales() -> pd.DataFrame:
    """90 rows: two numbers, a word, classes and a number to be predicted."""
    rng = np.random.default_rng(3)
    n = sum(SHOPS.values())
    size, price = rng.normal(size=(2, n)).round(2)
    sold = size - price + rng.normal(0, 0.3, n)
    return pd.DataFrame(
        {
            "shop": np.repeat(list(SHOPS), list(SHOPS.values())),
            "size": size,
            "price": price,
            "kind": rng.choice(["food", "toys"], n),
            "sold": np.where(sold > 0, "many", "few"),
            "units": (50 + 20 * sold).round(1),
        }
    )
