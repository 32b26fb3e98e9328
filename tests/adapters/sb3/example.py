"""MaskablePPO learns against our policies, and comes back as a policy with exact NashConv."""

import tempfile

import gymnasium
from sb3_contrib import MaskablePPO
from sb3_contrib.common.maskable.evaluation import evaluate_policy
from stable_baselines3.common.env_util import make_vec_env

from arena_envs import make_game
from arena_eval import exploitability
from arena_wrappers import make_policy, play

GAME = "arena_envs:arena/TicTacToe-v0"  # module:id, so that processes import the module


def mean_return(model: MaskablePPO) -> float:
    env = gymnasium.make(GAME, opponents="random")
    return float(evaluate_policy(model, env, n_eval_episodes=300, warn=False)[0])


def main(num_steps: int = 20_000) -> tuple[float, float, float]:
    envs = make_vec_env(GAME, 8, seed=0)
    sizes = {"n_steps": 128, "batch_size": 256}
    model = MaskablePPO("MultiInputPolicy", envs, **sizes, seed=0, device="cpu")
    before = mean_return(model)
    after = mean_return(model.learn(num_steps))
    with tempfile.TemporaryDirectory() as folder:
        model.save(f"{folder}/agent.zip")
        players = [f"array:sb3:{folder}/agent.zip", "random"]  # also of `arena eval`
        episodes = play("tic_tac_toe", players, range(300))
    return before, after, sum(e.returns[0] for e in episodes) / len(episodes)


def nash_conv(num_steps: int) -> float:
    """Exact NashConv of an agent that learned both seats of Kuhn poker against CFR."""
    id = "arena_envs:arena/KuhnPoker-v0"
    envs = make_vec_env(id, 8, env_kwargs={"seat": "random", "opponents": "cfr"})
    sizes = {"n_steps": 128, "batch_size": 256, "ent_coef": 0.05}
    model = MaskablePPO("MultiInputPolicy", envs, **sizes, seed=0, device="cpu")
    with tempfile.TemporaryDirectory() as folder:
        model.learn(num_steps).save(f"{folder}/agent.zip")
        policy = make_policy(f"array:sb3:{folder}/agent.zip")
        return exploitability(policy, make_game("kuhn_poker")).nash_conv


if __name__ == "__main__":
    print("mean return before, after, and of the policy:", *main())
    print("NashConv after 0 and 10,000 turns:", nash_conv(0), nash_conv(10_000))
