"""Examples and scripts are no modules to collect: they import their framework."""

import runpy
from collections.abc import Callable

import pytest

collect_ignore_glob = ["*/example.py", "*/offline.py", "*/survey.py"]


@pytest.fixture
def drop_in_nash_conv(request, record_property) -> Callable[[int], float]:
    """By how much training of the folder's `example.py` lowers NashConv in Kuhn poker."""

    def drop(length: int) -> float:
        nash_conv = runpy.run_path(str(request.path.with_name("example.py")))[
            "nash_conv"
        ]
        before, after = nash_conv(0), nash_conv(length)
        record_property(
            "learned", f"NashConv of Kuhn poker {before:.2f} -> {after:.2f}"
        )
        return before - after

    return drop
