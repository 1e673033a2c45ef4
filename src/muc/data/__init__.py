"""Images, splits and batches."""

from muc.data.images import ImageSet, from_dataset, from_pairs
from muc.data.loader import BatchPlan, plan_batches
from muc.data.requests import apply_request, forget_indices
from muc.data.sources import load_images
from muc.data.splits import make_split

__all__ = [
    "BatchPlan",
    "ImageSet",
    "apply_request",
    "forget_indices",
    "from_dataset",
    "from_pairs",
    "load_images",
    "make_split",
    "plan_batches",
]
