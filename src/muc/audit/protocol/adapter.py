"""Any other endpoint, through a file of the data owner's own: `def embed(pngs, model)`, and perhaps a SIZE."""

import runpy
from collections.abc import Sequence
from pathlib import Path

from muc.audit.protocol.endpoint import About, Reply
from muc.audit.protocol.folder import Phase
from muc.errors import UserError

SIZE, CHANNELS = 224, 3


class Adapter:
    """The owner's file runs as it is, with all the rights of whoever starts it."""

    def __init__(self, path: Path) -> None:
        if not path.is_file():
            raise UserError(f"there is no adapter '{path}'; give a Python file that defines embed(pngs, model)")
        self.path = path
        try:
            self.names = runpy.run_path(str(path))
        except Exception as error:
            raise UserError(f"the adapter {path} does not run ({type(error).__name__}: {error}); repair it") from None
        if not callable(self.names.get("embed")):
            raise UserError(f"the adapter {path} defines no embed(pngs, model); see docs/audit.md for the two lines")

    def about(self, phase: Phase) -> About:
        size, channels = self.names.get("SIZE", SIZE), self.names.get("CHANNELS", CHANNELS)
        if type(size) is not int or not 4 <= size <= 4096 or channels not in (1, 3):
            raise UserError(
                f"the adapter {self.path} has SIZE {size!r} and CHANNELS {channels!r}; "
                "give a side length from 4 to 4096 pixels, and 1 or 3"
            )
        return About(channels, size)

    def embed(self, pngs: Sequence[bytes], phase: Phase) -> Reply:
        try:
            return Reply(self.names["embed"](list(pngs), phase))
        except UserError:
            raise
        except Exception as error:
            raise UserError(f"the adapter {self.path} failed ({type(error).__name__}: {error}); repair it") from None
