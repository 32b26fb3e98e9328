"""The bytes of activations against what layers keep, and what a process takes on a CPU for three sizes of model."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from peft import LoraConfig, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM, Qwen3Config, Qwen3ForCausalLM

from arena_trainers.lm.backends.activations import Passes, layer_bytes

SCRIPT = Path(__file__).with_name("activations_script.py")
MAPPED = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "0"}
CPU = torch.device("cpu")
LENGTH = 31  # so that no activation has the size of a weight
KINDS = {
    "llama": (LlamaConfig, LlamaForCausalLM),
    "qwen3": (Qwen3Config, Qwen3ForCausalLM),
}


def kept_of(kind, layers, autocast, dtype, adapted):
    """A model, and the bytes that its layers keep of a row of `LENGTH` tokens, but weights."""
    config_kind, model_kind = KINDS[kind]
    config = config_kind(
        vocab_size=32,
        hidden_size=128,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=48,
        intermediate_size=384,
    )
    model = model_kind(config).to(dtype).train()
    if adapted:
        lora = LoraConfig(r=1, target_modules="all-linear")
        model = get_peft_model(model, lora, autocast_adapter_dtype=True)
    sizes = {weight.numel() for weight in model.parameters()}
    kept = {}

    def keep(tensor):
        if tensor.numel() not in sizes:  # also of weights that were cast
            kept[tensor.untyped_storage().data_ptr()] = tensor
        return tensor

    mask = torch.ones(1, 1, LENGTH, LENGTH).tril().log().to(dtype)
    with (
        torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor),
        torch.autocast("cpu", torch.bfloat16, enabled=autocast),
    ):
        model.base_model(torch.zeros(1, LENGTH, dtype=torch.long), mask)
    return model, sum(t.untyped_storage().nbytes() for t in kept.values())


@pytest.mark.parametrize(
    ("kind", "autocast", "dtype", "adapted"),
    [
        ("llama", False, torch.float32, False),
        ("qwen3", True, torch.float32, False),
        ("qwen3", True, torch.bfloat16, True),
    ],
)
def test_a_layer_keeps_what_is_calculated(kind, autocast, dtype, adapted):
    _, two = kept_of(kind, 2, autocast, dtype, adapted)
    model, three = kept_of(kind, 3, autocast, dtype, adapted)
    calculated = layer_bytes(model.config, Passes.of(model, CPU, autocast=autocast))
    assert calculated == pytest.approx((three - two) / LENGTH, rel=0.04)


def assert_within_a_fifth(*arguments):
    done = subprocess.run(
        [sys.executable, str(SCRIPT), *map(str, arguments)],
        env={**os.environ, **MAPPED, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    calculated, measured = map(float, done.stdout.splitlines()[-1].split())
    assert calculated == pytest.approx(measured, rel=0.2)


@pytest.mark.skipif(
    sys.platform != "linux", reason="the allocator of glibc is measured"
)
@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        ("tiny", 4, 2048, "float32"),
        ("smollm2", 1, 512, "float32"),
        ("smollm2", 1, 512, "half"),
        ("qwen3-0.6b", 1, 256, "float32"),
    ],
    ids=lambda arguments: "-".join(map(str, arguments)),
)
def test_activations_are_calculated_within_a_fifth(arguments):
    assert_within_a_fifth(*arguments)


@pytest.mark.skipif(
    sys.platform != "linux", reason="the allocator of glibc is measured"
)
@pytest.mark.slow
@pytest.mark.parametrize(("shape", "rank"), [("smollm2", 0), ("qwen3-0.6b", 16)])
def test_the_plan_of_a_step_is_what_the_process_takes(shape, rank, tmp_path):
    assert_within_a_fifth(shape, rank, tmp_path)
