"""FSDP2, ZeRO-2 and ZeRO-3 train what DDP trains, in two processes on a CPU."""

import importlib.util
import json
import runpy
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

if any(importlib.util.find_spec(name) is None for name in ("deepspeed", "vllm")):
    pytest.skip(
        "needs DeepSpeed and vLLM in an environment of their own: make scale",
        allow_module_level=True,
    )

from safetensors.numpy import load_file

from arena_trainers.checkpoint import fault, files_of, read_manifest

LAUNCHING = SimpleNamespace(
    **runpy.run_path(str(Path(__file__).with_name("launching.py")))
)
records = LAUNCHING.records
pytestmark = pytest.mark.filterwarnings("default")  # DeepSpeed and vLLM warn
SHARDINGS = ("fsdp2", "zero2", "zero3")
CHUNKS = {"max_tokens_per_forward": 100, "beta": 0.1}
LORA = {"lora": True, "gradient_checkpointing": True, **CHUNKS}
SETTINGS: dict[str, dict[str, Any]] = {
    "plain": {"resume": True},
    "epsilon": {"adam_epsilon": 1.0, "learning_rate": 0.1, "resume": True},
    "chunks": {**CHUNKS, "tied": False, "gradient_accumulation_steps": 2},
    "reference": {
        "beta": 0.1,
        "sync_ref_model": True,
        "ref_model_sync_steps": 1,
        "credit": "counterfactual",
        "critic": "exact",
        "on_invalid": "forfeit",
        "games": ["kuhn_poker"],
        "opponents": ["self", "lm:{tied}"],
        "resume": True,
    },
    "lora": {**LORA, "resume": True},
    "bf16": {**LORA, "bf16": True},
}


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Folders of two models: with an output layer of its own, and without."""
    from transformers import Qwen3ForCausalLM, set_seed

    import arena_envs
    from arena_trainers.lm import LMPolicy
    from arena_trainers.runs import tiny_tokenizer, words_of
    from arena_trainers.runs.tiny import tiny_config
    from arena_wrappers import PromptOptions

    short = PromptOptions("bare", rules=False)
    games = [arena_envs.make_game(name) for name in ("kuhn_poker", "tic_tac_toe")]
    tokenizer = tiny_tokenizer([text for g in games for text in words_of(g, short)])
    folder = tmp_path_factory.mktemp("models")
    for name in ("tied", "untied"):
        config = tiny_config(tokenizer, hidden_size=32, num_layers=2)
        config.tie_word_embeddings = name == "tied"
        set_seed(1)
        policy = LMPolicy(Qwen3ForCausalLM(config), tokenizer, prompt=short)
        policy.save_pretrained(folder / name)
    return folder


class Runs:
    """Runs of all settings under each kind of sharding, each made when it is asked for."""

    def __init__(self, models, folder):
        self.models, self.folder = models, folder

    def __call__(self, sharding):
        out = self.folder / sharding
        if not out.exists():
            settings = {**SETTINGS, "job": {}}
            if sharding.startswith("zero"):
                del settings["bf16"]  # transformers refuses it for DeepSpeed on a CPU
            LAUNCHING.launch(sharding, self.models, out, settings)
        return out


@pytest.fixture(scope="module")
def runs(models, tmp_path_factory):
    return Runs(models, tmp_path_factory.mktemp("runs"))


def weights(folder):
    """The weights of the model or adapter in a folder, by name."""
    (file,) = (folder / "model").glob("*model.safetensors")
    return load_file(file)


def pairs(one, other):
    """float64[2, n]: the numbers of two models; a file may leave a tied layer out."""
    tied = {"lm_head.weight"}
    assert one.keys() - tied == other.keys() - tied
    names = sorted(one.keys() & other.keys())
    flat = [np.concatenate([m[n].ravel() for n in names]) for m in (one, other)]
    return np.stack(flat).astype(float)


def mean_step(one, other):
    return np.abs(np.diff(pairs(one, other), axis=0)).mean()


def assert_equal(one, other, name):
    """Up to rounding, which the order of sums decides.

    AdamW divides a gradient by its size plus epsilon. With epsilon 1 each number is within 1e-8
    and the last bit of a float32 in each of two steps. With the usual epsilon a number whose gradient is itself a
    rounding error may move by a part of the learning rate, 1e-2. So there the mean is below 1e-8.
    """
    ours, theirs = pairs(one, other)
    apart = np.abs(ours - theirs)
    if name == "epsilon":
        last_bit = np.spacing(np.abs(theirs).astype(np.float32))
        assert (apart - 2 * last_bit).max() <= 1e-8
        return
    assert apart.mean() < 1e-8
    assert (apart > 1e-6).mean() < 1e-3
    assert apart.max() < 1e-4


def test_the_processes_play_other_games_and_numbers_of_turns(runs):
    """What makes the tests below hang or differ if a process waits for the others."""
    for name in ("plain", "chunks", "lora"):
        one, two = records(runs("ddp") / name)
        assert one["processes"] == two["processes"] == 2
        assert one["games"][0] != two["games"][0]
        assert all(
            a != b for a, b in zip(one["num_turns"], two["num_turns"], strict=True)
        )
        if name != "plain":
            assert one["num_passes"] != two["num_passes"]
            assert max(one["num_passes"]) > 5


@pytest.mark.parametrize("sharding", SHARDINGS)
def test_training_is_sharded(runs, sharding):
    """accelerate ignores what it cannot do on a CPU: so the wrapper and the weights tell."""
    whole = sum(array.size for array in weights(runs("ddp") / "plain").values())
    for record in records(runs(sharding) / "plain"):
        if sharding == "fsdp2":
            assert "FSDPModule" in record["wrapper"]
            assert record["parameters"] == ["DTensor"]
        else:
            assert record["wrapper"][0] == "DeepSpeedEngine"
            assert record["zero"] == int(sharding[-1])
        share = 1.0 if sharding == "zero2" else 0.5
        assert record["local"] == pytest.approx(share * whole, rel=0.01)
    for record in records(runs("ddp") / "plain"):
        assert record["wrapper"][0] == "DistributedDataParallel"
        assert record["local"] == whole


@pytest.mark.parametrize("sharding", SHARDINGS)
@pytest.mark.parametrize("name", [name for name in SETTINGS if name != "bf16"])
def test_two_steps_give_the_weights_of_ddp(runs, models, sharding, name):
    expected = weights(runs("ddp") / name)
    assert_equal(weights(runs(sharding) / name), expected, name)
    log = records(runs("ddp") / name)[0]["log"]
    assert all(step["grad_norm"] > 1e-3 for step in log[:2])
    if name != "lora":  # an adapter has no weights before training
        start = load_file(models / "tied" / "model.safetensors")
        if name == "chunks":
            start = load_file(models / "untied" / "model.safetensors")
        assert mean_step(expected, start) > (1e-5 if name == "epsilon" else 1e-3)


@pytest.mark.parametrize("sharding", ["ddp", *SHARDINGS])
@pytest.mark.parametrize("name", [n for n in SETTINGS if SETTINGS[n].get("resume")])
def test_a_resumed_run_ends_with_the_weights_of_ddp(runs, sharding, name):
    out = runs(sharding) / name
    assert len(records(out / "resumed")[0]["num_turns"]) == 1  # one step of two
    assert_equal(weights(out / "resumed"), weights(runs("ddp") / name), name)


@pytest.mark.parametrize("sharding", ["ddp", *SHARDINGS])
def test_what_is_sampled_is_what_is_trained(runs, sharding):
    """Half precision rounds: the mean is bounded there, elsewhere the largest of all tokens."""
    for folder in (runs(sharding) / name for name in SETTINGS):
        if not folder.exists():
            continue
        for step in records(folder)[0]["log"][:2]:
            end, bound = ("mean", 0.02) if folder.name == "bf16" else ("max", 1e-3)
            assert step[f"arena/sampling_gap/{end}"] < bound, folder.name


@pytest.mark.parametrize("sharding", ["ddp", *SHARDINGS])
def test_the_parts_of_every_process_are_in_the_manifest(runs, sharding, tmp_path):
    folder = runs(sharding) / "plain" / "checkpoint-1"
    assert fault(folder) is None
    own = {path.relative_to(folder).as_posix() for path in files_of(folder)}
    assert own <= set(read_manifest(folder)["files"])
    copy = shutil.copytree(folder, tmp_path / "copy")
    largest = max(files_of(copy), key=lambda path: path.stat().st_size)
    largest.write_bytes(largest.read_bytes()[:-1])
    assert str(largest.relative_to(copy)) in fault(copy)


def test_half_precision_stays_near_ddp(runs):
    """FSDP2 rounds weights and gradients to bfloat16; DDP keeps them in float32."""
    step, other = (records(runs(s) / "bf16")[0]["log"][0] for s in ("fsdp2", "ddp"))
    assert step["grad_norm"] == pytest.approx(other["grad_norm"], rel=0.1)


@pytest.mark.parametrize("sharding", ["fsdp2", "zero3"])
def test_the_job_measures_and_saves_whole_models(runs, sharding):
    """The main process alone measures NashConv, while the other one goes on."""
    folder = runs(sharding) / "job"
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    convs = [json.loads(line).get("arena/nash_conv") for line in lines]
    assert sum(conv is not None for conv in convs) >= 2
    results = json.loads((folder / "results.json").read_text())
    assert results["best"]["metric"] == "arena/nash_conv"
    for name in ("model", "best"):
        found = load_file(folder / name / "model.safetensors")
        assert all(array.size > 0 for array in found.values())
