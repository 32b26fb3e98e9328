"""Numeric agents as policies: their probabilities, exact NashConv, bad input."""

import re
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from arena_envs import make_game
from arena_envs.solvers import uniform_table
from arena_eval.exploit import exploitability, tabular
from arena_wrappers import ArrayPolicy, make_policy, play


def by_mask(features, masks):
    return masks / masks.sum(1, keepdims=True)


def test_nash_conv_is_that_of_the_action_probabilities() -> None:
    found = exploitability(ArrayPolicy(by_mask), make_game("kuhn_poker"))
    assert found.nash_conv == pytest.approx(11 / 12)
    assert found.illegal_mass == 0


def test_features_are_those_of_the_seat_to_move() -> None:
    seen = []

    def keeps(features, masks):
        seen.extend(features.tolist())
        return by_mask(features, masks)

    game = make_game("leduc_poker")
    (episode,) = play("leduc_poker", ArrayPolicy(keeps), [3])
    wanted = [game.features(t.state, t.seat).tolist() for t in episode.turns]
    assert seen == wanted


def test_draws_follow_the_probabilities_and_illegal_ones_are_invalid() -> None:
    """Tic-tac-toe's first square at probability 1/4, whether it is free or not."""
    policy = ArrayPolicy(
        lambda _, masks: np.tile([0.25] + [0.75 / 8] * 8, (len(masks), 1))
    )
    episodes = play("tic_tac_toe", policy, range(400))
    first = [episode.turns[0].action == 0 for episode in episodes]
    assert abs(np.mean(first) - 0.25) < 0.08
    assert any(episode.forfeited_by is not None for episode in episodes)
    game = make_game("tic_tac_toe")
    state = game.apply(game.initial_state(), 0)
    turn = next(t for e in episodes for t in e.turns if t.state == state)
    asked = SimpleNamespace(game=game, state=state, seat=turn.seat)
    ((shares, illegal),) = policy.action_probs([asked])
    assert illegal == pytest.approx(0.25)
    assert shares == pytest.approx([1 / 8] * 8)


@pytest.mark.parametrize(
    ("probs", "game", "reason"),
    [
        (
            lambda f, m: m,
            "kuhn_poker",
            r"want probabilities of shape \(1, 2\) that sum",
        ),
        (lambda f, m: [1.0], "kuhn_poker", r"got shape \(1,\)"),
        (lambda f, m: [[1.2, -0.2]], "kuhn_poker", "none below 0, got .*-0.2"),
        (lambda f, m: [[0.5, 0.4]], "kuhn_poker", "that sum to 1, none below 0"),
        (by_mask, "bargaining", "plays one game with numbered actions"),
    ],
)
def test_what_are_no_probabilities_is_refused(probs, game, reason) -> None:
    with pytest.raises(ValueError, match=reason):
        play(game, ArrayPolicy(probs), [0], on_error="raise")


@pytest.mark.parametrize("spec", ["array:sb4:model.zip", "array:sb3"])
def test_an_unknown_format_is_refused(spec) -> None:
    with pytest.raises(ValueError, match="want array:FORMAT:PATH"):
        make_policy(spec)


class Agent(torch.nn.Module):
    """The networks of CleanRL's `ppo.py`, or of its `dqn.py`."""

    def __init__(self, num_actions: int, **parts: type[torch.nn.Module]) -> None:
        super().__init__()
        for name, bend in parts.items():
            layers = torch.nn.Linear(11, 8), torch.nn.Linear(8, num_actions)
            setattr(self, name, torch.nn.Sequential(layers[0], bend(), layers[1]))


def nash_conv_of(agent: Agent, path) -> float:
    torch.save(agent.state_dict(), path)
    policy = make_policy(f"array:cleanrl:{path}")
    return exploitability(policy, make_game("kuhn_poker")).nash_conv


def test_an_actor_of_cleanrl_is_a_policy_with_its_probabilities(tmp_path) -> None:
    torch.manual_seed(0)
    agent = Agent(2, critic=torch.nn.Tanh, actor=torch.nn.Tanh)

    def probs(features, masks):
        return agent.actor(torch.as_tensor(features)).softmax(1).detach()

    own = exploitability(ArrayPolicy(probs), make_game("kuhn_poker")).nash_conv
    assert nash_conv_of(agent, tmp_path / "ppo") == pytest.approx(own)


def test_the_nash_conv_of_a_uniform_actor_of_cleanrl_is_known(tmp_path) -> None:
    agent = Agent(2, actor=torch.nn.Tanh)
    (
        torch.nn.init.zeros_(agent.actor[2].weight),
        torch.nn.init.zeros_(agent.actor[2].bias),
    )
    assert nash_conv_of(agent, tmp_path / "ppo") == pytest.approx(11 / 12)


def test_a_q_network_of_cleanrl_plays_greedily(tmp_path) -> None:
    """Both seats always bet: each best response wins 1/3 by folding the jack alone."""
    agent = Agent(2, network=torch.nn.ReLU)
    torch.nn.init.zeros_(agent.network[2].weight)
    agent.network[2].bias.data = torch.tensor([0.0, 1.0])
    assert nash_conv_of(agent, tmp_path / "dqn") == pytest.approx(2 / 3)


@pytest.mark.parametrize("saved", [{"weight": torch.zeros(2)}, {0: torch.zeros(2)}])
def test_weights_of_another_network_are_refused(tmp_path, saved) -> None:
    torch.save(saved, tmp_path / "net")
    wanted = "want the weights of ppo.py or dqn.py of CleanRL.*got "
    with pytest.raises(ValueError, match=wanted + re.escape(str([*saved]))):
        make_policy(f"array:cleanrl:{tmp_path / 'net'}")


@pytest.mark.parametrize("content", [b"", b"hello", b"PK\x03\x04 cut off"])
def test_a_damaged_file_is_refused_with_its_path(content, tmp_path) -> None:
    path = tmp_path / "net"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=f"want a file that cleanrl saved, got {path}"):
        make_policy(f"array:cleanrl:{path}")


def test_an_agent_saved_whole_is_refused_with_its_path(tmp_path) -> None:
    torch.save(Agent(2, actor=torch.nn.Tanh), tmp_path / "net")
    with pytest.raises(
        ValueError, match=r"want a file that cleanrl saved, got .*net: "
    ):
        make_policy(f"array:cleanrl:{tmp_path / 'net'}")


def test_a_network_without_biases_is_refused_before_play(tmp_path) -> None:
    weights = {"actor.0.weight": torch.ones(8, 11), "actor.2.weight": torch.ones(2, 8)}
    torch.save(weights, tmp_path / "net")
    with pytest.raises(ValueError, match="linear layers with biases"):
        make_policy(f"array:cleanrl:{tmp_path / 'net'}")


def test_layers_that_do_not_fit_each_other_are_refused_before_play(tmp_path) -> None:
    agent = Agent(2, actor=torch.nn.Tanh)
    narrow = {"actor.2.weight": torch.ones(2, 7)}
    torch.save(agent.state_dict() | narrow, tmp_path / "net")
    with pytest.raises(ValueError, match=r"each as wide as the one before, got .*7"):
        make_policy(f"array:cleanrl:{tmp_path / 'net'}")


def test_a_network_of_another_game_is_refused_before_play(tmp_path) -> None:
    torch.save(Agent(2, actor=torch.nn.Tanh).state_dict(), tmp_path / "net")
    policy = make_policy(f"array:cleanrl:{tmp_path / 'net'}")
    with pytest.raises(
        ValueError, match=r"wants .* \(11, 2\), got \(27, 9\) of TicTac"
    ):
        play("tic_tac_toe", [policy, "random"], [0])


def test_the_uniform_table_is_found_again() -> None:
    game = make_game("kuhn_poker")
    table, _ = tabular(ArrayPolicy(by_mask), game)
    assert {k: list(v) for k, v in uniform_table(game).items()} == table
