"""`benchmarks/gpu.py --tiny` runs every part on a CPU."""

import json

import pytest

import gpu

CHEAP = ("attention", "small")


@pytest.mark.parametrize(
    "name",
    [n if n in CHEAP else pytest.param(n, marks=pytest.mark.slow) for n in gpu.PARTS],
)
@pytest.mark.filterwarnings("ignore")
def test_a_part_says_what_it_is_for(name, tmp_path, capsys):
    gpu.PARTS[name](True, tmp_path)
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    said = [line for line in lines if line["part"] == name]
    expected = {
        "kernels": "gaps",
        "gradient": "largest_difference",
        "learns": "nash_conv",
        "lora": "chunks",
        "attention": "gradient_gap",
        "long": "tokens_per_second",
        "full": "arena/moved_weights",
        "small": "release_free_memory_ms",
    }
    assert any(expected[name] in line for line in said)
    if name == "attention":
        _, blocks, flash = said
        assert 0 < blocks["largest_gap"] < 1e-5
        assert 0 < blocks["gradient_gap"] < 1e-4
        assert "skipped" in flash
    if name == "gradient":
        assert said[0]["largest_difference"] == 0.0
    if name == "full":
        assert said[0]["arena/moved_weights"] > 0.9


def test_a_part_that_fails_does_not_end_the_others(monkeypatch, capsys):
    monkeypatch.setattr(gpu, "LIMITS", {"small": 0.01, "kernels": 0.01})
    gpu.run_parts(["kernels", "small"], tiny=True)
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["of"] for line in lines if line["part"] == "time"] == [
        "kernels",
        "small",
    ]
    assert {"part": "small", "ended_after_seconds": 0.01} in lines
