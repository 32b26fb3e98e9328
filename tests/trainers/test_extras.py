"""Objects that are named by module and attribute."""

import sys

import pytest

from arena_trainers.extras import imported


def test_a_module_of_the_working_directory_hides_no_other(tmp_path, monkeypatch):
    """The directory is searched once, and last."""
    (tmp_path / "found_here.py").write_text("value = 7")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", before := list(sys.path))
    first = before[0]
    assert [imported("found_here:value", "a value") for _ in range(2)] == [7, 7]
    assert sys.path[0] == first
    assert sys.path.count(str(tmp_path)) == 1
    assert sys.path[-1] == str(tmp_path)


def test_a_name_without_an_object_is_refused():
    with pytest.raises(ValueError, match="want a value, got 'json:no_such'"):
        imported("json:no_such", "a value")
