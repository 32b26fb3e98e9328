"""A growing file of episodes, cut off in the middle of a line or on a full disk."""

import os
from pathlib import Path
from typing import Any

import pytest

import arena_envs
from arena_wrappers import RandomPolicy, play
from arena_wrappers.records import EpisodeLog


def episodes(seeds: range) -> list[Any]:
    return play(lambda: arena_envs.make("kuhn_poker"), RandomPolicy(), seeds)


def test_what_was_appended_is_read_back(tmp_path: Path) -> None:
    log = EpisodeLog(tmp_path / "new" / "log.jsonl")
    assert list(log) == []
    first, second = episodes(range(3)), episodes(range(3, 5))
    log.append(first)
    log.append(second)
    assert list(EpisodeLog(log.path)) == [*first, *second]


@pytest.mark.parametrize("lost", [1, 2, 100])
def test_an_unfinished_line_is_cut_off(tmp_path: Path, lost: int) -> None:
    path = tmp_path / "log.jsonl"
    EpisodeLog(path).append(episodes(range(3)))
    path.write_bytes(path.read_bytes()[:-lost])
    log = EpisodeLog(path)
    assert list(log) == episodes(range(2))
    log.append(episodes(range(2, 3)))
    assert list(EpisodeLog(path)) == episodes(range(3))


def test_a_full_disk_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = EpisodeLog(tmp_path / "log.jsonl")
    log.append(episodes(range(2)))

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        log.append(episodes(range(2, 4)))
    assert list(EpisodeLog(log.path)) == episodes(range(2))


@pytest.mark.parametrize("notes", ["my notes\n", "my notes", "my\nnotes", "{}\n"])
def test_a_file_of_something_else_is_refused_and_kept(
    tmp_path: Path, notes: str
) -> None:
    path = tmp_path / "notes.txt"
    path.write_text(notes)
    with pytest.raises(ValueError, match=r"notes\.txt"):
        EpisodeLog(path)
    assert path.read_text() == notes


@pytest.mark.parametrize("path", ["/dev/zero", "/"])
def test_what_is_no_regular_file_is_refused(path: str) -> None:
    with pytest.raises(ValueError, match="want a regular file for episodes"):
        EpisodeLog(path)
