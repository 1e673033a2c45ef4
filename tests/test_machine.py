"""How many cores are taken."""

import os

import pytest

from muc.machine import core_count


def test_processes_of_one_machine_share_its_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: set(range(16)))
    assert core_count() == 16
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "8")
    assert core_count() == 2
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "32")
    assert core_count() == 1


def test_where_a_system_does_not_say_what_a_process_may_use_all_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: 6)
    assert core_count() == 6
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert core_count() == 1
