"""TurnGRPOTrainer: what was sampled is what is trained, each turn by its own advantage."""

import json
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
import pytest
import torch
from peft import LoraConfig
from transformers import AutoTokenizer
from trl import GRPOTrainer

import arena_envs
from arena_envs import registration
from arena_envs.game import TERMINAL, BaseGame
from arena_trainers import TurnGRPOConfig, TurnGRPOTrainer
from arena_trainers.train import CREDIT_STATE
from arena_trainers.train import trainer as trainer_module
from arena_trainers.train.games import different_games
from arena_trainers.train.prepared import prepare_games
from arena_wrappers import NoReplyError, RandomPolicy, Reply


class Coin(NamedTuple):
    """Whether the only player has named a side; -1 before."""

    side: int = -1


@dataclass(frozen=True)
class Bandit(BaseGame[Coin, int]):
    """One player, one turn: "bet" pays 1, "pass" pays 0."""

    num_players: ClassVar[int] = 1
    num_actions = 2
    kind = "cooperative"
    information = "perfect"
    min_return, max_return, max_turns = 0.0, 1.0, 1

    def initial_state(self):
        return Coin()

    def current_player(self, state):
        return 0 if state.side < 0 else TERMINAL

    def chance_outcomes(self, state):
        return []

    def legal_actions(self, state):
        return (0, 1) if state.side < 0 else ()

    def apply(self, state, action):
        return Coin(action)

    def returns(self, state):
        return (float(state.side == 1),)

    def observe(self, state, seat):
        return "You are player_0 and hold K."

    def information_state(self, state, seat):
        return state

    def features(self, state, seat):
        return np.zeros(1, np.float32)

    def action_text(self, state, action):
        return ("pass", "bet")[action]

    def rules(self, seat):
        return "Bet."


@pytest.fixture(scope="module", autouse=True)
def _bandit():
    arena_envs.register("test_bandit-v0", f"{__name__}:Bandit")
    yield
    del registration._entries["test_bandit-v0"]  # other files list all games


@pytest.fixture
def make_trainer(model_folder, settings):
    def make(**overrides):
        keywords = {
            name: overrides.pop(name)
            for name in ("peft_config", "policies")
            if name in overrides
        }
        args = TurnGRPOConfig(**{**settings, **overrides})
        tokenizer = AutoTokenizer.from_pretrained(model_folder)
        return TurnGRPOTrainer(
            str(model_folder), args, processing_class=tokenizer, **keywords
        )

    return make


def generated(trainer):
    """The batch that TRL's loss reads, for one generation batch of starts."""
    starts = [
        trainer.train_dataset[i // 2 % len(trainer.train_dataset)]
        for i in range(trainer.args.episodes_per_step)
    ]
    trainer.model.train()
    return trainer._generate_and_score_completions(starts)


def real_turns(trainer):
    """The learners' turns in the order of the rows."""
    turns = [turn for episode in trainer.last_episodes for turn in episode.turns]
    return [turn for turn in turns if turn.policy == "self"]


def weights(trainer):
    model = trainer.accelerator.unwrap_model(trainer.model)
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def test_what_was_sampled_is_what_is_trained(make_trainer):
    """Token by token, with log-probabilities equal to 1e-5, left padding or not."""
    trainer = make_trainer(temperature=0.8)
    batch, turns = generated(trainer), real_turns(trainer)
    ids = torch.cat([batch["prompt_ids"], batch["completion_ids"]], dim=1)
    mask = torch.cat([batch["prompt_mask"], batch["completion_mask"]], dim=1)
    width = batch["completion_ids"].shape[1]
    with torch.no_grad():
        logps, _, _ = trainer._get_per_token_logps_and_entropies(
            trainer.model, ids, mask, width
        )
    assert len(turns) >= 16
    for i, turn in enumerate(turns):
        count = len(turn.token_ids)
        assert batch["prompt_ids"][i][batch["prompt_mask"][i] == 1].tolist() == list(
            turn.prompt_ids
        )
        assert batch["completion_ids"][i, :count].tolist() == list(turn.token_ids)
        assert batch["completion_mask"][i].sum() == count
        np.testing.assert_allclose(logps[i, :count], turn.logprobs, atol=1e-5)


def test_every_token_of_a_turn_has_the_advantage_of_its_turn(make_trainer):
    trainer = make_trainer()
    batch = generated(trainer)
    advantage = trainer.last_credit.advantage
    assert len(set(advantage.round(6).tolist())) > 2
    for i, turn in enumerate(real_turns(trainer)):
        count = len(turn.token_ids)
        np.testing.assert_allclose(
            batch["advantages"][i, :count], advantage[i], rtol=1e-6
        )
    dead = batch["advantages"][len(advantage) :]
    assert not dead.any()
    assert not batch["tool_mask"][len(advantage) :].any()


def gradient_by_token(trainer, batch, monkeypatch):
    """d loss / d log-probability of every completion token."""
    leaf = torch.full(batch["completion_ids"].shape, -0.5, requires_grad=True)
    monkeypatch.setattr(
        trainer,
        "_get_per_token_logps_and_entropies",
        lambda *_, **__: (leaf, torch.zeros_like(leaf), None),
    )
    (gradient,) = torch.autograd.grad(trainer._compute_loss(trainer.model, batch), leaf)
    return gradient


@pytest.mark.parametrize("loss_type", ["dapo", "grpo", "bnpo", "dr_grpo", "cispo"])
def test_raising_one_turns_advantage_moves_the_gradient_of_that_turn_only(
    make_trainer, monkeypatch, loss_type
):
    trainer = make_trainer(loss_type=loss_type)
    trainer.current_gradient_accumulation_steps = 1
    batch = generated(trainer)
    before = gradient_by_token(trainer, batch, monkeypatch)
    batch["advantages"] = batch["advantages"].clone()
    batch["advantages"][3] += 1.0
    moved = gradient_by_token(trainer, batch, monkeypatch) != before
    count = len(real_turns(trainer)[3].token_ids)
    assert moved[3, :count].all()
    assert moved.sum() == count


def test_a_frozen_seat_gets_no_row(make_trainer):
    trainer = make_trainer(opponents=["self", "random"])
    batch, turns = generated(trainer), real_turns(trainer)
    assert {turn.seat for turn in turns} == {0}
    assert (batch["tool_mask"].sum(dim=1) > 0).sum() == len(turns)


def test_opponents_may_be_objects(make_trainer):
    trainer = make_trainer(
        opponents=["self", "mine"], policies={"mine": RandomPolicy()}
    )
    generated(trainer)
    assert trainer.last_episodes[0].turns[1].policy == "random"


def test_a_missing_reply_of_an_opponent_stops_training_before_the_step(make_trainer):
    """An outage is neither a win nor a loss, and no step is made of the other episodes."""

    class Failing(RandomPolicy):
        name = "failing"

        def act(self, requests):
            replies = super().act(requests)
            return [*replies[:-1], Reply("", error="status 502")]

    trainer = make_trainer(
        opponents=["self", "failing"], policies={"failing": Failing()}
    )
    before = [p.clone() for p in trainer.model.parameters()]
    with pytest.raises(NoReplyError, match=r"'failing' gave no reply: status 502"):
        trainer.train()
    assert all(map(torch.equal, before, trainer.model.parameters()))


@pytest.mark.parametrize("num_players", [pytest.param(2, marks=pytest.mark.slow), 3])
def test_weights_move_and_metrics_are_logged(make_trainer, num_players):
    game = {"id": "kuhn_poker", "params": {"num_players": num_players}}
    trainer = make_trainer(games=[game], max_steps=2, logging_steps=1)
    before = weights(trainer)
    trainer.train()
    assert any(not torch.equal(before[k], v) for k, v in weights(trainer).items())
    logged = trainer.state.log_history[0]
    assert 0 < logged["arena/legal_rate"] <= 1
    for seat in range(num_players):
        name = f"kuhn_poker(num_players={num_players})"
        assert f"arena/{name}/player_{seat}/return" in logged


def test_mixed_games_keep_their_credit_apart(make_trainer):
    games = ["kuhn_poker", {"id": "kuhn_poker", "params": {"num_players": 3}}]
    trainer = make_trainer(games=games, episodes_per_step=16, credit="mars")
    generated(trainer)
    turns, advantage = trainer.last_turns, trainer.last_credit.advantage
    for game, seat in {*zip(turns.game.tolist(), turns.seat.tolist(), strict=True)}:
        own = (turns.game == game) & (turns.seat == seat)
        assert advantage[own].sum() == pytest.approx(0, abs=1e-9)


@pytest.mark.filterwarnings("ignore::arena_credit.FlatPoolWarning")
def test_a_start_that_comes_again_is_played_anew(make_trainer):
    """The same deal and the same weights, and other choices in every generation."""
    trainer = make_trainer(num_starts=1, num_generations=8)
    first, again = [], []
    for found in (first, again):
        generated(trainer)
        for episode in trainer.last_episodes:
            found.append((episode.actions[:2], [turn.reply for turn in episode.turns]))
    assert [deal for deal, _ in first] == [deal for deal, _ in again]
    assert [replies for _, replies in first] != [replies for _, replies in again]


def test_fewer_starts_than_a_batch_has_are_refused(make_trainer):
    """They would make a run of no step."""
    with pytest.raises(ValueError, match=r"num_starts of at least 2.* got 1"):
        make_trainer(num_starts=1, num_generations=2, episodes_per_step=4)


def test_language_model_opponents_without_options_sample_as_the_learner(
    make_trainer, model_folder, copy_of
):
    opponent = f"lm:{copy_of(model_folder, None)}"
    trainer = make_trainer(opponents=["self", opponent], temperature=0.7)
    frozen = trainer.games.opponents[opponent]
    assert (frozen.sampling.max_new_tokens, frozen.sampling.temperature) == (2, 0.7)
    generated(trainer)
    assert trainer.last_episodes[0].turns[1].policy == opponent


def test_the_gradient_on_a_bandit_is_that_of_the_expected_return(make_trainer):
    """Cosine above 0.9 to the gradient of P("bet"), which enumeration gives."""
    trainer = make_trainer(
        games=["test_bandit"], episodes_per_step=512, num_starts=256, penalty=0.0
    )
    trainer.current_gradient_accumulation_steps = 1
    batch = generated(trainer)
    parameters = list(trainer.model.parameters())
    loss = trainer._compute_loss(trainer.model, batch)
    sampled = torch.autograd.grad(loss, parameters)
    prompt = trainer._rows[0].prompt_ids
    answer = [*trainer.policy.chat.ids("bet"), trainer.policy.eos_ids[0]]
    logits = trainer.model(input_ids=torch.tensor([[*prompt, *answer]])).logits[0]
    logps = logits.log_softmax(dim=-1)[len(prompt) - 1 : -1]
    chance = logps.gather(1, torch.tensor(answer)[:, None]).sum().exp()
    exact = torch.autograd.grad(-chance, parameters)
    a, b = (torch.cat([g.ravel() for g in grads]) for grads in (sampled, exact))
    assert torch.cosine_similarity(a, b, dim=0) > 0.9


@pytest.mark.parametrize(
    ("credit", "extra"),
    [
        pytest.param("mars", {}, marks=pytest.mark.slow),
        ("rae", {"beta": 0.1, "sync_ref_model": True, "ref_model_sync_steps": 1}),
    ],
)
def test_a_resumed_run_ends_with_the_same_weights(
    make_trainer, tmp_path, credit, extra
):
    options = dict(
        credit=credit, max_steps=3, save_strategy="steps", save_steps=2, **extra
    )
    whole = make_trainer(output_dir=str(tmp_path / "whole"), **options)
    whole.train()
    checkpoint = tmp_path / "whole" / "checkpoint-2"
    resumed = make_trainer(output_dir=str(tmp_path / "resumed"), **options)
    resumed.train(resume_from_checkpoint=str(checkpoint))
    for name, tensor in weights(whole).items():
        assert torch.equal(tensor, weights(resumed)[name]), name
    if credit == "rae":
        assert json.loads((checkpoint / CREDIT_STATE).read_text())["state"]
        games = {"games": ["kuhn_poker", "test_bandit"]}
        other = make_trainer(output_dir=str(tmp_path / "other"), **options | games)
        with pytest.raises(
            ValueError, match=r"want a checkpoint of games .*test_bandit"
        ):
            other.train(resume_from_checkpoint=str(checkpoint))


def test_lora_trains_its_adapter_and_nothing_else(make_trainer):
    lora = LoraConfig(r=4, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM")
    trainer = make_trainer(peft_config=lora, max_steps=2, beta=0.1)
    before = weights(trainer)
    trainer.train()
    moved = {k for k, v in weights(trainer).items() if not torch.equal(before[k], v)}
    assert moved
    assert all("lora" in name for name in moved)


def test_steps_per_generation_and_accumulation_train_all_rows(
    make_trainer, monkeypatch
):
    """Every real row of a generation is in one micro-batch, dead ones fill up."""
    trainer = make_trainer(
        gradient_accumulation_steps=2, steps_per_generation=4, max_steps=2
    )
    seen, played = [], []
    compute, play = trainer._compute_loss, trainer.player.play

    def count_rows(model, inputs):
        seen.append(int(inputs["tool_mask"].any(dim=1).sum()))
        return compute(model, inputs)

    def count_turns(*inputs):
        found = play(*inputs)
        played.append(sum(len(episode.turns) for episode in found.episodes))
        return found

    monkeypatch.setattr(trainer, "_compute_loss", count_rows)
    monkeypatch.setattr(trainer.player, "play", count_turns)
    trainer.train()
    assert len(played) == 1  # one generation serves two optimizer steps
    assert len(seen) == 4
    assert sum(seen) == sum(played)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"credit": "marss"}, "did you mean 'mars'"),
        ({"credit_args": {"pol": 1}}, "pol"),
        ({"games": ["kuhn_pokr"]}, "did you mean 'kuhn_poker"),
        ({"games": [{"name": "kuhn_poker"}]}, "under the key id"),
        (
            {"games": [{"id": "kuhn_poker", "params": {"num_players": 9}}]},
            "from 2 to 4",
        ),
        ({"opponents": ["random", "random"]}, "that learns"),
        ({"opponents": ["self"]}, "2 seats"),
        ({"opponents": ["self", "ranom"]}, "did you mean 'random'"),
        ({"opponents": ["self", "mcts"]}, 'use the bot "ismcts"'),
        ({"reply_format": "answr"}, "did you mean 'answer'"),
        ({"history": "states"}, "did you mean 'state'"),
        ({"on_invalid": "raise"}, "unknown on_invalid .raise.; known are forfeit"),
        ({"repetition_penalty": 0.0}, "want repetition_penalty above 0, got 0.0"),
        ({"episodes_per_step": 0}, "episodes_per_step"),
        ({"num_starts": 0}, "num_starts"),
        ({"seed": -1}, "seed"),
        ({"generation_kwargs": {"top_k": 2}}, "does not support generation_kwargs"),
        ({"min_p": 1.1}, "want min_p from 0 to 1, got 1.1"),
        ({"cache_implementation": "static"}, "does not support cache_implementation"),
        ({"reward_weights": [1.0]}, "does not support reward_weights"),
        (
            {"num_iterations": 2, "save_strategy": "steps", "save_steps": 3},
            "save_steps",
        ),
        ({"part_weights": {"gme": 1.0}}, "part_weights"),
    ],
)
def test_bad_settings_are_refused_before_the_first_step(
    make_trainer, overrides, message
):
    with pytest.raises(ValueError, match=message):
        make_trainer(**overrides)


def test_the_module_lists_every_method_of_trl_that_is_overridden():
    own = vars(TurnGRPOTrainer)
    overridden = {
        name
        for name, value in own.items()
        if callable(value) and hasattr(GRPOTrainer, name)
    }
    overridden -= {"__init__"}
    lines = trainer_module.__doc__.splitlines()
    listed = {
        name
        for line in lines
        if "| overridden:" in line
        for name in line.split("|")[1].replace("`", "").replace(" ", "").split(",")
    }
    assert overridden == listed


def test_prepared_games_come_without_policies(model_folder, settings):
    args = TurnGRPOConfig(**settings)
    games = prepare_games(args)
    with pytest.raises(ValueError, match="want games, or policies and columns"):
        TurnGRPOTrainer(
            str(model_folder), args, games=games, policies={"x": RandomPolicy()}
        )


def test_a_game_that_is_listed_again_has_metrics_of_its_own_and_is_measured_once(
    settings,
):
    again = {"id": "kuhn_poker", "opponents": ["self", "random"]}
    args = TurnGRPOConfig(**settings | {"games": ["kuhn_poker", "nim", again]})
    games = prepare_games(args)
    assert games.names == ["kuhn_poker", "nim", "kuhn_poker #2"]
    assert different_games(games.plans) == list(games.plans[:2])
