"""Preferences weighted by scores: DPO's pairs are drawn by the cube of their difference in return.

After ScoreFlow's Score-DPO (https://arxiv.org/abs/2502.04306), which draws pairs in proportion to d(x, y) =
(x - y)³: a pair of 4 chips against -2 tells more than one of 1 against -1, and is less often luck. Here the
loss is plain DPO; Score-DPO also weights both sides of the loss by their scores.

    python notebooks/examples/score_preferences.py
    arena train --trainer dpo --data pairs.parquet --max_steps 20 --output-dir runs/scores
"""

import numpy as np

from arena_envs import make, make_game
from arena_trainers.data import origin_of, rows_to_dataset, select, write_rows
from arena_trainers.lm.chat import Chat
from arena_trainers.runs import tiny_tokenizer, words_of
from arena_wrappers import PromptOptions, PromptWrapper, play

SHORT = PromptOptions("bare", rules=False)


def prompted():
    """The environment, with short prompts for a tiny model."""
    return PromptWrapper(make("leduc_poker"), "bare", rules=False)


def drawn_pairs(episodes, num=400, seed=0):
    """Pairs of a better and a worse episode of one start and seat, and those that are drawn."""
    pairs = select("outcome_pairs", episodes, seed=seed).rows
    weights = np.array([pair.margin for pair in pairs]) ** 3
    rng = np.random.default_rng(seed)
    places = rng.choice(len(pairs), size=num, p=weights / weights.sum())
    return pairs, [pairs[place] for place in places]


def write(path, num_starts=50):
    """Plays, draws and writes; the mean difference of all pairs, and of those drawn."""
    episodes = play(prompted, "random", range(num_starts), num_samples=8)
    pairs, drawn = drawn_pairs(episodes)
    chat = Chat(tiny_tokenizer(words_of(make_game("leduc_poker"), SHORT)))
    write_rows(rows_to_dataset(drawn, chat), path, origin_of(drawn, episodes))
    return [float(np.mean([pair.margin for pair in rows])) for rows in (pairs, drawn)]


if __name__ == "__main__":
    print("mean difference of all pairs, and of those drawn:", *write("pairs.parquet"))
