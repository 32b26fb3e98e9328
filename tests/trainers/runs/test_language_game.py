"""Training on a language game: free words are sampled, played, credited and replayed."""

import json
from typing import Any

import pytest
import torch
from rich.console import Console

import arena_envs
from arena_eval import exploitability
from arena_trainers import TurnGRPOConfig, TurnGRPOTrainer
from arena_trainers.data import examples_of
from arena_trainers.lm import LMPolicy
from arena_trainers.offline.warm_start import warm_start
from arena_trainers.runs import SelfPlayRun, tiny_model, tiny_tokenizer, words_of
from arena_wrappers import (
    BotPolicy,
    Episode,
    PromptOptions,
    PromptWrapper,
    RandomPolicy,
    play,
    replay,
)

PARAMS = {"num_rounds": 2, "num_offers": 3, "complete_information": False}


def talkative(game, state, rng):
    """Random play with a message before every second move."""
    action = rng.choice(game.legal_actions(state))
    return action._replace(message=rng.choice(["", "Half is fair."]))


@pytest.fixture(scope="module")
def start():
    """A tiny model that has learned to play bargaining, with messages, and its tokenizer."""
    game = arena_envs.make_game("bargaining", **PARAMS)
    options = PromptOptions("bare", rules=False)
    words = words_of(game, options, num_episodes=50)
    tokenizer = tiny_tokenizer([*words, 'and said: "Half is fair."'])
    model = tiny_model(tokenizer, hidden_size=16, num_layers=1, seed=2)
    env = PromptWrapper(arena_envs.make("bargaining", **PARAMS), "bare", rules=False)
    episodes = play(env.clone, BotPolicy(talkative), range(200))
    warm_start(
        LMPolicy(model, tokenizer),
        examples_of(episodes),
        num_steps=80,
        learning_rate=1e-2,
        batch_size=32,
    )
    return model, tokenizer


def test_free_words_are_trained_as_they_were_sampled(start, settings):
    model, tokenizer = start
    args = TurnGRPOConfig(
        **{
            **settings,
            "games": [{"id": "bargaining", "params": PARAMS}],
            "max_completion_length": 8,
            "max_steps": 3,
        }
    )
    trainer: Any = TurnGRPOTrainer(model, args, processing_class=tokenizer)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    played = []
    play = trainer.player.play

    def remember(*inputs):
        found = play(*inputs)
        played.extend(found.episodes)
        return found

    trainer.player.play = remember
    trainer.train()
    assert trainer.state.global_step == 3
    assert len(played) == 3 * args.episodes_per_step
    after = model.state_dict()
    assert any(not torch.equal(before[name], after[name]) for name in before)
    turns = [turn for episode in played for turn in episode.turns]
    assert sum(turn.invalid is None for turn in turns) > 0.5 * len(turns)
    spoken = [t for t in turns if t.action is not None and t.action not in t.legal]
    assert {turn.action.rpartition("\n")[0] for turn in spoken} >= {"Half is fair ."}
    assert any(turn.reward > 0 for turn in turns)
    for turn in turns:
        assert tokenizer.decode(turn.token_ids).startswith(turn.reply)
    heard = [t for t in turns if 'said: "Half is fair ."' in t.messages[-1]["content"]]
    assert heard
    for episode in played:
        assert replay(Episode.from_json(episode.to_json())) == episode


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::arena_credit.FlatPoolWarning")
@pytest.mark.parametrize(
    ("id", "params"),
    [
        ("bargaining", PARAMS),
        ("negotiation", PARAMS),
        ("persuasion", {"num_rounds": 3}),
        ("collaborative_maze", {"size": 3, "max_steps": 5}),
    ],
)
def test_the_job_trains_it_and_measures_no_nash_conv(id, params, tmp_path):
    settings = {
        "games": [{"id": id, "params": params}],
        "hidden_size": 16,
        "num_layers": 1,
        "warm_start_steps": 5,
        "warm_start_episodes": 20,
        "episodes_per_step": 8,
        "num_generations": 2,
        "max_steps": 1,
        "eval_episodes": 10,
        "rules": False,
        "reply_format": "bare",
        "max_completion_length": 4,
        "logging_steps": 1,
        "use_cpu": True,
    }
    job = SelfPlayRun(settings, tmp_path / "run", Console(quiet=True))
    job.prepare()
    results = job.run()
    assert set(results["nash_conv"].values()) == {None}
    written = (tmp_path / "run" / "results.json").read_text()
    assert json.loads(written) == json.loads(json.dumps(results))
    (found,) = results["outcomes"].values()
    assert [len(stage["returns"]) for stage in found["stages"]] == [0, 2, 2]
    wanted = {("random", 0), ("random", 1), ("random", "all")}
    if arena_envs.make_game(id, **params).kind == "cooperative":
        wanted = set()  # self-play is the whole evaluation
    assert {(r["opponent"], r["seat"]) for r in found["evaluation"]} == wanted


def test_exact_exploitability_is_refused():
    game = arena_envs.make_game("bargaining", **PARAMS)
    with pytest.raises(ValueError, match=r"Bargaining\(.*\) is a language game"):
        exploitability(RandomPolicy(), game)
