"""Locks: one process at a time, and nothing left behind."""

import fcntl
import gc
import subprocess
import sys

import pytest

from arena_wrappers import locks, play
from arena_wrappers.locks import InUse, lock_of, locked
from arena_wrappers.records import EpisodeLog

TRY = "import sys; from arena_wrappers.locks import lock_of; lock_of(sys.argv[1])"


def test_another_process_is_refused_until_the_lock_is_gone(tmp_path):
    log = tmp_path / "episodes.jsonl"
    other = [sys.executable, "-c", TRY, str(log)]
    with locked(log):
        done = subprocess.run(other, capture_output=True, text=True)
    assert "goes on with it; wait until that ends, or stop it" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_lock_is_shared_in_a_process_and_ends_with_its_last_holder(tmp_path):
    first, second = (lock_of(tmp_path, is_folder=True) for _ in range(2))
    assert first is second
    del first
    with pytest.raises(BlockingIOError), (tmp_path / ".lock").open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    del second
    gc.collect()
    assert not (tmp_path / ".lock").exists()


def test_what_a_killed_process_left_is_no_lock(tmp_path):
    (tmp_path / ".lock").write_text("process 1 on host")
    assert lock_of(tmp_path, is_folder=True).release.alive


def test_a_lock_file_that_its_holder_removed_is_made_anew(tmp_path, monkeypatch):
    """Its holder ends between our opening of the file and our lock."""
    path, real, calls = tmp_path / ".lock", locks._lock, []

    def lock(file):
        if not calls:
            path.unlink()
        calls.append(file)
        real(file)

    monkeypatch.setattr(locks, "_lock", lock)
    with locked(tmp_path, is_folder=True):
        assert path.exists()
    assert len(calls) == 2


def test_a_log_that_another_process_writes_is_not_cut(tmp_path, elsewhere):
    log, (episode,) = tmp_path / "e.jsonl", play("kuhn_poker", "random", [0])
    text = episode.to_json() + "\n" + episode.to_json()[:20]  # it is writing a line
    log.write_text(text)
    with elsewhere(log), pytest.raises(InUse, match="process 7 on host"):
        EpisodeLog(log)
    assert log.read_text() == text
