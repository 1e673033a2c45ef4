"""GPU kernels in Triton, for what would otherwise be many passes over memory.

Each has a plain twin in torch, which CPUs use and tests compare it with. Import them only where they run: Triton is
slow to load and not on every machine.
"""
