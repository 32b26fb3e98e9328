"""Every notebook runs from its first cell to its last."""

from pathlib import Path

import pytest

nbformat = pytest.importorskip("nbformat")
InteractiveShell = pytest.importorskip("IPython.core.interactiveshell").InteractiveShell
pytest.importorskip("trl")

NOTEBOOKS = sorted((Path(__file__).parent.parent / "notebooks").glob("*.ipynb"))


def test_the_documentation_links_each_notebook():
    page = (NOTEBOOKS[0].parents[1] / "docs" / "index.md").read_text()
    assert [path.stem[:2] for path in NOTEBOOKS] == [f"{n:02}" for n in range(1, 7)]
    assert [
        path.name for path in NOTEBOOKS if f"/notebooks/{path.name})" not in page
    ] == []


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_installs_from_a_clone(path):
    text = path.read_text()
    assert "pip install '.[" in text
    assert "arena-envs[" not in text


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_saved_outputs_are_whole_and_without_warnings(path):
    cells = [
        c for c in nbformat.read(path, as_version=4).cells if c.cell_type == "code"
    ]
    assert [cell.execution_count for cell in cells] == [*range(1, len(cells) + 1)]
    outputs = [output for cell in cells for output in cell.outputs]
    assert any("image/png" in output.get("data", {}) for output in outputs)
    assert not [o.text for o in outputs if o.get("name") == "stderr"]


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_runs(path, monkeypatch, tmp_path):
    """Cell by cell, as its kernel would, but in this process, which has torch already."""
    monkeypatch.setenv("ARENA_NOTEBOOK_STEPS", "3")
    monkeypatch.chdir(tmp_path)
    # IPython warns where another environment is active
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    notebook = nbformat.read(path, as_version=4)
    shell = InteractiveShell()
    shell.history_manager.enabled = False
    for cell in notebook.cells:
        if cell.cell_type == "code":
            shell.run_cell(cell.source).raise_error()
