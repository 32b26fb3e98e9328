"""Columns that a reward model supplies."""

import json
import shutil
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
import torch

import arena_envs
from arena_credit import estimate
from arena_trainers import TurnGRPOConfig
from arena_trainers.lm import check_same_texts
from arena_trainers.runs import JobConfig, tiny_tokenizer
from arena_trainers.runs.checks.preflight import check_columns
from arena_trainers.train import (
    RewardColumn,
    TurnRecord,
    check_credit,
    load_functions,
    turn_batch,
)
from arena_trainers.train.rollout.reward_columns import (
    baseline,
    compared_turns,
    with_reward_columns,
)
from arena_wrappers import PromptOptions

KUHN = arena_envs.make_game("kuhn_poker")
MODEL = RewardColumn("model")
JUDGE = {"rewards.judge": MODEL}
VALUES = {"value": MODEL, "action_value": MODEL}
pytestmark = pytest.mark.filterwarnings("ignore::arena_credit.FlatPoolWarning")


def record(episode, turn, prompt, score, reward=0.0, text=None):
    return TurnRecord(
        game=0,
        seed=0,
        episode=episode,
        place=turn,
        seat=0,
        turn=turn,
        rewards={"game": reward},
        num_tokens=1,
        row_length=2,
        terminated=False,
        truncated=False,
        prompt=prompt,
        text=text or f"{episode} {turn}".encode(),
        scores={"model": score},
    )


def two_episodes(factor=1.0, of_second=0.0):
    """Scores 1 and 5 in the first turn, 9 and 5 in the second; the first episode wins."""
    scores = [[1.0, 9.0 + of_second], [5.0, 5.0 + of_second]]
    return [
        record(i, k, [b"first", b"second"][k], factor * scores[i][k], reward)
        for i, k, reward in [(0, 0, 0.0), (0, 1, 2.0), (1, 0, 0.0), (1, 1, 0.0)]
    ]


def credit_of(estimator, shares, columns, **options):
    shares = with_reward_columns(shares, columns)
    wanted = [*columns, "value", "action_value", "rewards.judge"]
    batch = turn_batch(shares, {"judge": 0.0}, ["kuhn"], wanted)
    return estimate(estimator, batch, **options).advantage


def test_advantages_of_known_scores_are_those_by_hand():
    """Each score is compared with the other episode's: -4 and 4, then 4 and -4.

    Their z-scores are -1, 1, 1 and -1; the outcomes' are 1 and -1.
    """
    shares = [two_episodes()]
    adca = credit_of("adca", shares, JUDGE)
    assert adca == pytest.approx([1 + 0.1 * (-1 + 1), 1 + 0.1, -1 + 0.1 * 0, -1 - 0.1])
    q_minus_v = credit_of("counterfactual", shares, VALUES)
    assert q_minus_v.tolist() == [-4, 4, 4, -4]
    archer = credit_of("archer", shares, VALUES, action_value="column")
    assert archer.tolist() == [-4, 4, 4, -4]


def test_the_zero_of_each_prompt_and_the_scale_are_arbitrary():
    plain, other = [two_episodes()], [two_episodes(factor=3.0, of_second=100.0)]
    assert credit_of("adca", other, JUDGE) == pytest.approx(
        credit_of("adca", plain, JUDGE)
    )
    scaled = 3 * credit_of("counterfactual", plain, VALUES)
    assert credit_of("counterfactual", other, VALUES) == pytest.approx(scaled)


def test_processes_compare_the_turns_of_all():
    whole = two_episodes()
    split = [whole[:2], [r._replace(episode=r.episode - 1) for r in whole[2:]]]
    wanted = credit_of("adca", [whole], JUDGE).tolist()
    assert credit_of("adca", split, JUDGE).tolist() == wanted
    shares = with_reward_columns(split, JUDGE)
    assert [[r.rewards["judge"] for r in share] for share in shares] == [
        [-4, 4],
        [4, -4],
    ]


def test_equal_texts_have_equal_scores_although_processes_round():
    first = record(0, 0, b"x", 1.0, text=b"same")
    shares = with_reward_columns(
        [[first], [first._replace(scores={"model": 1 + 1e-7})]], JUDGE
    )
    assert [share[0].rewards["judge"] for share in shares] == [0.0, 0.0]


def test_a_prompt_of_one_episode_has_no_difference():
    """Two turns of one episode do not count as two: the second follows from the first."""
    records = [
        record(0, 0, b"x", 1.0),
        record(0, 1, b"x", 5.0),
        record(1, 0, b"y", 9.0),
    ]
    assert credit_of("counterfactual", [records], VALUES).tolist() == [0, 0, 0]
    assert compared_turns([records]) == 0
    assert compared_turns([two_episodes()[:3]]) == pytest.approx(2 / 3)


def test_the_expected_difference_is_exact_in_batches_of_three():
    """Over all replies of three episodes: that of an action is f(a) - Σ p f."""
    probs = [Fraction(1, 2), Fraction(1, 3), Fraction(1, 6)]
    scores = [1.0, -2.0, 7.0]
    mean = sum(float(p) * f for p, f in zip(probs, scores, strict=True))
    expected = np.zeros(3)
    for own, *others in product(range(3), repeat=3):
        score = np.array([scores[a] for a in (own, *others)])
        found = score - baseline(score, np.zeros(3, np.int64), np.arange(3))
        expected[own] += float(probs[others[0]] * probs[others[1]]) * found[0]
    assert expected == pytest.approx([f - mean for f in scores])


@pytest.mark.parametrize(
    ("credit", "columns"),
    [("adca", ["rewards.judge"]), ("counterfactual", ["value", "action_value"])],
)
def test_a_step_reads_the_scores_of_the_tokens_as_played(
    make_trainer, generated, reward_folder, classifier, credit, columns
):
    found = dict.fromkeys(columns, RewardColumn(str(reward_folder)))
    options = {"episodes_per_step": 16, "num_generations": 4}
    trainer = make_trainer(credit=credit, columns=found, **options)
    generated(trainer)
    turns = [t for e in trainer.last_episodes for t in e.turns]
    prompts = [tuple(t.prompt_ids) for t in turns]
    ids = [torch.tensor([[*t.prompt_ids, *t.token_ids]]) for t in turns]
    with torch.no_grad():
        scores = np.array([classifier(row).logits.item() for row in ids])
    number = {prompt: i for i, prompt in enumerate(dict.fromkeys(prompts))}
    batch = trainer.last_turns
    mean = baseline(scores, np.array([number[p] for p in prompts]), batch.episode)
    if credit == "adca":
        assert batch.rewards["judge"] == pytest.approx(scores - mean, abs=1e-5)
        assert np.abs(batch.rewards["judge"]).max() > 0.01
        paid = batch.rewards["game"] + batch.rewards["format"]
        assert batch.reward.tolist() == paid.tolist()
    else:
        advantage = trainer.last_credit.advantage
        assert advantage == pytest.approx(scores - mean, abs=1e-5)
    assert trainer._metrics["train"]["arena/compared_turns"][0] > 0.5
    (model,) = trainer.credit.models.values()
    assert all(p.grad is None for p in model.model.parameters())


def test_recipes_name_reward_models(reward_folder, model_folder, settings):
    columns = {"rewards.judge": {"reward": str(reward_folder)}}
    assert load_functions(columns) == {
        "rewards.judge": RewardColumn(str(reward_folder))
    }
    args = TurnGRPOConfig(**settings | {"credit": "adca", "games": ["kuhn_poker"]})
    check_columns(JobConfig(columns=columns), args)
    for spec, message in (
        ({"reward": str(model_folder)}, "want a reward model in .* Qwen3ForCausalLM"),
        ({"reward": "./absent"}, "want a folder with a saved model, got './absent'"),
        ({"rewards": "a"}, r"as 'module:function' or \{reward: PATH\}, got \{'rewards"),
    ):
        with pytest.raises(ValueError, match=message):
            load_functions({"rewards.judge": spec})


@pytest.mark.parametrize(
    ("credit", "columns", "message"),
    [
        ("gae", {"value": MODEL}, "want value and action_value by the same .* got Rew"),
        ("counterfactual", {**VALUES, "value": RewardColumn("b")}, "path='b'"),
        ("counterfactual", {**VALUES, "value": len}, "only differences at the same"),
        ("archer", VALUES, "credit 'archer' does not read 'action_value'"),
        ("mars", {"stratum": MODEL}, "columns gives 'stratum' by a reward model"),
        ("mars", JUDGE, "credit 'mars' does not read 'rewards.judge'"),
    ],
)
def test_columns_that_would_mix_scores_with_returns_are_refused(
    settings, credit, columns, message
):
    args = TurnGRPOConfig(**settings | {"credit": credit})
    with pytest.raises(ValueError, match=message):
        check_credit(args, [KUHN], columns)


def test_a_reward_model_of_other_texts_is_refused(reward_folder, tokenizer, tmp_path):
    folder = tmp_path / "reward"
    shutil.copytree(reward_folder, folder)
    saved = {"reply_format": "boxed", "rules": False, "chat_template_kwargs": {"a": 1}}
    (folder / "arena_prompt.json").write_text(json.dumps(saved))
    prompt = PromptOptions("bare", rules=False)
    check_same_texts(str(reward_folder), tokenizer, prompt, None)  # has no file
    message = (
        r"chat_template_kwargs \{'a': 1\}, reply_format 'boxed' and not 'bare'; set"
    )
    with pytest.raises(ValueError, match=message):
        check_same_texts(str(folder), tokenizer, prompt, {})
    parsed = PromptOptions("boxed", rules=False, parsing="tolerant")
    check_same_texts(str(folder), tokenizer, parsed, {"a": 1})
    (folder / "chat_template.jinja").write_text("{{ messages }}")
    with pytest.raises(ValueError, match="with another chat template; set"):
        check_same_texts(str(folder), tokenizer, parsed, {"a": 1})
    with pytest.raises(
        ValueError, match="another tokenizer than the model that learns"
    ):
        check_same_texts(str(folder), tiny_tokenizer(["other"]), parsed, {"a": 1})
