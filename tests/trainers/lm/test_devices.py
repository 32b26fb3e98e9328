"""Models run on the accelerator if there is one, and inputs follow them."""

import pytest
import torch

from arena_trainers.lm import LMPolicy, left_padded, loading
from arena_trainers.lm import policy as lm_policy
from arena_trainers.lm.backends import Sampling
from arena_trainers.lm.backends.sampling import SeededSampler
from arena_trainers.train import GamePlan, opponents


@pytest.fixture
def moves(monkeypatch):
    """Where models were sent, by the only call that sends them."""
    seen = []

    def to(self, device):
        seen.append(torch.device(device))
        return self

    from transformers import PreTrainedModel

    monkeypatch.setattr(PreTrainedModel, "to", to)
    monkeypatch.setattr(loading, "usable_device", torch.device)
    return seen


def test_the_default_is_the_accelerator_if_there_is_one(monkeypatch):
    assert loading.default_device().type in {"cpu", "cuda", "mps", "xpu"}
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: True)
    monkeypatch.setattr(
        torch.accelerator, "current_accelerator", lambda: torch.device("xpu")
    )
    assert loading.default_device() == torch.device("xpu")
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: False)
    assert loading.default_device() == torch.device("cpu")


def test_a_device_that_is_not_here_is_refused(model_folder, monkeypatch):
    assert loading.usable_device("cpu") == torch.device("cpu")
    with pytest.raises(ValueError, match="want a device that torch can use here"):
        LMPolicy.from_pretrained(model_folder, device="mars")

    def without_cuda(*args, **kwargs):
        raise AssertionError("Torch not compiled with CUDA enabled")

    monkeypatch.setattr(torch, "empty", without_cuda)
    with pytest.raises(ValueError, match="'cuda': Torch not compiled with CUDA"):
        loading.usable_device("cuda")


def test_a_loaded_policy_runs_on_the_default_device_or_where_it_is_told(
    model_folder, monkeypatch, moves
):
    monkeypatch.setattr(loading, "default_device", lambda: torch.device("cuda"))
    LMPolicy.from_pretrained(model_folder)
    lm_policy.load(str(model_folder))
    LMPolicy.from_pretrained(model_folder, device="xpu")
    assert [device.type for device in moves] == ["cuda", "cuda", "xpu"]


def test_inputs_and_noise_follow_the_device_of_the_model(policy):
    """Nothing can be computed from tensors of the CPU and of another device."""
    policy.model.to("meta")
    ids, mask = left_padded([[1, 2], [3]], policy.pad_id, policy.model.device)
    assert {ids.device.type, mask.device.type} == {"meta"}
    cuts = {"top_k": 3, "top_p": 0.9, "min_p": 0.1, "repetition_penalty": 1.1}
    sampling = Sampling(temperature=0.7, **cuts, with_entropy=True)
    sampler = SeededSampler([1, 2], sampling, [[1, 2], [3]])
    scores = sampler(ids, torch.zeros(2, 11, device="meta"))
    made = [scores, *sampler.logprobs, *sampler.entropies]
    assert {tensor.device.type for tensor in made} == {"meta"}


def test_opponents_of_a_trainer_run_where_it_trains(
    model_folder, settings, moves, monkeypatch
):
    from arena_trainers import TurnGRPOConfig

    spec = f"lm:{model_folder}"
    args = TurnGRPOConfig(**settings, opponents=["self", spec])
    monkeypatch.setattr(loading, "default_device", lambda: torch.device("cuda"))
    opponents([GamePlan("kuhn_poker", args)], args, {})
    assert moves == [args.device] == [torch.device("cpu")]


@pytest.mark.parametrize(
    ("saved", "device", "runs"),
    [
        (torch.float32, "cpu", torch.float32),
        (torch.bfloat16, "cpu", torch.float32),
        (torch.float16, "cpu", torch.float32),
        (torch.float32, "cuda", torch.float32),
        (torch.bfloat16, "cuda", torch.bfloat16),
        (torch.float16, "cuda", torch.float16),
        (torch.bfloat16, "mps", torch.bfloat16),
    ],
)
def test_half_precision_is_kept_where_it_is_fast(monkeypatch, saved, device, runs):
    is_new = [True]
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda **_: is_new[0])
    assert loading.default_dtype(saved, torch.device(device)) == runs
    is_new[0] = False  # CUDA devices before Ampere
    old = torch.float32 if (saved, device) == (torch.bfloat16, "cuda") else runs
    assert loading.default_dtype(saved, torch.device(device)) == old


def test_a_saved_model_runs_in_the_precision_that_it_is_told(policy, tmp_path):
    policy.model.to(torch.bfloat16)
    policy.save_pretrained(tmp_path)
    assert LMPolicy.from_pretrained(tmp_path, device="cpu").model.dtype == torch.float32
    told = LMPolicy.from_pretrained(tmp_path, device="cpu", dtype="bfloat16")
    assert told.model.dtype == torch.bfloat16
    with pytest.raises(ValueError, match=r"want dtype .* got 'int8'"):
        LMPolicy.from_pretrained(tmp_path, dtype="int8")
