"""What is meant for the person who typed the command: sentences, and how a training ended."""

from collections.abc import Iterable
from difflib import get_close_matches

MANY = 24  # names are listed up to here


class UserError(Exception):
    """Bad input: one sentence that names the value, what was expected, and the fix. The CLI exits with code 2.

    Not a ValueError: those raised while flags are parsed are put into a box of many lines by the parser.
    """


def check_name(kind: str, name: str, valid: Iterable[str]) -> str:
    """Return `name` if it is one of `valid`; otherwise say which valid name was probably meant."""
    names = sorted(valid)
    if name in names:
        return name
    close = get_close_matches(name, names, n=1, cutoff=0.5)
    hint = f"did you mean '{close[0]}'? " if close else ""
    shown = names
    if len(names) > MANY:  # of a thousand only those that are near
        first = names[:MANY] if len(names) < 100 else get_close_matches(name, names, n=8, cutoff=0.3)
        shown = [*first, f"… ({len(names)} in all)"]
    raise UserError(f"unknown {kind} '{name}'; {hint}valid: {', '.join(shown)}")


def printable(text: str, most: int) -> str:
    """What others wrote, for a terminal, which obeys some characters instead of showing them."""
    return "".join(c for c in text if c.isprintable())[:most]


def missing(what: str, *packages: str) -> UserError:
    """Of packages that not everybody needs."""
    named = " and ".join(packages)
    return UserError(f"{what} needs {named}; in muc's own folder ./muc setup installs all that is optional")


class Diverged(UserError):
    """A training whose loss or weights are no numbers any more."""


class Interrupted(KeyboardInterrupt):
    """Ctrl-C or a termination signal arrived; `command` goes on from what is saved, which is all that was done, unless
    it had to stop at once."""

    def __init__(self, command: str = "", saved: bool = True) -> None:
        super().__init__(command)
        self.command, self.saved = command, saved
