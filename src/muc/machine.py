"""What this machine has: cores to compute with, and memory."""

import os


def core_count() -> int:
    """For this process: what it may use, and not what is for others that torchrun started beside it."""
    # Not every system can say what a process may use.
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, usable // int(os.environ.get("LOCAL_WORLD_SIZE", "1")))


def memory() -> int:
    """Bytes this machine has. Not those that are free: files that were just read fill them up, until they are needed,
    and the same folder would be streamed at one time and not at another."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
