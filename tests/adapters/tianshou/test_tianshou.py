"""Tianshou's own wrapper takes the AEC environment as it is."""

import runpy
from pathlib import Path

import pytest

pytest.importorskip("tianshou", reason="tianshou is not installed: make adapters")
pytestmark = pytest.mark.filterwarnings("default")


def test_dqn_learns_tic_tac_toe(record_property) -> None:
    before, after = runpy.run_path(str(Path(__file__).with_name("example.py")))[
        "main"
    ]()
    record_property(
        "learned", f"mean return against random {before:.2f} -> {after:.2f}"
    )
    assert after > max(before, 0.2)
