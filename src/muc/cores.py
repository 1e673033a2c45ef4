"""How many cores there are to compute with."""

import os


def core_count() -> int:
    """For this process: what it may use, and not what is for others that torchrun started beside it."""
    # Not every system can say what a process may use.
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, usable // int(os.environ.get("LOCAL_WORLD_SIZE", "1")))
