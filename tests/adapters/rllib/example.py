"""One masked policy learns tic-tac-toe in self-play with PPO, in about 80 CPU seconds."""

import ray
from ray.rllib.algorithms.ppo import PPOConfig

from arena_wrappers.adapters.rllib import RLlibEnv, masked_modules, seat_policies

SEATS = seat_policies("main", "main")
CONFIG = (
    PPOConfig()
    .environment(RLlibEnv, env_config={"game": "tic_tac_toe"})
    .env_runners(num_env_runners=0, num_envs_per_env_runner=8)
    .training(train_batch_size_per_learner=2000, minibatch_size=250, num_epochs=8)
    .training(lr=1e-3, gamma=1.0, entropy_coeff=0.01)
    .multi_agent(**SEATS)
    .rl_module(rl_module_spec=masked_modules(SEATS, head_fcnet_hiddens=[64, 64]))
    .debugging(seed=0)
)

if __name__ == "__main__":
    ray.init(num_cpus=1, include_dashboard=False)
    algorithm = CONFIG.build_algo()
    for _ in range(10):
        print(algorithm.train()["num_env_steps_sampled_lifetime"])
