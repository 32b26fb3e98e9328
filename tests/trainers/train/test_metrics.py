"""What is logged of play and credit, by hand."""

import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from arena_credit import TurnBatch, estimate
from arena_trainers.train import Clock, Meter, loss_weighted, metrics, weighted

BOTH = ("self", "self")
pytestmark = pytest.mark.filterwarnings("ignore::arena_credit.FlatPoolWarning")


def turn(seat, invalid=None):
    return SimpleNamespace(seat=seat, invalid=invalid)


def episode(returns, *turns):
    return SimpleNamespace(returns=returns, turns=turns, parent=None, lost=None)


EPISODES = [
    episode((3.0, -3.0), turn(0), turn(1), turn(0)),
    episode((1.0, -1.0), turn(0), turn(1, "illegal")),
    episode((0.0, 0.0), turn(0)),
]
TURNS = TurnBatch(
    reward=[0.0, 3.0, -3.0, 1.0, -1.0, 0.0],
    game=[0, 0, 0, 0, 0, 1],
    episode=[0, 0, 0, 1, 1, 2],
    seat=[0, 0, 1, 0, 1, 0],
    turn=[0, 1, 0, 0, 0, 0],
    group=[0, 0, 0, 0, 0, 1],
    num_tokens=[1, 2, 1, 1, 2, 3],
)


def logged(result, turns=TURNS, seats=(BOTH, BOTH, BOTH)):
    shares = [
        metrics.tally([e], [int(i == 2)], [seats[i]]) for i, e in enumerate(EPISODES)
    ]
    return metrics.metrics(shares, ["kuhn", "nim"], turns, result)


def test_advantages_that_rounding_leaves_count_as_zero():
    tiny = estimate("mars", TURNS)._replace(advantage=np.full(6, 1e-17))
    assert logged(tiny)["arena/kuhn/player_0/zero_advantages"] == 1


def test_metrics_by_hand():
    """Returns-to-go of seat 0: 3 3 1, mean 7/3; of seat 1: -3 -1, mean -2. Sums of absolute
    advantages over tokens: 2/3 + 2/3 · 2 + 1 + 4/3 + 1 · 2; game 1 has one turn."""
    found = logged(estimate("mars", TURNS))
    name = "arena/kuhn/player_0"
    assert found[f"{name}/return"] == 2.0
    assert found[f"{name}/advantage_mean"] == pytest.approx(0)
    assert found[f"{name}/advantage_std"] == pytest.approx(8**0.5 / 3)
    assert found[f"{name}/zero_advantages"] == 0
    assert found[f"{name}/pool_size"] == 3
    assert found[f"{name}/flat_pools"] == 0
    assert found["arena/kuhn/player_1/pool_size"] == 2
    assert found["arena/nim/player_0/pool_size"] == 1
    assert found["arena/nim/player_0/flat_pools"] == 1
    assert found["arena/nim/player_0/zero_advantages"] == 1
    assert "arena/nim/player_1/advantage_std" not in found  # it never moved
    assert found["arena/kuhn/gradient_share"] == 1
    assert found["arena/nim/gradient_share"] == 0
    assert found["arena/kuhn/episode_share"] == pytest.approx(2 / 3)
    assert found["arena/legal_rate"] == pytest.approx(5 / 6)
    assert found["arena/invalid/illegal"] == pytest.approx(1 / 6)
    assert found["arena/rows"] == 6
    assert found["arena/reply_tokens"] == pytest.approx(10 / 6)


def test_returns_are_split_by_opponent_and_count_where_the_seat_learns():
    """Episode 0 is against a snapshot, 1 self-play, and the game of 2 has a fixed bot."""
    seats = [("self@5", "self"), BOTH, ("random", "self")]
    found = logged(estimate("mars", TURNS), seats=seats)
    assert found["arena/kuhn/against/self@5/return"] == -3.0
    assert found["arena/nim/against/random/return"] == 0.0
    assert found["arena/kuhn/player_0/return"] == 1.0  # without episode 0
    assert found["arena/kuhn/player_1/return"] == -2.0
    assert found["arena/nim/player_0/return"] == 0.0  # it never learns
    assert found["arena/legal_rate"] == 2 / 3  # of the replies of seats that learn


def test_games_share_the_gradient_by_tokens_and_advantages():
    """The return itself as advantage: game 0 has 3 3 | -3 | 1 | -1 with 1 2 | 1 | 1 | 2
    tokens, 3 + 6 + 3 + 1 + 2 = 15; game 1 has 5 with 3 tokens."""
    reward = np.append(TURNS.reward[:-1], 5.0)
    columns = {
        k: getattr(TURNS, k)
        for k in ("game", "episode", "seat", "turn", "group", "num_tokens")
    }
    turns = TurnBatch(reward, **columns)
    found = logged(estimate("rae", turns, decay=1.0), turns)
    assert found["arena/kuhn/gradient_share"] == pytest.approx(15 / 30)
    assert found["arena/nim/gradient_share"] == pytest.approx(15 / 30)


def test_pools_by_fewer_columns_are_those_of_all_their_seats_and_games():
    found = logged(estimate("mars", TURNS, pool=("game",)))
    assert found["arena/kuhn/player_0/pool_size"] == 5
    assert found["arena/kuhn/player_1/pool_size"] == 5
    found = logged(estimate("mars", TURNS, pool=()))
    assert found["arena/nim/player_0/pool_size"] == 6


def test_pools_of_one_seat_are_averaged():
    """By episode: seat 0 of game 0 has a pool of two equal returns, and one of one."""
    found = logged(estimate("mars", TURNS, pool=("game", "seat", "episode")))
    assert found["arena/kuhn/player_0/pool_size"] == 1.5
    assert found["arena/kuhn/player_0/flat_pools"] == 1


def test_advantages_of_tokens_count_token_by_token():
    """One row of two tokens at 1 and -1: its mean is 0, its part of the gradient is not."""
    result = estimate("mars", TURNS)
    tokens = np.zeros(10)
    tokens[1:3] = 1.0, -1.0
    tokens[7:10] = 2.0
    found = logged(result._replace(advantage=tokens))
    assert found["arena/kuhn/gradient_share"] == pytest.approx(2 / 8)
    assert found["arena/nim/gradient_share"] == pytest.approx(6 / 8)
    assert found["arena/kuhn/player_0/advantage_mean"] == 0
    assert found["arena/nim/player_0/advantage_mean"] == 2


def test_where_nothing_is_credited_no_game_has_a_share():
    result = estimate("mars", TURNS)
    found = logged(result._replace(advantage=np.zeros(6)))
    assert found["arena/kuhn/gradient_share"] == found["arena/nim/gradient_share"] == 0


def test_the_table_explains_every_metric_and_no_other():
    explained = set(re.findall(r"^\| `([^`]+)`", metrics.__doc__, flags=re.M))
    tokens = {"logprob": np.full(10, -1.0), "entropy": np.ones(10)}
    credit = estimate("control_variates", replace(TURNS, tokens=tokens))
    found = {
        re.sub("player_[01]", "player_<i>", re.sub("kuhn|nim", "<game>", name))
        for name in logged(credit, seats=[("self", "x"), BOTH, BOTH])
    }
    found = {name.replace("against/x", "against/<opponent>") for name in found}
    found = {re.sub("invalid/.*", "invalid/<reason>", name) for name in found}
    of_critics = {"arena/critic_error", "arena/illegal_mass"}
    of_the_loss = {"arena/rows_run", "arena/rows_dropped", "arena/moved_weights"}
    of_the_loss |= {"arena/sampling_gap/mean", "arena/sampling_gap/max"}
    of_suppliers = {"arena/<game>/player_<i>/reward/<part>"}
    of_the_filter = {
        "arena/dropped_groups",
        "arena/trained_trajectories",
        "arena/left_out_invalid",
        "arena/compared_turns",
    }
    of_the_clock = {
        re.sub("time/.*", "time/<part>", name) for name in Meter(Clock()).read()
    }
    given = ("/learner/", "/asynchronous/")
    of_the_loss |= {n for n in explained if any(part in n for part in given)}
    of_the_loss |= {"arena/loss/<term>", "arena/reward/<part>"}
    of_the_loss |= {"arena/memory/bytes_per_token", "arena/memory/kept_tokens"}
    others = of_critics | of_the_loss | of_the_clock | of_the_filter | of_suppliers
    assert found == explained - others
    assert of_the_clock < explained


def test_the_share_is_of_the_advantages_that_are_trained():
    """Two games with the same rewards and replies of 2 and 200 tokens: by tokens the second
    has 200 / 202, by turns (MARS, equation 3) and by rows each has half."""
    same = {"seat": [0] * 4, "turn": [0] * 4}
    turns = TurnBatch(
        reward=[0.0, 2.0, 0.0, 2.0],
        game=[0, 0, 1, 1],
        episode=[0, 1, 2, 3],
        group=[0, 0, 1, 1],
        num_tokens=[2, 2, 200, 200],
        **same,
    )
    advantage = estimate("mars", turns).advantage
    by_tokens = metrics.gradient_shares(turns, advantage, 2)
    assert by_tokens == pytest.approx([2 / 202, 200 / 202])
    by_turns = metrics.gradient_shares(turns, weighted(advantage, turns), 2)
    assert by_turns == pytest.approx([0.5, 0.5])
    by_rows = loss_weighted(advantage, turns, "grpo", "turn")
    assert metrics.gradient_shares(turns, by_rows, 2) == pytest.approx([0.5, 0.5])


@pytest.mark.parametrize(
    ("loss_type", "weighting", "credit"),
    [
        ("dapo", "token", "mars"),
        ("dapo", "turn", "mars"),
        ("cispo", "turn", "aepo"),
        ("grpo", "token", "mars"),
        ("grpo", "token", "aepo"),
        ("sapo", "token", "mars"),
        ("bnpo", "token", "mars"),
        ("dr_grpo", "token", "aepo"),
    ],
)
def test_the_share_is_that_of_the_gradient_of_the_loss(
    make_trainer, monkeypatch, generated, loss_type, weighting, credit
):
    """The absolute gradient of TRL's loss, by the log-probability of each token."""
    three = {"id": "kuhn_poker", "params": {"num_players": 3}}
    trainer = make_trainer(
        games=["kuhn_poker", three],
        episodes_per_step=16,
        credit=credit,
        loss_type=loss_type,
        weighting=weighting,
        max_completion_length=3,
        temperature=2.0,
    )
    trainer.current_gradient_accumulation_steps = 1
    batch = generated(trainer)
    leaf = torch.full(batch["completion_ids"].shape, -0.5, requires_grad=True)
    monkeypatch.setattr(
        trainer,
        "_get_per_token_logps_and_entropies",
        lambda *_, **__: (leaf, torch.zeros_like(leaf), None),
    )
    loss = trainer._compute_loss(trainer.model, batch)
    (gradient,) = torch.autograd.grad(loss, leaf)
    turns = trainer.last_turns
    size = gradient.abs().sum(1).numpy()[: len(turns.game)]
    wanted = np.bincount(turns.game, size) / size.sum()
    assert len(set(turns.num_tokens.tolist())) > 1
    for plan, share in zip(trainer.games.plans, wanted, strict=True):
        logged = trainer._metrics["train"][f"arena/{plan.name}/gradient_share"][-1]
        assert logged == pytest.approx(share, rel=1e-5)
