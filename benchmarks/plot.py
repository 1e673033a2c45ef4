"""The README's plot: minutes for an encoder of 800 epochs, from the committed figures.

python benchmarks/plot.py results/engine docs/speed.png
"""

import argparse
import json
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from muc import paper

NAMES = {"simclr": "SimCLR", "moco": "MoCo"}


def main(results: Path, out: Path) -> None:
    record = json.loads((results / "train_speed.json").read_text())
    printed = paper.load()["tables"]["cifar10_10pct"]["rows"]
    bars: list[tuple[str, float, str]] = []
    for row in record["rows"]:
        name = NAMES[row["algorithm"]]
        theirs = next(
            r["rte_minutes"] for r in printed if (r["algorithm"], r["method"]) == (row["algorithm"], "retrain")
        )
        bars += [
            (f"{name}, the paper's Retrain", theirs, "0.75"),
            (f"{name}, plain PyTorch loop", row["plain loop s/epoch"] * 800 / 60, "0.55"),
            (f"{name}, muc", row["minutes for 800 epochs"], "#0b6e99"),
        ]
    figure, axes = plt.subplots(figsize=(8, 2.9), layout="constrained")
    places = [i + i // 3 * 0.6 for i in range(len(bars))]
    axes.barh(places, [b[1] for b in bars], color=[b[2] for b in bars])
    axes.set_yticks(places, [b[0] for b in bars])
    axes.invert_yaxis()
    for place, (_, minutes, _) in zip(places, bars, strict=True):
        axes.text(minutes + 1, place, f"{minutes:.0f} min", va="center")
    axes.set_xlabel(f"minutes, 800 epochs of CIFAR-10, ResNet-18 ({record['device']}; the paper's own GPUs)")
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(out, dpi=150)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path)
    parser.add_argument("out", type=Path)
    args = parser.parse_args()
    main(args.results, args.out)
