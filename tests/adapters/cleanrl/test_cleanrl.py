"""A trainer in one file learns on Gymnasium's vector environments, and its agent comes back."""

import runpy
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="torch is not installed: make adapters")


@pytest.mark.slow
def test_it_learns(record_property) -> None:
    first, last = runpy.run_path(str(Path(__file__).with_name("example.py")))["main"]()
    record_property("learned", f"mean return against random {first:.2f} -> {last:.2f}")
    assert last > first + 0.2


@pytest.mark.slow
def test_the_nash_conv_of_a_saved_agent_falls(drop_in_nash_conv) -> None:
    assert drop_in_nash_conv(60) > 0.2
