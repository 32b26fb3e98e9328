"""Every notebook runs from its first cell to its last."""

from pathlib import Path

import pytest

nbformat = pytest.importorskip("nbformat")
InteractiveShell = pytest.importorskip("IPython.core.interactiveshell").InteractiveShell
pytest.importorskip("trl")

NOTEBOOKS = sorted((Path(__file__).parent.parent / "notebooks").glob("*.ipynb"))


def test_there_are_notebooks():
    assert NOTEBOOKS


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_runs(path, monkeypatch, tmp_path):
    """Cell by cell, as its kernel would, but in this process, which has torch already."""
    monkeypatch.setenv("ARENA_NOTEBOOK_STEPS", "3")
    monkeypatch.chdir(tmp_path)
    notebook = nbformat.read(path, as_version=4)
    assert all(not cell.get("outputs") for cell in notebook.cells)  # none is committed
    shell = InteractiveShell()
    shell.history_manager.enabled = False
    for cell in notebook.cells:
        if cell.cell_type == "code":
            shell.run_cell(cell.source).raise_error()
