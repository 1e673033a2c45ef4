"""Beginning an audit: draw the split, keep it secret, and publish a hash of it that nobody can take back."""

import secrets
import shutil
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from random import Random

from muc.audit.contrasts import FEWEST
from muc.audit.protocol.folder import (
    COMMITMENT,
    IMAGES,
    SECRET,
    AuditFolder,
    Commitment,
    ImageRecord,
    Locations,
    Secret,
    Terms,
)
from muc.audit.protocol.records import as_object, canonical, digest, read_bytes, write_bytes, write_new_secret
from muc.audit.protocol.signing import new_key, public_hex, signed
from muc.config import Views, in_range
from muc.errors import UserError
from muc.storage import make_folder, writing

VIEWS = 8
"""Of each image, for each model."""


def terms_for(n_images: int, n_forget: int | None, views: int, augmentation: Views, n_withheld: int = 0) -> Terms:
    """Half to forget unless said otherwise; a decoy, a repeat and a near-duplicate for every other image."""
    in_range("the number of images", n_images, 2 * FEWEST, 1_000_000)
    chosen = n_images // 2 if n_forget is None else n_forget
    in_range("forget", chosen, FEWEST, n_images - FEWEST)
    extra = max(4, n_images // 2)
    return Terms(chosen, n_images - chosen, n_withheld, views, extra, extra, extra, augmentation)


def start(
    images: Sequence[Path],
    names: Sequence[str],
    out: Path,
    n_forget: int | None = None,
    views: int = VIEWS,
    augmentation: Views | None = None,
    draw: Random | None = None,
    withheld: tuple[Sequence[Path], Sequence[str]] = ((), ()),
) -> AuditFolder:
    """Write the folder of a new audit of these image files; the commitment comes last and makes it one.

    `withheld`: files and names of images that the model owner never had.

    Split, salt and seed come from the operating system: who could choose a seed could choose a split. `draw` is for
    tests and simulations.
    """
    draw = draw or secrets.SystemRandom()
    folder = AuditFolder(out)
    terms = terms_for(len(images), n_forget, views, augmentation or Views(), len(withheld[0]))
    paths = [*images, *withheld[0]]
    every = zip([*names, *withheld[1]], paths, strict=True)
    records = [ImageRecord(name, digest(read_bytes(path))) for name, path in every]
    _check_images(records)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UserError(f"{out} exists and is not an empty folder; give another --out")
    secret = Secret(
        images=records[: terms.n_images],
        withheld=records[terms.n_images :],
        forget=sorted(draw.sample(range(len(images)), terms.n_forget)),
        seed=draw.randbytes(32).hex(),
        salt=draw.randbytes(32).hex(),
    )
    make_folder(out)
    with writing(folder.key_file.parent):
        folder.key_file.parent.mkdir(0o700)  # refuses that of another start, which came first
    try:
        _write(folder, secret, terms, Locations([str(path.absolute()) for path in paths]))
    except BaseException:  # half an audit would be in the way of the next try
        for path in (folder.secret_file, folder.forget_file, folder.commitment_file):
            path.unlink(missing_ok=True)
        shutil.rmtree(folder.key_file.parent, ignore_errors=True)
        raise
    return folder


def _write(folder: AuditFolder, secret: Secret, terms: Terms, located: Locations) -> None:
    key = new_key(folder.key_file)
    content = canonical(as_object(SECRET, secret))
    write_new_secret(folder.secret_file, content)
    write_new_secret(folder.images_file, canonical(as_object(IMAGES, located)))
    write_bytes(folder.forget_file, secret.forget_text().encode(errors="surrogateescape"))
    created = datetime.now(UTC).isoformat(timespec="seconds")
    commitment = Commitment(created, public_hex(key), digest(content), terms)
    write_bytes(folder.commitment_file, signed(as_object(COMMITMENT, commitment), key))


def _check_images(records: list[ImageRecord]) -> None:
    seen: dict[str, str] = {}
    for image in records:
        if image.sha256 in seen:
            raise UserError(
                f"'{image.name}' and '{seen[image.sha256]}' are the same file; give each image once, "
                "or one of them could be deleted and the other held back or withheld"
            )
        seen[image.sha256] = image.name
        if "\n" in image.name:
            raise UserError(f"the file name {image.name!r} holds a line break; rename the file")
    for name, count in Counter(image.name for image in records).items():
        if count > 1:
            raise UserError(f"two images are called '{name}'; rename one, so that the request can tell them apart")
