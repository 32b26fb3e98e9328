"""The bytes of activations against what layers keep, and what a process takes on a CPU for three sizes of model."""

import os
import runpy
import subprocess
import sys
import weakref
from pathlib import Path

import pytest
import torch
from peft import LoraConfig, get_peft_model
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from transformers import LlamaConfig, LlamaForCausalLM, Qwen3Config, Qwen3ForCausalLM
from trl.trainer.utils import add_fused_lm_head

from arena_trainers.lm.backends.activations import (
    Passes,
    activation_bytes,
    layer_bytes,
)

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


class Allocated(TorchDispatchMode):
    """Counts the bytes of tensors that exist at once; those of `before` count nothing."""

    def __init__(self, before):
        super().__init__()
        self.now = self.peak = 0
        self.sizes = {tensor.untyped_storage()._cdata: 0 for tensor in before}

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        output = function(*args, **(kwargs or {}))
        for tensor in tree_leaves(output):
            if isinstance(tensor, torch.Tensor):
                self.note(tensor.untyped_storage())
        return output

    def note(self, storage):
        key = storage._cdata
        if key not in self.sizes:
            self.sizes[key] = storage.nbytes()
            self.now += self.sizes[key]
            self.peak = max(self.peak, self.now)
            weakref.finalize(storage, self.forget, key)

    def forget(self, key):
        self.now -= self.sizes.pop(key, 0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shape", "length", "autocast", "checkpointing"),
    [
        ("smollm2", 512, False, False),
        ("qwen3-0.6b", 256, False, False),
        ("qwen3-0.6b", 8192, False, True),
        ("qwen3-0.6b", 4096, True, False),
    ],
)
def test_models_of_true_sizes_allocate_what_is_calculated(
    shape, length, autocast, checkpointing
):
    """With tensors that have a size and no numbers."""
    with FakeTensorMode(allow_non_fake_inputs=True):
        model = runpy.run_path(str(SCRIPT))["model_of"](shape).train()
        add_fused_lm_head(model, temperature=1.0, outputs=("log_probs", "entropy"))
        if checkpointing:
            model.gradient_checkpointing_enable({"use_reentrant": False})
        ids = torch.zeros(1, length, dtype=torch.long)

        def step():
            with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
                options = {"fused_lm_head": True, "use_cache": False}
                output = model(input_ids=ids, shift_labels=ids, **options)
            output.log_probs.sum().backward()

        step()  # makes the gradients
        weights = list(model.parameters())
        with Allocated([*weights, *(weight.grad for weight in weights)]) as allocated:
            step()
    how = {"checkpointing": checkpointing, "autocast": autocast}
    passes = Passes.of(model, CPU, **how)
    calculated = activation_bytes(model.config, length, passes)
    if autocast:  # torch keeps the weights that it has cast
        calculated += 2.0 * sum(weight.numel() for weight in weights)
    assert calculated == pytest.approx(allocated.peak, rel=0.1)


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
