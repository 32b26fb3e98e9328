"""Writes the weights after a warm start in some processes. Arguments: their number, a file."""

import os
import socket
import sys

import torch

import arena_envs
from arena_trainers.data import legal_play
from arena_trainers.lm import LMPolicy
from arena_trainers.offline.warm_start import warm_start
from arena_trainers.runs import tiny_model, tiny_tokenizer, words_of
from arena_wrappers import PromptOptions, PromptWrapper


def main(file):
    """Steps of 32 of 90 rows: epochs end with a smaller step, and three processes share unevenly."""
    torch.set_num_threads(1)
    options = PromptOptions("bare", rules=False)
    tokenizer = tiny_tokenizer(words_of(arena_envs.make_game("kuhn_poker"), options))
    model = tiny_model(tokenizer, hidden_size=16, num_layers=1, seed=1)
    policy = LMPolicy(model, tokenizer, prompt=options)
    env = arena_envs.make("kuhn_poker")
    examples = legal_play([lambda: PromptWrapper(env, "bare", rules=False)], 60, seed=0)
    warm_start(policy, examples[:90], num_steps=8, batch_size=32, seed=3)
    if os.environ.get("RANK", "0") == "0":
        torch.save(model.state_dict(), file)


def fork(num, file):
    """Runs `main` in several processes with the environment that torchrun gives."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free.getsockname()[1])}
    os.environ.update(place, WORLD_SIZE=str(num), LOCAL_WORLD_SIZE=str(num))
    processes = []
    for rank in map(str, range(num)):
        if (process := os.fork()) == 0:
            os.environ.update(RANK=rank, LOCAL_RANK=rank)
            main(file)
            sys.exit()
        processes.append(process)
    status = [os.waitpid(process, 0)[1] for process in processes]
    sys.exit(int(any(status)))


if __name__ == "__main__":
    if int(sys.argv[1]) > 1:
        fork(int(sys.argv[1]), sys.argv[2])
    main(sys.argv[2])
