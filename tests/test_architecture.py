"""What docs/architecture.md says of who imports whom."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import muc

SOURCE = Path(muc.__file__).parent


def loaded_with(*modules: str) -> set[str]:
    """All modules that a fresh Python has after importing these."""
    code = f"import sys, {', '.join(modules)}; print(*sys.modules)"
    env = {**os.environ, "PYTHONPATH": str(SOURCE.parent)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env)
    return set(done.stdout.split())


def modules_of(package: str) -> list[str]:
    files = (SOURCE / package).rglob("*.py")
    names = (".".join(("muc", *file.relative_to(SOURCE).with_suffix("").parts)) for file in files)
    return sorted(name.removesuffix(".__init__") for name in names)


@pytest.mark.parametrize(
    ("package", "never"),
    [
        ("audit", ("muc.models", "muc.train", "muc.runs", "muc.opening")),
        ("paper", ("torch",)),
        ("pictures", ("torch",)),
        ("methods", ("torch", "muc.train")),
    ],
)
def test_what_a_package_never_loads(package: str, never: tuple[str, ...]) -> None:
    assert not loaded_with(*modules_of(package)) & set(never)


def test_data_know_nothing_of_models() -> None:
    assert "muc.models" not in loaded_with("muc.data")
