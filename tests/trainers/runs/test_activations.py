"""The plan's bytes of activations against what a process takes on a CPU, for three sizes of model."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("activations_script.py")
MAPPED = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "0"}


@pytest.mark.skipif(
    sys.platform != "linux", reason="the allocator of glibc is measured"
)
@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(("tiny", 4, 2048, "float32"), marks=pytest.mark.slow),
        pytest.param(("smollm2", 1, 512, "float32"), marks=pytest.mark.slow),
        pytest.param(("smollm2", 1, 512, "half"), marks=pytest.mark.slow),
        pytest.param(("qwen3-0.6b", 1, 256, "float32"), marks=pytest.mark.slow),
    ],
    ids=lambda arguments: "-".join(map(str, arguments)),
)
def test_activations_are_calculated_within_a_fifth(arguments):
    done = subprocess.run(
        [sys.executable, str(SCRIPT), *map(str, arguments)],
        env={**os.environ, **MAPPED, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    calculated, measured = map(float, done.stdout.split())
    assert calculated == pytest.approx(measured, rel=0.2)
