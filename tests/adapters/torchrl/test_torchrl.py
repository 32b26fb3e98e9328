"""TorchRL plays AEC environments through `OpenMasks`."""

import runpy
import warnings
from pathlib import Path

import pytest

import arena_envs
from arena_eval import exploitability
from arena_wrappers import ArrayPolicy, make_policy

pytest.importorskip("torchrl", reason="torchrl is not installed: make adapters")

import torch
from tensordict.nn import TensorDictModule
from torchrl.data import OneHot
from torchrl.envs import ActionMask, GymEnv, PettingZooWrapper, TransformedEnv
from torchrl.envs.utils import check_env_specs
from torchrl.modules import (
    MLP,
    MaskedCategorical,
    MaskedOneHotCategorical,
    ProbabilisticActor,
    QValueActor,
)

from arena_wrappers.adapters import OpenMasks

pytestmark = pytest.mark.filterwarnings(
    "ignore::UserWarning", "ignore::DeprecationWarning"
)
all_games = pytest.mark.parametrize("id", [i.id for i in arena_envs.game_infos()])


@all_games
def test_their_check_accepts_every_game(id: str) -> None:
    env = arena_envs.make(id, observation="features")
    if env.game.num_actions is None:
        pytest.skip("its actions are texts")
    check_env_specs(PettingZooWrapper(OpenMasks(env), use_mask=True, seed=0))


def check_often(env: PettingZooWrapper) -> None:
    for _ in range(20):
        check_env_specs(env)


def test_without_the_view_sampling_fails_at_a_mask_of_zeros() -> None:
    """If this test fails, TorchRL needs `OpenMasks` no longer."""
    env = arena_envs.make("kuhn_poker", observation="features")
    with pytest.raises(RuntimeError, match="probabilit"):
        check_often(PettingZooWrapper(env, use_mask=True))


def test_a_rollout_pays_what_random_play_pays(record_property) -> None:
    """The mean return of player_0 under uniform play is 1/8."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        returns = runpy.run_path(str(Path(__file__).with_name("example.py")))["main"](
            3000
        )
    record_property("learned", f"random play, {len(returns)} episodes")
    assert set(returns.tolist()) <= {-2.0, -1.0, 1.0, 2.0}
    assert abs(float(returns.mean()) - 0.125) < 5 * 1.5 / len(returns) ** 0.5


def test_one_seat_plays_by_its_gymnasium_id_without_forfeits() -> None:
    """TorchRL tries the argument `frameskip` first. Random play of player_0 pays 1/8."""
    seat = GymEnv("arena_envs:arena/KuhnPoker-v0", opponents="random")
    env = TransformedEnv(seat, ActionMask())
    check_env_specs(env)
    env.set_seed(0)
    steps = env.rollout(2000, break_when_any_done=False)
    num_episodes = int(steps["next", "done"].sum())
    mean = float(steps["next", "reward"].sum()) / num_episodes
    assert abs(mean - 0.125) < 5 * 1.5 / num_episodes**0.5


def test_the_nash_conv_of_a_saved_actor_falls(drop_in_nash_conv) -> None:
    assert drop_in_nash_conv(20) > 0.3


@pytest.mark.parametrize("drawn", [MaskedCategorical, MaskedOneHotCategorical, None])
def test_a_saved_actor_is_a_policy_with_its_probabilities(drawn, tmp_path) -> None:
    """Without a distribution, a Q-value actor: it plays its best legal action."""
    torch.manual_seed(1)
    game, net = arena_envs.make_game("leduc_poker"), MLP(51, 3, num_cells=[8])

    def probs(features, masks):
        out = net(torch.as_tensor(features))
        out = out.masked_fill(torch.as_tensor(masks) == 0, -1e9).detach()
        return out.softmax(1) if drawn else torch.eye(3)[out.argmax(1)]

    if drawn:
        keys = {"logits": "logits", "mask": "action_mask"}
        logits = TensorDictModule(net, ["observation"], ["logits"])
        actor = ProbabilisticActor(logits, in_keys=keys, distribution_class=drawn)
    else:
        actor = QValueActor(net, spec=OneHot(3), action_mask_key="action_mask")
    torch.save(actor, tmp_path / "actor.pt")
    saved = exploitability(make_policy(f"array:torchrl:{tmp_path / 'actor.pt'}"), game)
    assert saved.illegal_mass == pytest.approx(0, abs=1e-6)
    own = exploitability(ArrayPolicy(probs), game)
    assert saved.nash_conv == pytest.approx(own.nash_conv, abs=1e-4)
