"""Alignment matrices as pictures that a data owner can read: before, after, and the change between them."""

from collections.abc import Mapping, Sequence
from io import BytesIO
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator
from PIL import Image

from muc.errors import UserError
from muc.report.canvas import INK, MUTED, plain, png
from muc.report.words import method_name

SIMILARITY = "cividis"  # lightness grows with the value: also readable in grey
CHANGE = "PuOr_r"  # two hues that colour-blind people tell apart; white is no change
CHANGE_LABEL = "more alike now  ←  0  →  less alike now"
CAPTION = 28  # so many characters of a pair's caption are shown
NUMBERED = 10  # up to so many images the values stand in the cells
NAMED = 16  # up to so many the images are named (or shown) along the axes
COLUMNS = {4: 2, 7: 4, 8: 4}  # of so many matrices; three of others


Thumbnails = Sequence[bytes] | np.ndarray
"""The owner's images: encoded as PNG or JPEG, or as (n, 1 or 3, h, w) uint8 pixels."""


def look_figure(look: Mapping[str, Any], thumbnails: Thumbnails | None = None) -> bytes:
    """PNG of one `Look`: similarity before and after on one colour scale, and their difference around zero."""
    before, after, gap = (_matrix(look, key) for key in ("before", "after", "gap"))
    pictures = open_thumbnails(thumbnails, len(gap))
    figure = Figure(figsize=(13, 5.8), layout=layout_of_maps())
    axes = figure.subplots(1, 3)
    similarities, names = _scale(SIMILARITY, [before, after]), _names(look)
    shown = None
    for ax, matrix, title in ((axes[0], before, "Before unlearning"), (axes[1], after, "After unlearning")):
        shown = draw_matrix(
            ax, matrix, title, SIMILARITY, similarities, names, pictures, _captions(look, ax is axes[0])
        )
    change = draw_matrix(
        axes[2], gap, "Change (before − after)", CHANGE, _scale(CHANGE, [gap]), names, pictures, _captions(look, False)
    )
    assert shown is not None
    scale_below(figure, shown, list(axes[:2]), _similarity_label(look))
    scale_below(figure, change, [axes[2]], CHANGE_LABEL)
    return png(figure)


def gap_grid(looks: Mapping[str, Mapping[str, Any]], thumbnails: Thumbnails | None = None) -> bytes:
    """PNG: the change that each method made to the same images, side by side on one colour scale."""
    matrices = {method: _matrix(look, "gap") for method, look in looks.items()}
    return _grid(matrices, next(iter(looks.values())), CHANGE, CHANGE_LABEL, thumbnails)


def similarity_grid(looks: Mapping[str, Mapping[str, Any]]) -> bytes:
    """PNG: how the original and every unlearned model see the same images, side by side on one colour scale."""
    first = next(iter(looks.values()))
    matrices = {"pretrain": _matrix(first, "before")} | {m: _matrix(look, "after") for m, look in looks.items()}
    return _grid(matrices, first, SIMILARITY, _similarity_label(first), None)


def _grid(
    matrices: Mapping[str, np.ndarray],
    first: Mapping[str, Any],
    colours: str,
    label: str,
    thumbnails: Thumbnails | None,
) -> bytes:
    """`first`: any of the looks, for names and captions."""
    pictures = open_thumbnails(thumbnails, len(first["gap"]))
    if any(m.shape != (len(first["names"]),) * 2 for m in matrices.values()):
        raise UserError("the looks are at different numbers of images; look at the same images with every method")
    columns = COLUMNS.get(len(matrices), min(len(matrices), 3))
    rows = -(-len(matrices) // columns)
    figure = Figure(figsize=(4.3 * columns, 4.6 * rows + 0.9), layout=layout_of_maps())
    axes = figure.subplots(rows, columns, squeeze=False)
    scale, names = _scale(colours, list(matrices.values())), _names(first)
    shown = None
    for i, (ax, (method, matrix)) in enumerate(zip(axes.flat, matrices.items(), strict=False)):
        captions = _captions(first, i % columns == 0)
        shown = draw_matrix(ax, matrix, plain(method_name(method)), colours, scale, names, pictures, captions)
    for ax in axes.flat[len(matrices) :]:
        ax.set_visible(False)
    assert shown is not None, "at least one look"
    scale_below(figure, shown, list(axes.flat), label)
    return png(figure)


def _similarity_label(look: Mapping[str, Any]) -> str:
    compared = "image and caption" if look.get("of_pairs") else "two views"
    return f"different  ←  similarity of {compared}  →  alike"


def _matrix(look: Mapping[str, Any], key: str) -> np.ndarray:
    """As it is drawn: of pairs, a row for each caption (there is room to read it) and a column for each image."""
    found = np.array(look[key], dtype=float)
    return found.T if look.get("of_pairs") else found


def _names(look: Mapping[str, Any]) -> list[str]:
    return [str(i + 1) if look.get("of_pairs") else plain(str(name), 12) for i, name in enumerate(look["names"])]


def _captions(look: Mapping[str, Any], shown: bool) -> list[str] | None:
    """What stands before the rows of pairs; once is enough where panels share their rows."""
    if not look.get("of_pairs"):
        return None
    return [plain(str(name), CAPTION) if shown else "" for name in look["names"]]


def draw_matrix(
    ax: Axes,
    matrix: np.ndarray,
    title: str,
    colours: str,
    scale: tuple[float, float],
    names: Sequence[str],
    pictures: Sequence[np.ndarray] | None,
    captions: Sequence[str] | None = None,
) -> AxesImage:
    """One matrix with its values, the diagonal framed, and the images or their names along the axes.

    With `captions` these stand before the rows, and the images along the top only.
    """
    n = len(matrix)
    shown = ax.imshow(matrix, cmap=colours, vmin=scale[0], vmax=scale[1])
    for i in range(n if n <= NAMED else 0):
        ax.add_patch(Rectangle((i - 0.5, i - 0.5), 1, 1, fill=False, edgecolor=INK, linewidth=1.6))
    if n <= NUMBERED:
        _write_values(ax, matrix, shown, signed=colours == CHANGE)
    elif colours == CHANGE and n <= 40:  # in grey, a diverging scale hides the sign
        y, x = np.nonzero(matrix < 0.25 * scale[0])
        ax.scatter(x, y, marker="_", s=4000 / n**2 + 6, color=INK, linewidths=0.8)
    ax.set_title(title, fontsize=13, fontweight="bold", color=INK, pad=10 if pictures is None else 8)
    ax.tick_params(length=0, labelsize=9, labelcolor=MUTED)
    ax.spines[:].set_visible(False)
    _label_axes(ax, n, names, pictures, captions)
    return shown


def _write_values(ax: Axes, matrix: np.ndarray, shown: AxesImage, signed: bool) -> None:
    size = 9 if len(matrix) <= 8 else 7.5
    for (i, j), value in np.ndenumerate(matrix):
        dark = _luminance(*shown.to_rgba(np.array([value]))[0, :3]) <= 0.18
        value = round(float(value), 2) + 0.0  # no "-0.00"
        text = (f"{value:+.2f}" if signed and value else f"{value:.2f}").replace("-", "−")
        colour = "white" if dark else "black"
        ax.text(j, i, text, ha="center", va="center", fontsize=size, color=colour)


def _luminance(*colour: float) -> float:
    """As the eye weighs it (WCAG): above 0.18 black text has more contrast than white."""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in colour]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _label_axes(
    ax: Axes,
    n: int,
    names: Sequence[str],
    pictures: Sequence[np.ndarray] | None,
    captions: Sequence[str] | None,
) -> None:
    if n > NAMED:
        ax.set_xticks([])
        ax.set_yticks([])
        ax.set_xlabel(f"{n} images" if captions is None else f"{n} pairs", color=MUTED)
        return
    if pictures is None:
        ax.set_xticks(range(n), names, rotation=90 if max(map(len, names)) > 3 else 0)
        ax.set_yticks(range(n), names if captions is None else captions)
        return
    ax.set_xticks([])
    ax.set_yticks(range(n if captions else 0), captions or [], fontsize=10.5)
    for i, picture in enumerate(pictures):
        for left, top in ((i - 0.44, -1.5), (-1.5, i - 0.44))[: 2 if captions is None else 1]:
            ax.imshow(picture, extent=(left, left + 0.88, top + 0.88, top), clip_on=False, interpolation="nearest")
    ax.set_xlim(-1.55 if captions is None else -0.5, n - 0.5)
    ax.set_ylim(n - 0.5, -1.55)


def open_thumbnails(given: Thumbnails | None, n: int) -> list[np.ndarray] | None:
    """Small pictures of the owner's images; None where none are given or the axes have no room for them."""
    if given is None or n > NAMED:
        return None
    if len(given) != n:
        raise UserError(f"{len(given)} thumbnails were given for {n} images; give one for each image")
    if isinstance(given, np.ndarray):
        return [np.broadcast_to(p.transpose(1, 2, 0), (*p.shape[1:], 3)) for p in given]
    return [_open(data, i) for i, data in enumerate(given)]


def _open(data: bytes, position: int) -> np.ndarray:
    try:
        with Image.open(BytesIO(data)) as image:
            image.thumbnail((96, 96))
            return np.asarray(image.convert("RGB"))
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise UserError(f"thumbnail {position + 1} cannot be read as an image ({error}); give PNG or JPEG") from None


def scale_below(figure: Figure, shown: AxesImage, axes: list[Axes], label: str) -> None:
    ticks, narrow = MaxNLocator(5), len(axes) == 1
    shrink, aspect = (0.9, 30) if narrow else (0.6, 40)
    figure.colorbar(
        shown, ax=axes, label=label, ticks=ticks, orientation="horizontal", shrink=shrink, aspect=aspect, pad=0.03
    )


def layout_of_maps() -> ConstrainedLayoutEngine:
    return ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.1)


def _scale(colours: str, matrices: Sequence[np.ndarray]) -> tuple[float, float]:
    if colours == CHANGE:
        return around_zero(matrices)
    return float(min(m.min() for m in matrices)), float(max(m.max() for m in matrices))


def around_zero(matrices: Sequence[np.ndarray]) -> tuple[float, float]:
    most = max(max(abs(m).max() for m in matrices), 1e-6)
    return -float(most), float(most)
