"""The command line: `muc COMMAND …`. Commands import what they need when they run; help appears at once."""

import errno
import os
import re
import shlex
import signal
import sys
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from importlib import import_module
from io import TextIOWrapper

from muc import __version__
from muc.errors import Interrupted, UserError, check_name

# command -> (module, function, what it does)
COMMANDS: dict[str, tuple[str, str, str]] = {
    "demo": ("muc.cli.demo", "demo", "the whole story on embedded images: CPU, minutes, one page at the end"),
    "pretrain": ("muc.cli.training", "pretrain", "train an encoder"),
    "unlearn": ("muc.cli.training", "unlearn", "serve a deletion request with one method"),
    "resume": ("muc.cli.training", "resume", "continue an interrupted run"),
    "evaluate": ("muc.cli.judging", "evaluate", "measure what was forgotten, and the gaps to Retrain"),
    "compare": ("muc.cli.judging", "compare", "serve a request with several methods and rank them"),
    "audit": ("muc.cli.audit", "audit", "a data owner's check from outside: plan, start, …, verdict; look"),
    "serve": ("muc.cli.serve", "serve", "answer data owners: the models before and after behind keys"),
    "report": ("muc.cli.judging", "report", "one page with tables and figures of evaluated runs"),
    "reproduce": ("muc.cli.reproduce", "reproduce", "the paper's tables and figures, made again"),
    "paper": ("muc.cli.judging", "paper", "the paper's numbers and t-tests"),
    "import": ("muc.cli.exchange", "import_", "make a run of your own encoder"),
    "export": ("muc.cli.exchange", "export", "hand an encoder back as safetensors, ONNX or for torchvision"),
    "runs": ("muc.cli.exchange", "list_runs", "list runs and their state"),
}

GO_ON = ("demo", "compare", "reproduce", "resume", "audit calibrate", "audit redteam")
"""How commands begin that, given once more, go on where they were stopped."""

TRAINING = ("pretrain", "unlearn", "resume")
"""Commands that torchrun may start several processes for."""

HELP = """\
usage: muc COMMAND …        muc COMMAND --help        muc --version

Make a contrastive encoder forget training data, choose the method by evidence, and let data owners check it.

{commands}

Example: muc pretrain --data glyphs --out runs/first
         muc compare runs/first --forget-fraction 0.1 --out runs/request

In muc's own folder: ./muc setup (installs what is optional), ./muc test.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; bad input is one sentence on standard error and exit code 2."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # a letter that the terminal does not have is no reason to fail
    arguments = list(sys.argv[1:] if argv is None else argv)
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(HELP.format(commands="\n".join(f"  {name:10} {what}" for name, (_, _, what) in COMMANDS.items())))
        return 0 if arguments else 2
    if arguments[0] == "--version":
        print(f"muc {__version__}")
        return 0
    try:
        command = find_command(arguments[0])
        with ended_like_interrupted(), several(arguments[0]):
            command(arguments[1:])
    except UserError as error:
        return complain(str(error))
    except KeyboardInterrupt as stop:
        again = how_to_go_on(stop, arguments)
        lost = "what was not saved yet" if isinstance(stop, Interrupted) and not stop.saved else "nothing"
        print(f"\nmuc: stopped{f'; {lost} is lost. Go on with: {again}' if again else ''}", file=sys.stderr)
        return 130
    except (MemoryError, RuntimeError) as error:
        if not out_of_memory(error):
            raise
        return complain(too_large(error), alone=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the reader left: no error, no traceback
        return 0
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            where = f" ({error.filename})" if error.filename else ""
            again = "go on with: muc resume RUN" if arguments[0] in TRAINING else "run the same command again"
            return complain(f"the disk is full{where}; make room and {again}")
        if error.errno in (errno.EACCES, errno.EROFS, errno.EPERM):
            return complain(f"no permission for {error.filename}; choose another place or change its permissions")
        if error.errno == errno.ENOMEM:
            return complain(too_large(error), alone=True)
        if error.errno == errno.ENAMETOOLONG:
            return complain(f"the name {str(error.filename)[:60]}… is too long for a file; choose a shorter one")
        raise
    return 0


def find_command(name: str) -> Callable[[Sequence[str]], None]:
    module, function, _ = COMMANDS[check_name("command", name, COMMANDS)]
    # Before torch is loaded: OpenMP threads that spin while idle make a busy machine many times slower.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    return getattr(import_module(module), function)


@contextmanager
def ended_like_interrupted() -> Generator[None]:
    """What asks a process to end, and a terminal that closes, are as Ctrl-C: one line says how to go on. (Not where
    somebody chose otherwise, such as nohup.)"""
    alone = threading.current_thread() is threading.main_thread()
    kinds = [kind for kind in (signal.SIGTERM, signal.SIGHUP) if alone and signal.getsignal(kind) == signal.SIG_DFL]
    for kind in kinds:
        signal.signal(kind, signal.default_int_handler)
    try:
        yield
    finally:
        for kind in kinds:
            signal.signal(kind, signal.SIG_DFL)


def how_to_go_on(stop: KeyboardInterrupt, arguments: Sequence[str]) -> str:
    """What to type; nothing where a command begins anew."""
    if " ".join(arguments).startswith(GO_ON):
        return shlex.join(["muc", *arguments])
    return stop.command if isinstance(stop, Interrupted) else ""


def out_of_memory(error: Exception) -> bool:
    """By name and words, so that no torch is imported: for want of a CPU's memory it raises a plain RuntimeError."""
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    return any(words in str(error) for words in ("can't allocate memory", "out of memory", "ALLOC_FAILED"))


def too_large(error: Exception) -> str:
    asked = re.search(r"allocate ([\d.]+) ?(bytes|[KMGTPE]?iB)", str(error))
    number = asked and (f"{int(asked[1]):,}" if asked[1].isdecimal() else asked[1])
    size = f" for {number} {asked[2]} more" if asked else ""
    return f"there is not enough memory{size}; give a smaller --batch-size, a smaller model or --stream on"


def several(command: str) -> AbstractContextManager:
    """All processes that torchrun has started, as one."""
    if os.environ.get("WORLD_SIZE", "1") == "1":
        return nullcontext()
    if command not in TRAINING:
        raise UserError(f"muc {command} is the work of one process; start it without torchrun")
    from muc.processes import joined

    return joined()


def complain(message: str, alone: bool = False) -> int:
    """`alone`: what may have happened to this process and no other."""
    if alone or os.environ.get("RANK", "0") == "0":  # the others nearly always say the same
        print(f"muc: error: {message}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    code = main()
    if "WORLD_SIZE" in os.environ:
        # The threads of several processes are not always gone when Python ends, and C++ aborts a finished run for it.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)
