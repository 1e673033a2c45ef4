"""The two statistics of the audit: what the forgotten images show beyond the controls."""

import numpy as np

from muc.errors import UserError

STATISTICS = ("FS", "negative_alignment")
FEWEST = 3
"""Images a group must have: with fewer, leaving one out leaves no pair."""


def checked_matrix(matrix: np.ndarray) -> np.ndarray:
    """(n, n) -> the same, symmetric. Of the two views of a pair it does not matter which image came first."""
    agm = np.asarray(matrix, dtype=np.float64)
    if agm.ndim != 2 or agm.shape[0] != agm.shape[1]:
        raise UserError(f"the alignment matrix has shape {agm.shape}; expected one row and one column an image")
    if not np.isfinite(agm).all():
        raise UserError("the alignment matrix holds NaN or infinite values; embed the images again")
    if len(agm) < FEWEST:
        raise UserError(f"{len(agm)} images were given; an audit needs at least {FEWEST}")
    return (agm + agm.T) / 2


def checked_groups(matrix: np.ndarray, forget: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(n, n), (n,) true where deletion was requested -> both, with enough images in either group."""
    agm, labels = checked_matrix(matrix), np.asarray(forget)
    if labels.dtype != bool or labels.shape != (len(agm),):
        raise UserError(
            f"the labels have shape {labels.shape} and type {labels.dtype}; "
            f"expected {len(agm)} truth values, true where deletion was requested"
        )
    check_sizes(int(labels.sum()), int((~labels).sum()))
    return agm, labels


def check_sizes(n_forget: int, n_control: int) -> None:
    check_size("to forget", n_forget)
    check_size("held back", n_control)


def check_size(group: str, count: int) -> None:
    if count < FEWEST:
        raise UserError(f"the number of images {group} is {count}; give at least {FEWEST}")


def contrasts(agm: np.ndarray, splits: np.ndarray) -> np.ndarray:
    """(…, n, n) symmetric, (s, n) of 0 and 1 (forget) -> (…, 2, s): FS and negative-alignment contrast of each split.

    FS: mean of the diagonal over forget minus over control; above zero where views of a forgotten image lost alignment.
    Negative alignment: mean off the diagonal within control minus within forget; above zero where forgotten images
    became more alike, as AC makes them. Pairs of one forgotten and one control image count for nothing.
    """
    n = splits.shape[1]
    n_forget = splits[0].sum()
    n_control = n - n_forget
    scores = np.diagonal(agm, axis1=-2, axis2=-1)
    off = np.where(np.eye(n, dtype=bool), 0.0, agm)
    forget_scores = scores @ splits.T
    fs = forget_scores / n_forget - (scores.sum(axis=-1, keepdims=True) - forget_scores) / n_control
    to_forget = (off.reshape(-1, n) @ splits.T).reshape(*off.shape[:-1], -1)  # (…, n, s): each image's sum over forget
    within_forget = np.einsum("...ns,sn->...s", to_forget, splits)
    within_control = off.sum(axis=(-2, -1))[..., None] - 2 * to_forget.sum(axis=-2) + within_forget
    gap_control = within_control / (n_control * (n_control - 1))
    gap_forget = within_forget / (n_forget * (n_forget - 1))
    return np.stack([fs, gap_control - gap_forget], axis=-2)
