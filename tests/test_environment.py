"""A result says from which commit it was made, and nothing wrong where there is none."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import muc
from muc.environment import commit_of, environment
from muc.runtime import Runtime

ME = ("-c", "user.name=somebody", "-c", "user.email=somebody@example.org")


def git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(["git", "-C", folder, *ME, *arguments], capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A package in a checkout, with one commit."""
    package = tmp_path / "project" / "src" / "package"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    git(tmp_path / "project", "init", "--quiet")
    git(tmp_path / "project", "add", ".")
    git(tmp_path / "project", "commit", "--quiet", "-m", "first")
    git(tmp_path / "project", "tag", "v1")  # a name is not what is wanted
    commit_of.cache_clear()
    return package


def test_the_commit_of_a_checkout(source: Path) -> None:
    (source / "untracked.py").touch()
    assert commit_of(source) == git(source, "rev-parse", "HEAD")


def test_changed_files_are_told(source: Path) -> None:
    (source / "__init__.py").write_text("changed = True\n")
    assert commit_of(source) == git(source, "rev-parse", "HEAD") + "+"


def test_installed_inside_the_checkout_of_something_else(source: Path) -> None:
    installed = source.parents[1] / ".venv" / "lib" / "package"
    installed.mkdir(parents=True)
    assert commit_of(installed) is None


def test_no_checkout_and_no_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commit_of.cache_clear()
    assert commit_of(tmp_path / "nowhere" / "src" / "package") is None
    monkeypatch.setenv("PATH", str(tmp_path))
    commit_of.cache_clear()
    assert commit_of(tmp_path) is None
    commit_of.cache_clear()


def test_a_copy_can_be_told_its_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUC_COMMIT", "0123abc")
    assert environment(Runtime())["commit"] == "0123abc"


def test_scripts_of_this_environment_find_muc(tmp_path: Path) -> None:
    """As ./muc has set it up, from anywhere and without PYTHONPATH."""
    found = subprocess.run(
        [sys.executable, "-c", "import muc; print(muc.__file__)"],
        cwd=tmp_path,
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        capture_output=True,
        text=True,
    )
    assert found.stdout.strip() == muc.__file__
