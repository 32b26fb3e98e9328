"""TRL's own GRPOTrainer learns seat 0 of Kuhn poker against random play."""

import sys
from functools import partial

from trl import GRPOConfig, GRPOTrainer

from arena_trainers.lm import learner_of
from arena_wrappers.adapters.trl import episode_return, rollout_func, starts


def main(model: str, folder: str, **config: object) -> GRPOTrainer:
    play = rollout_func("kuhn_poker", partial(learner_of, max_new_tokens=16))
    args = GRPOConfig(folder, num_generations=8, report_to="none", **config)
    data = starts(range(2000))
    return GRPOTrainer(model, episode_return, args, data, rollout_func=play)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2]).train()
