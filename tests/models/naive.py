"""Formulas in plain Python, to hold tensors against."""

from math import sqrt


def cosine(x: list[float], y: list[float]) -> float:
    dot = sum(a * b for a, b in zip(x, y, strict=True))
    return dot / sqrt(sum(a * a for a in x) * sum(b * b for b in y))
