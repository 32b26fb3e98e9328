"""`best_of:N(POLICY, reward:PATH)`: the reply of N that a reward model likes most."""

import copy
import json
import tomllib
from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest
import torch

from arena_envs.registry import split
from arena_trainers import LMPolicy, TurnGRPOConfig
from arena_trainers.cli.options import PolicyOptions
from arena_trainers.data import Completion, ReplyPart, columns_of_row
from arena_trainers.lm import BestOfPolicy, RewardModel, best_of
from arena_trainers.runs import check_policies, tiny_tokenizer
from arena_trainers.runs.checks.preflight import check_opponents
from arena_trainers.train import GamePlan, opponents
from arena_wrappers import Policy, ScriptedPolicy, make_policy, play
from arena_wrappers.policies import HumanPolicy, turn_seed

MAKERS: dict[str, Callable[..., Policy]] = {
    "best_of": best_of.load,
    "lm": LMPolicy.from_pretrained,
}


@pytest.fixture
def reward(classifier, tokenizer):
    return RewardModel(copy.deepcopy(classifier), tokenizer)


@pytest.fixture
def requests(kuhn_env):
    """The requests of some episodes."""
    found = []

    def note(request):
        found.append(request)
        return "pass"

    play(kuhn_env, ScriptedPolicy(note), range(6))
    return found


def by_hand(classifier, reply):
    """The score of one reply by a forward pass of its own, without padding."""
    ids = torch.tensor([[*reply.prompt_ids, *reply.token_ids]])
    with torch.no_grad():
        return classifier(ids).logits.item()


def test_the_reply_with_the_highest_score_is_played_as_it_was_sampled(
    policy, reward, classifier, requests
):
    best = BestOfPolicy(policy, reward, 4).act(requests)
    changed = 0
    for request, reply in zip(requests, best, strict=True):
        seeds = [request.seed, *(turn_seed(request.seed, i, 0, 0) for i in (1, 2, 3))]
        sampled = [policy.act([replace(request, seed=seed)])[0] for seed in seeds]
        scores = [by_hand(classifier, own) for own in sampled]
        wanted = sampled[scores.index(max(scores))]
        assert (reply.text, reply.token_ids) == (wanted.text, wanted.token_ids)
        assert reply.prompt_ids == wanted.prompt_ids
        assert reply.logprobs == pytest.approx(wanted.logprobs, abs=1e-5)
        assert by_hand(classifier, reply) == pytest.approx(max(scores), abs=1e-5)
        changed += wanted.token_ids != sampled[0].token_ids
    assert changed > len(requests) / 3


def test_other_requests_of_the_batch_change_nothing(policy, reward, requests):
    chooser = BestOfPolicy(policy, reward, 3)
    alone = [chooser.act([request])[0].token_ids for request in requests]
    policy.batch_size = 5
    assert [reply.token_ids for reply in chooser.act(requests)] == alone
    assert chooser.act([]) == []


def test_one_reply_is_that_of_the_inner_policy(policy, reward, requests):
    assert BestOfPolicy(policy, reward, 1).act(requests) == policy.act(requests)


def test_of_equal_scores_the_first_reply_wins(policy, reward, requests):
    reward.model.score.weight.data.zero_()
    assert BestOfPolicy(policy, reward, 4).act(requests) == policy.act(requests)


def test_scores_are_those_of_rows_without_padding(reward, classifier):
    texts = [([6, 7, 8], [9, 2]), ([6], [2]), ([6, 7], [8, 9, 2]), ([9] * 9, [7])]
    with torch.no_grad():
        alone = [classifier(torch.tensor([p + r])).logits.item() for p, r in texts]
    found = reward.score(texts)
    assert found == pytest.approx(alone, abs=1e-5)
    assert reward.score(texts, max_tokens=4) == pytest.approx(alone, abs=1e-5)
    assert found[0] == found[2]  # the same tokens
    assert len(set(found)) == 3
    assert reward.score([]) == []


def test_replies_without_tokens_are_encoded_as_rows_to_train_on(
    reward, requests, kuhn_env, reward_folder
):
    said = "bet<|im_end|>\ud800"  # spells a control token; has a lone surrogate
    facts = {"game": "kuhn_poker-v0", "seat": 0, "turn": 0, "seed": 0, "sample": 0}
    row = Completion(
        **facts,
        policy="random",
        reason="",
        prompt=requests[0].messages,
        completion=[ReplyPart(said, None)],
    )
    wanted = columns_of_row(row, reward.chat)
    found = reward.encode(requests[0].messages, said)
    assert found == (wanted["prompt_ids"], wanted["completion_ids"])
    spec = f"best_of:2(noisy:0.5(random), reward:{reward_folder})"
    (episode,) = play(kuhn_env, make_policy(spec, MAKERS), [0])
    assert episode.turns[0].policy == spec
    assert episode.turns[0].token_ids is None


def test_a_model_learns_whatever_the_string_is_within(
    model_folder, reward_folder, settings
):
    spec = f"best_of:2(lm:{model_folder}, reward:{reward_folder})"
    assert split(f"self,{spec}") == ["self", spec]
    args = TurnGRPOConfig(**{**settings, "opponents": f"self,{spec}"})
    chooser: Any = opponents([GamePlan("kuhn_poker", args)], args, {})[spec]
    assert isinstance(chooser, BestOfPolicy)
    inner: Any = chooser.inner
    assert inner.batch_size == args.rollout_batch_size
    assert chooser.prompt.reply_format == "bare"
    noisy: Any
    (noisy,) = PolicyOptions(sampling={"max_new_tokens": 3}).policies(
        [f"noisy:0.1({spec})"]
    )
    assert noisy.inner.inner.sampling.max_new_tokens == 3
    nested: Any = make_policy(f"best_of:2({spec}, reward:{reward_folder})", MAKERS)
    assert nested.inner.name == spec


def test_preflight_finds_the_models_and_loads_none(
    model_folder, reward_folder, settings, monkeypatch
):
    def load(path, **options):
        raise AssertionError("loaded")

    monkeypatch.setattr(LMPolicy, "from_pretrained", load)
    monkeypatch.setattr(RewardModel, "from_pretrained", load)
    spec = f"best_of:2(lm:{model_folder}, reward:{reward_folder})"
    check_opponents(TurnGRPOConfig(**{**settings, "opponents": spec}))
    check_policies(["self", f"noisy:0.5({spec})"])
    with pytest.raises(ValueError, match="want a reward model in"):
        check_policies(spec.replace(str(reward_folder), str(model_folder)))
    with pytest.raises(ValueError, match="want a folder with a saved model"):
        check_policies(spec.replace("lm:", "lm:absent/"))
    with pytest.raises(ValueError, match=r"or judge turns with columns: \{rewards"):
        check_policies(f"lm:{reward_folder}")


def test_a_reward_model_scores_for_agents(policy, reward, reward_folder, kuhn_env):
    spec = f"agent:candidates(random, num=4, scorer=reward:{reward_folder})"
    (episode,) = play(kuhn_env, make_policy(spec, MAKERS), [3])
    for turn in episode.turns:
        texts = list(dict.fromkeys(one.text for one in turn.generations))
        pairs = [reward.encode(turn.messages, text) for text in texts]
        scores = reward.score(pairs)
        assert turn.reply == texts[scores.index(max(scores))]


def test_best_of_takes_the_scorers_of_agents(kuhn_env):
    best = make_policy("best_of:8(random, solver)", MAKERS)
    (episode,) = play(kuhn_env, best, [3])
    assert [len(turn.generations) for turn in episode.turns] == [8] * len(episode.turns)
    assert best.name == "best_of:8(random, solver)"


BAD = [
    ("best_of:2(random, solvr)", "no scorer 'solvr'; did you mean 'solver'"),
    ("agent:verify(random, scorer=reward:MODEL)", "want a reward model in"),
    (
        "best_of:2(lm:MODEL)",
        r"want a policy as best_of:NUM_SAMPLES\(POLICY, REWARD\), got",
    ),
    ("best_of:2(lm:MODEL, reward:REWARD))", "want closed parentheses"),
    ("best_of:2((lm:MODEL, reward:REWARD)", "want closed parentheses"),
    ("best_of:two(lm:MODEL, reward:REWARD)", "want an integer after 'best_of:'"),
    ("best_of:-1(lm:MODEL, reward:REWARD)", "want at least 1 reply"),
    ("best_of:99999(lm:MODEL, reward:REWARD)", "and at most 9999 in"),
    ("best_of:2(" * 3000 + "random" + ", reward:REWARD)" * 3000, "at most 20 deep"),
    ("best_of:2(" + ", reward:" * 3000 + ")", "want a policy as best_of:NUM_SAMPLES"),
    ("best_of", "want a policy as best_of:NUM_SAMPLES"),
    (
        "best_of:0(lm:MODEL, reward:REWARD)",
        "want at least 1 reply and at most 9999 in 'best_of:0",
    ),
    ("best_of:2(human, reward:REWARD)", "want no person in 'best_of:2"),
    ("best_of:2(minimxa, reward:REWARD)", "did you mean 'minimax'"),
    ("best_of:2(lm:MODEL, reward:./absent)", "want a folder with a saved model, got"),
    (
        "best_of:2(lm:MODEL, reward:MODEL)",
        "want a reward model in .* Qwen3ForCausalLM; make",
    ),
    ("best_of:2(lm:REWARD, reward:REWARD)", "want a language model, got the reward"),
    ("lm:REWARD", r"gives no replies; choose replies with best_of:4\(lm:PATH"),
    ("best_of:2(reward:REWARD, reward:REWARD)", "scores replies and gives none"),
    ("best_of:2(api:m@http://localhost:1/v1, reward:REWARD)", "got the endpoint"),
    ("reward:REWARD", "gives none; write best_of:4"),
]


@pytest.mark.parametrize(("spec", "message"), BAD)
def test_other_strings_are_refused_in_one_sentence(
    spec, message, model_folder, reward_folder
):
    spec = spec.replace("MODEL", str(model_folder))
    spec = spec.replace("REWARD", str(reward_folder))
    with pytest.raises(ValueError, match=message) as refused:
        make_policy(spec, MAKERS)
    assert len(str(refused.value)) < 700


def test_a_policy_that_cannot_be_chosen_from_is_refused(policy, reward, classifier):
    with pytest.raises(ValueError, match="want no person in 'ada'"):
        BestOfPolicy(HumanPolicy(), reward, 2, "ada")
    with pytest.raises(ValueError, match="want at least 1 reply"):
        BestOfPolicy(policy, reward, 0)
    other = RewardModel(classifier, tiny_tokenizer(["other words"]))
    with pytest.raises(
        ValueError, match=r"another tokenizer than 'lm'.* same base model"
    ):
        BestOfPolicy(policy, other, 2)
    with pytest.raises(ValueError, match="has the token 99; give a reward model"):
        reward.score([([6], [99])])


def test_folders_of_other_models_are_refused(reward_folder, tmp_path):
    config = json.loads((reward_folder / "config.json").read_text())
    (tmp_path / "model.safetensors").touch()
    for content, message in (
        (
            json.dumps({**config, "id2label": {"0": "a", "1": "b"}}),
            "one output .* got 2",
        ),
        ("[]", "cannot be read; make one with arena train"),
    ):
        (tmp_path / "config.json").write_text(content)
        with pytest.raises(ValueError, match=message):
            RewardModel.from_pretrained(tmp_path)
    (tmp_path / "config.json").unlink()
    adapter = json.dumps({"base_model_name_or_path": str(reward_folder)})
    (tmp_path / "adapter_config.json").write_text(adapter)
    with pytest.raises(ValueError, match=r"got an adapter in .* without lora_r"):
        RewardModel.from_pretrained(tmp_path)


def test_scores_of_diverged_weights_are_refused(reward):
    reward.model.score.weight.data.fill_(float("nan"))
    with pytest.raises(ValueError, match="not finite: its weights have diverged"):
        reward.score([([6], [7])])


def test_the_distribution_registers_the_policy():
    text = (Path(__file__).parents[3] / "pyproject.toml").read_text()
    points = tomllib.loads(text)["project"]["entry-points"]["arena.policies"]
    assert EntryPoint("best_of", points["best_of"], "x").load() is best_of.load
