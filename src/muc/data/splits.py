"""Who is trained on, and who is held out: a split from a seed."""

import numpy as np

from muc.config import Data
from muc.data.images import ImageSet
from muc.data.loader import MIN_RETAIN
from muc.errors import UserError
from muc.split import Split


def make_split(images: ImageSet, data: Data, seed: int) -> Split:
    """A permutation seeded by the trial's seed: validation first, the rest is trained on, in that order."""
    order = np.random.default_rng(seed).permutation(len(images.train))
    n_validation = round(data.validation_fraction * len(order))
    train = order[n_validation:]
    if data.train_limit is not None:
        train = train[: data.train_limit]
    if len(train) < 2 + MIN_RETAIN:
        raise UserError(f"{images.name} leaves {len(train)} images to train on; at least {2 + MIN_RETAIN} are needed")
    return Split(seed=seed, validation=order[:n_validation], retain=train, unlearn=order[:0])
