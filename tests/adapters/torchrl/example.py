"""A masked random rollout in TorchRL; then PPO by its loss, and exact NashConv of the actor."""

import tempfile

import torch
from tensordict.nn import TensorDictModule
from torchrl.envs import (
    ActionMask,
    Compose,
    DTypeCastTransform,
    GymEnv,
    PettingZooWrapper,
    TransformedEnv,
)
from torchrl.envs.utils import check_env_specs
from torchrl.modules import (
    MLP,
    MaskedOneHotCategorical,
    ProbabilisticActor,
    ValueOperator,
)
from torchrl.objectives import ClipPPOLoss

import arena_envs
from arena_eval import exploitability
from arena_wrappers import make_policy
from arena_wrappers.adapters import OpenMasks


def main(num_steps: int = 200) -> torch.Tensor:
    """The return of player_0 in each episode."""
    game = arena_envs.make("kuhn_poker", observation="features")
    env = PettingZooWrapper(OpenMasks(game), use_mask=True, seed=0)
    check_env_specs(env)
    steps = env.rollout(num_steps, break_when_any_done=False)
    paid = steps["next", "player_0", "reward"].flatten().cumsum(0)  # [T]
    paid = paid[steps["next", "done"].flatten()]
    return torch.diff(paid, prepend=torch.zeros(1))


def nash_conv(num_batches: int) -> float:
    """Exact NashConv of an actor that learned both seats of Kuhn poker against CFR."""
    torch.manual_seed(0)
    seat = GymEnv("arena_envs:arena/KuhnPoker-v0", seat="random", opponents="cfr")
    as_bool = DTypeCastTransform(torch.int8, torch.bool, in_keys=["action_mask"])
    env = TransformedEnv(seat, Compose(ActionMask(), as_bool))
    env.set_seed(0)
    net = TensorDictModule(MLP(11, 2, num_cells=[64]), ["observation"], ["logits"])
    actor = ProbabilisticActor(
        net,
        in_keys={"logits": "logits", "mask": "action_mask"},
        distribution_class=MaskedOneHotCategorical,
        return_log_prob=True,
    )
    critic = ValueOperator(MLP(11, 1, num_cells=[64]), ["observation"])
    loss = ClipPPOLoss(actor, critic, entropy_coeff=0.05)
    optimizer = torch.optim.Adam(loss.parameters(), lr=3e-3)
    for _ in range(num_batches):
        with torch.no_grad():
            batch = env.rollout(256, actor, break_when_any_done=False)
            loss.value_estimator(batch)
        for _ in range(4):
            found = loss(batch)
            optimizer.zero_grad()
            (
                found["loss_objective"] + found["loss_entropy"] + found["loss_critic"]
            ).backward()
            optimizer.step()
    with tempfile.NamedTemporaryFile() as file:
        torch.save(actor, file.name)
        policy = make_policy(f"array:torchrl:{file.name}")
        return exploitability(policy, arena_envs.make_game("kuhn_poker")).nash_conv


if __name__ == "__main__":
    print("mean return of player_0:", float(main().mean()))
    print("NashConv after 0 and 40 batches:", nash_conv(0), nash_conv(40))
