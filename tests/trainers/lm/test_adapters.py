"""LoRA: adapters in folders, on their base model, and on that of a learner."""

import json
import shutil
from typing import Any

import pytest
import torch
from peft import LoraConfig, get_peft_model
from rich.console import Console
from transformers import AutoModelForCausalLM, AutoTokenizer

from arena_trainers import TurnGRPOConfig, TurnGRPOTrainer
from arena_trainers.lm import LMPolicy, adapter_base, lora_config
from arena_trainers.lm.backends.cached_steps import cached_steps_are_exact
from arena_trainers.runs import JobConfig, SelfPlayRun, tiny_model
from arena_wrappers import PromptOptions, RandomPolicy, make_policy, play

SHORT = PromptOptions("bare", rules=False)
LORA = LoraConfig(r=4, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM")


def weights(model):
    return {name: p.detach().clone() for name, p in model.named_parameters()}


def equal(one, other):
    return all(torch.equal(one[name], other[name]) for name in one)


@pytest.fixture
def prompts(policy, kuhn_env):
    turns = [t for e in play(kuhn_env, RandomPolicy(), range(10)) for t in e.turns]
    return [policy.encode(turn.messages) for turn in turns]


@pytest.fixture
def save_adapter(model_folder, tmp_path):
    """Saves an adapter with random weights for the model; returns its folder."""

    def save(name="adapter", base=model_folder, with_tokenizer=True, **options):
        model = AutoModelForCausalLM.from_pretrained(base)
        given = {"r": 4, "target_modules": ["q_proj", "v_proj"], **options}
        config = LoraConfig(**given, task_type="CAUSAL_LM", init_lora_weights=False)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(5)
            adapted = get_peft_model(model, config)
        folder = tmp_path / name
        if not with_tokenizer:
            adapted.save_pretrained(folder)
            return folder
        tokenizer = AutoTokenizer.from_pretrained(model_folder)
        policy = LMPolicy(adapted, tokenizer, prompt=SHORT, max_new_tokens=2)
        policy.save_pretrained(folder)
        return folder

    return save


def test_an_adapter_plays_on_its_base_model(
    save_adapter, model_folder, prompts, tmp_path
):
    folder = save_adapter()
    policy: Any = make_policy(f"lm:{folder}")
    assert (policy.prompt, policy.sampling.max_new_tokens) == (SHORT, 2)
    base = AutoModelForCausalLM.from_pretrained(model_folder)
    from peft import PeftModel

    merged = PeftModel.from_pretrained(base, str(folder)).merge_and_unload()
    merged.save_pretrained(tmp_path / "merged")
    policy.tokenizer.save_pretrained(tmp_path / "merged")
    whole = LMPolicy.from_pretrained(tmp_path / "merged", max_new_tokens=2)
    plain = LMPolicy.from_pretrained(model_folder)
    seeds = range(len(prompts))
    found, expected, without = (
        one.generate(prompts, seeds) for one in (policy, whole, plain)
    )
    assert [r.token_ids for r in found] == [r.token_ids for r in expected]
    for one, other in zip(found, expected, strict=True):
        assert one.logprobs == pytest.approx(other.logprobs, abs=1e-5)
    assert [r.logprobs for r in found] != [r.logprobs for r in without]


def test_the_cache_is_measured_through_the_model_with_its_adapters(model_folder):
    # a pass of the model inside alone would be FSDP2's root, and the whole model would fail later
    adapted = get_peft_model(AutoModelForCausalLM.from_pretrained(model_folder), LORA)
    passes = {"whole": 0, "inner": 0}
    for name, part in (("whole", adapted), ("inner", adapted.get_base_model())):
        part.register_forward_hook(
            lambda *_, name=name: passes.update({name: passes[name] + 1})
        )
    assert cached_steps_are_exact(adapted)
    assert passes["whole"] == passes["inner"] > 0


def test_an_adapter_without_a_tokenizer_has_that_of_its_base(
    save_adapter, model_folder
):
    policy = LMPolicy.from_pretrained(save_adapter(with_tokenizer=False))
    base = AutoTokenizer.from_pretrained(model_folder)
    assert policy.tokenizer.get_vocab() == base.get_vocab()


def test_the_base_of_a_run_that_was_moved_is_beside_its_adapter(
    save_adapter, model_folder, tmp_path
):
    run = tmp_path / "run"
    shutil.copytree(model_folder, run / "start")
    folder = save_adapter("run/model", base=run / "start")
    run.rename(tmp_path / "moved")
    moved = tmp_path / "moved" / "model"
    assert adapter_base(str(moved)) == str(tmp_path / "moved" / "start")
    LMPolicy.from_pretrained(moved)
    shutil.rmtree(tmp_path / "moved" / "start")
    with pytest.raises(
        ValueError, match=r"was trained on the model in .*run/start', wh"
    ):
        LMPolicy.from_pretrained(moved)
    assert adapter_base(str(model_folder)) is None
    assert not folder.exists()


@pytest.mark.parametrize("difference", ["width", "layers", "names"])
def test_an_adapter_of_another_base_model_is_refused(
    save_adapter, tokenizer, tmp_path, difference
):
    folder = save_adapter()
    sizes = {"hidden_size": 32 if difference == "width" else 16}
    other = tiny_model(tokenizer, num_layers=1 + (difference == "layers"), **sizes)
    other.save_pretrained(tmp_path / "other")
    tokenizer.save_pretrained(tmp_path / "other")
    file = folder / "adapter_config.json"
    config = json.loads(file.read_text())
    config["base_model_name_or_path"] = str(tmp_path / "other")
    if difference == "names":
        config["target_modules"] = ["c_attn"]
    file.write_text(json.dumps(config))
    with pytest.raises(ValueError, match="is of another base model than the one in"):
        LMPolicy.from_pretrained(folder)


@pytest.mark.parametrize("content", ["{", "[]", "{}"])
def test_an_adapter_that_names_no_base_is_refused(tmp_path, content):
    (tmp_path / "adapter_config.json").write_text(content)
    with pytest.raises(ValueError, match="want base_model_name_or_path in "):
        make_policy(f"lm:{tmp_path}")


def trainer_of(model_folder, settings, opponent, lora=LORA, **options):
    seats = {"opponents": ["self", f"lm:{opponent}"]}
    args = TurnGRPOConfig(**{**settings, **seats, **options})
    tokenizer = AutoTokenizer.from_pretrained(model_folder)
    return TurnGRPOTrainer(
        str(model_folder), args, processing_class=tokenizer, peft_config=lora
    )


def test_an_opponents_adapter_is_swapped_in_on_the_learners_base(
    model_folder, settings, save_adapter, prompts, tmp_path
):
    """It says what it says by itself, and the learner is as it was, before and after."""
    copied = tmp_path / "base"
    shutil.copytree(model_folder, copied)
    folder = save_adapter(base=copied)
    trainer = trainer_of(model_folder, settings, folder, max_steps=2)
    opponent, learner = trainer.games.opponents[f"lm:{folder}"], trainer.policy
    assert opponent.model is learner.model
    alone, seeds = LMPolicy.from_pretrained(folder), range(len(prompts))
    for _ in range(2):
        before = weights(learner.model)
        found = opponent.generate(prompts, seeds)
        assert equal(before, weights(learner.model))
        expected = alone.generate(prompts, seeds)
        assert [r.token_ids for r in found] == [r.token_ids for r in expected]
        own = learner.generate(prompts, seeds)
        assert [r.logprobs for r in own] != [r.logprobs for r in found]
        trainer.train()
        assert not equal(before, weights(learner.model))


def test_the_learner_is_as_it_was_when_an_opponent_fails(
    model_folder, settings, save_adapter
):
    trainer = trainer_of(model_folder, settings, save_adapter())
    (opponent,) = trainer.games.opponents.values()
    before = weights(trainer.policy.model)
    with pytest.raises(IndexError), opponent.context():
        raise IndexError
    assert equal(before, weights(trainer.policy.model))


@pytest.mark.parametrize(
    ("lora", "options"),
    [
        (None, {}),
        (LORA, {"r": 2}),
        (LORA, {"lora_alpha": 3}),
        (LORA, {"target_modules": ["q_proj"]}),
        (LORA, {"modules_to_save": ["lm_head"]}),
        (LORA, "base"),
    ],
)
def test_an_adapter_that_does_not_fit_the_learner_has_a_model_of_its_own(
    model_folder, settings, save_adapter, prompts, tokenizer, tmp_path, lora, options
):
    if options == "base":
        other = tmp_path / "other"
        model = tiny_model(tokenizer, hidden_size=16, num_layers=1, seed=9)
        LMPolicy(model, tokenizer).save_pretrained(other)
        options = {"base": other}
    folder = save_adapter(**options)
    trainer = trainer_of(model_folder, settings, folder, lora)
    (opponent,) = trainer.games.opponents.values()
    assert opponent.model is not trainer.policy.model
    alone, seeds = LMPolicy.from_pretrained(folder), range(len(prompts))
    found, expected = (p.generate(prompts, seeds) for p in (opponent, alone))
    assert [r.token_ids for r in found] == [r.token_ids for r in expected]


def test_the_options_of_the_job_make_the_adapter():
    assert JobConfig().peft_config is None
    default = JobConfig(lora_r=16).peft_config
    assert (default.r, default.lora_alpha) == (16, 32)
    assert default.target_modules == "all-linear"
    own = lora_config(8, 4, ["q_proj", "v_proj"])
    assert (own.r, own.lora_alpha, own.task_type) == (8, 4, "CAUSAL_LM")
    assert set(own.target_modules) == {"q_proj", "v_proj"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lora_r": -1}, "want lora_r of at least 0, got -1"),
        ({"lora_alpha": 16}, "and its r is 0; give a rank: --lora r=16"),
        ({"lora_target_modules": ["q_proj"]}, "and its r is 0"),
        ({"lora_r": 4, "lora_alpha": 0}, "want lora_alpha of at least 1, got 0"),
        ({"lora_r": 4, "lora_target_modules": []}, "want a layer"),
    ],
)
def test_wrong_options_of_the_adapter_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        JobConfig(**options)


@pytest.mark.filterwarnings("ignore::arena_credit.FlatPoolWarning")
def test_a_run_with_an_adapter_saves_it_as_a_policy(model_folder, tmp_path):
    settings = {
        **{"model": str(model_folder), "lora_r": 4, "learning_rate": 1e-2},
        **{"rules": False, "reply_format": "bare", "max_completion_length": 2},
        **{"max_steps": 1, "episodes_per_step": 8, "num_generations": 4},
        **{"eval_episodes": 2, "evaluate_every": 0, "gradient_checkpointing": False},
    }
    job = SelfPlayRun(settings, tmp_path / "run", Console(quiet=True))
    job.prepare()
    job.run()
    folder = tmp_path / "run" / "model"
    assert adapter_base(str(folder)) == str(model_folder)
    policy: Any = LMPolicy.from_pretrained(folder)
    assert policy.prompt == SHORT
    assert policy.model.peft_config["default"].r == 4
    trained = job.trainer.policy.model.state_dict()
    assert equal(weights(policy.model), trained)
