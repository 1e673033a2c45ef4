"""What all figures share: colours that survive greyscale and colour blindness, and the way to PNG.

Figures are made with matplotlib's objects, not pyplot: no global state, so a server may draw from many threads.
"""

import base64
from functools import cache
from io import BytesIO

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import findfont, get_font

INK = "#1f2937"
MUTED = "#6b7280"
GRID = "#e5e7eb"
# Okabe and Ito's colour-blind safe palette, in an order whose neighbours also differ in lightness.
PALETTE = ("#0072B2", "#E69F00", "#009E73", "#F0E442", "#CC79A7")
DPI = 144


def tidy(ax: Axes) -> None:
    """No frame but a line below, and a faint grid to read values by."""
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.spines["bottom"].set_color(GRID)
    ax.tick_params(length=0, colors=MUTED, labelsize=9)
    ax.tick_params(axis="y", labelcolor=INK)
    ax.grid(axis="x", color=GRID, linewidth=0.8)
    ax.set_axisbelow(True)


def png(figure: Figure) -> bytes:
    """The same figure gives the same bytes: no date and no software version inside."""
    buffer = BytesIO()
    figure.savefig(buffer, format="png", dpi=DPI, facecolor="white", bbox_inches="tight", metadata={"Software": None})
    return buffer.getvalue()


def data_uri(image: bytes) -> str:
    """For the src of an img element: the page stays one file."""
    return "data:image/png;base64," + base64.b64encode(image).decode()


def plain(text: str, longest: int = 40) -> str:
    """Text as matplotlib may draw it: no mathematics between dollars, no characters its font lacks, not too long."""
    text = " ".join(text.split())
    text = text if len(text) <= longest else text[: longest - 1] + "…"
    font = get_font(_font())
    return "".join(c if font.get_char_index(ord(c)) else "?" for c in text).replace("$", r"\$")


@cache
def _font() -> str:
    return findfont("DejaVu Sans")  # comes with matplotlib
