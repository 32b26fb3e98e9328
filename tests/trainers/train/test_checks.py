"""Options that the trainer refuses on this machine."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from arena_trainers.train.checks import check_precision


@pytest.mark.parametrize(("use_cpu", "has_gpu"), [(True, True), (False, False)])
def test_float16_on_a_cpu_is_refused(
    monkeypatch: pytest.MonkeyPatch, use_cpu: bool, has_gpu: bool
) -> None:
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: has_gpu)
    args: Any = SimpleNamespace(fp16=True, use_cpu=use_cpu)
    with pytest.raises(ValueError, match="want fp16 on a GPU alone"):
        check_precision(args)


def test_float16_on_a_gpu_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: True)
    args: Any = SimpleNamespace(fp16=True, use_cpu=False)
    check_precision(args)
