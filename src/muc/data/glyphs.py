"""The embedded image set: letters of ten scripts, drawn from the DejaVu font that ships inside matplotlib.

Real shapes, offline, and each its own: a network memorises them within seconds. Labels are the scripts, and the
letters' Unicode names are true captions ("greek small letter alpha with tonos").
"""

import unicodedata
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np

from muc.data.images import ImageSet, from_labels

SCRIPTS = (
    "latin", "greek", "cyrillic", "arabic", "canadian", "georgian", "armenian", "hebrew", "tifinagh", "lisu",
)  # fmt: skip
SIDE, OVERSAMPLING = 16, 4


@cache  # drawn once a process: a comparison opens its data for every run
def load_glyphs() -> ImageSet:
    """All distinct letters of the ten scripts, white on black."""
    import matplotlib
    from matplotlib.ft2font import FT2Font
    from PIL import Image, ImageDraw, ImageFont

    path = Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf"
    big = SIDE * OVERSAMPLING
    font = ImageFont.truetype(str(path), round(0.8 * big), layout_engine=ImageFont.Layout.BASIC)
    seen: set[bytes] = set()
    images, labels, names = [], [], []
    for code in sorted(FT2Font(str(path)).get_charmap()):
        name = unicodedata.name(chr(code), "").lower()
        script = name.split(" ")[0]
        if script not in SCRIPTS or not ("letter" in name or script == "canadian"):
            continue
        canvas = Image.new("L", (big, big))
        left, top, right, bottom = font.getbbox(chr(code))
        corner = ((big - left - right) / 2, (big - top - bottom) / 2)
        ImageDraw.Draw(canvas).text(corner, chr(code), fill=255, font=font)
        image = np.asarray(canvas.reduce(OVERSAMPLING))
        if image.max() > 64 and image.tobytes() not in seen:  # no blanks, and none that look the same
            seen.add(image.tobytes())
            images.append(image)
            labels.append(SCRIPTS.index(script))
            names.append(name)
    return from_labels("glyphs", np.stack(images)[:, None], np.array(labels), names, SCRIPTS, test_fraction=1 / 3)


def load_glyph_pairs() -> ImageSet:
    """The same letters as image-text pairs, each with its name as caption."""
    glyphs = load_glyphs()
    captions = [[(name,) for name in names] for names in (glyphs.train_names, glyphs.test_names)]
    return replace(
        glyphs, name="glyph-pairs", train_captions=captions[0], test_captions=captions[1], prompt="{} letter"
    )
