"""Made-up evaluation records in the form that muc.evaluation writes: 7 methods, any number of seeds."""

import zlib
from io import BytesIO
from typing import Any

import numpy as np
from PIL import Image

# Roughly the paper's CIFAR-10 10 % MoCo table; the last number is the AUC of images to forget against test images.
CENTRES: dict[str, tuple[float, ...]] = {
    "pretrain": (44.2, 90.1, 88.4, 90.0, 28.1, 0.0, 0.585),
    "retrain": (49.7, 89.5, 87.8, 88.4, 34.4, 0.0266, 0.502),
    "finetune": (50.2, 88.3, 86.5, 87.6, 29.4, 0.0393, 0.541),
    "gradient_ascent": (45.0, 89.9, 88.3, 89.8, 28.5, 0.0005, 0.583),
    "neggrad": (48.4, 89.3, 87.4, 88.6, 28.9, 0.0205, 0.548),
    "l1_sparsity": (49.4, 88.6, 86.9, 88.1, 29.9, 0.0216, 0.545),
    "alignment_calibration": (50.3, 89.1, 87.2, 88.2, 31.5, 0.0259, 0.511),
}
MINUTES = {"retrain": 109.5, "pretrain": 121.0, "gradient_ascent": 0.17, "alignment_calibration": 1.87}


def record(method: str, seed: int = 0, **changes: Any) -> dict[str, Any]:
    """One record; `changes` replace its fields, those in `metrics` one by one."""
    centre = CENTRES.get(method, CENTRES["finetune"])
    random = np.random.default_rng([seed, zlib.crc32(method.encode())])
    five = dict(zip(("EMIA", "RA", "TA", "UA", "CMIA"), centre, strict=False))
    spread = {"EMIA": 1.6, "RA": 0.2, "TA": 0.2, "UA": 0.3, "CMIA": 0.9}
    metrics = {name: value + spread[name] * random.standard_normal() for name, value in five.items()}
    metrics |= {
        "FS": centre[5] + 0.001 * random.standard_normal() * (method != "pretrain"),
        "EMIA_threshold": 0.91,
        "EMIA_accuracy": 55.4 + 0.3 * random.standard_normal(),
        "EMIA_AUC": 0.572 + 0.003 * random.standard_normal(),
        "EMIA_TPR_at_1_FPR": 1.9 + 0.1 * random.standard_normal(),
        "unlearn_AUC": centre[6] + 0.003 * random.standard_normal(),
        "RTE_minutes": MINUTES.get(method, 1.43) * (1 + 0.01 * random.standard_normal()),
        "peak_memory_GB": 4.2 if method != "alignment_calibration" else 4.9,
    }
    alignment = 0.9 - centre[5] - 0.09 * random.gamma(1.5, 1.0, 400)
    made = {
        "format_version": 1,
        "run": f"runs/c10-moco-{seed}/{method}",
        "method": method,
        "data": "cifar10",
        "algorithm": "moco",
        "architecture": "resnet18",
        "epochs": 800,
        "forget_fraction": 0.1,
        "forget_images": 4500,
        "retain_images": 40500,
        "seed": seed,
        "method_settings": None if method == "pretrain" else {"name": method, "epochs": 10, "learning_rate": 0.006},
        "env": {
            "muc": "0.1.0",
            "python": "3.12.3",
            "torch": "2.11.0+cu128",
            "platform": "Linux-6.1-x86_64",
            "device": "NVIDIA H200",
            "date": f"2025-11-1{seed}T08:00:00Z",
        },
        "metrics": metrics | changes.pop("metrics", {}),
        "gaps": None,
        "against": None,
        "per_sample": {"FS": (0.9 - alignment).tolist(), "alignment": alignment.tolist()},
    }
    return made | changes


def records(seeds: int = 4, **changes: Any) -> list[dict[str, Any]]:
    return [record(method, seed, **changes) for seed in range(seeds) for method in CENTRES]


def look(n: int = 8, trace: float = -0.04, forgetting: float = 0.05, seed: int = 0) -> dict[str, Any]:
    """A Look as JSON: alignment matrices with a bright diagonal that fades and negatives that rise."""
    random = np.random.default_rng(seed)
    before = 0.25 + 0.1 * random.standard_normal((n, n))
    np.fill_diagonal(before, 0.9 + 0.03 * random.standard_normal(n))
    gap = trace + 0.03 * random.standard_normal((n, n))
    np.fill_diagonal(gap, forgetting + 0.02 * random.standard_normal(n))
    after, off = before - gap, ~np.eye(n, dtype=bool)
    return {
        "names": [f"cat-{i}.png" for i in range(n)],
        "before": before.tolist(),
        "after": after.tolist(),
        "gap": gap.tolist(),
        "forgetting_scores": gap.diagonal().tolist(),
        "positive_alignment_before": float(before.diagonal().mean()),
        "positive_alignment_after": float(after.diagonal().mean()),
        "negative_alignment_before": float(before[off].mean()),
        "negative_alignment_after": float(after[off].mean()),
        "negative_alignment_gap": float(gap[off].mean()),
        "view_pairs": 8,
    }


def thumbnails(n: int = 8) -> list[bytes]:
    """Small PNG pictures: colourful gradients."""
    made = []
    for i in range(n):
        random = np.random.default_rng(i)
        coarse = random.integers(0, 256, (4, 4, 3), dtype=np.uint8)
        buffer = BytesIO()
        Image.fromarray(coarse).resize((32, 32), Image.Resampling.BICUBIC).save(buffer, "PNG")
        made.append(buffer.getvalue())
    return made
