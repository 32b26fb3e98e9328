"""Trains two steps per setting in two processes, each of which writes what it computed.

Under torchrun it is one of them. Without torchrun it forks after its imports, which take most
of the time. Arguments: folder of the model, folder for the results, further settings as JSON: by name.
"""

import hashlib
import json
import os
import socket
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import AutoTokenizer

from arena_trainers import TurnGRPOConfig, TurnGRPOTrainer
from arena_trainers.runs import training_groups
from arena_trainers.train import RewardColumn


class Recorder(TurnGRPOTrainer):
    """Keeps the credit of the first generation batch, and this process's rows."""

    first = None
    all_seats: Any = ()

    def _generate_and_score_completions(self, inputs):
        batch = super()._generate_and_score_completions(inputs)
        self.all_seats = [*self.all_seats, self.last_played.seats]
        if self.first is None:
            turns, credit = self.last_turns, self.last_credit
            live = (batch["tool_mask"] * batch["completion_mask"]).bool()
            self.first = {
                "advantage": credit.advantage.tolist(),
                "episode": turns.episode.tolist(),
                "seat": turns.seat.tolist(),
                "turn": turns.turn.tolist(),
                "replies": [[t.reply for t in e.turns] for e in self.last_episodes],
                "unselected": [True] * len(turns.turn)
                if turns.unselected is None
                else turns.unselected.tolist(),
                "num_tokens": turns.num_tokens.tolist(),
                "own": batch["advantages"][live].tolist(),
                "num_rows": len(batch["advantages"]),
                "groups": [
                    [*described(episode), [advantage(entry) for entry in credit]]
                    for episode, credit in training_groups(self, 2)
                ],
            }
        return batch


def described(episode):
    """Which episode it is, and what it branched from."""
    replies = [turn.reply for turn in episode.turns]
    return episode.seed, episode.sample, episode.parent, replies


def advantage(entry):
    """The advantages of a turn times its weight; None if it is not trained."""
    if entry is None:
        return None
    return (np.array(entry.advantage) * entry.weight).tolist()


def critic_values(trainer):
    """Its values of the last batch, which it was fitted to in between."""
    return trainer.last_turns.value.tolist()


def judge(episode, turn, state):
    """A label that differs between episodes, turns and states."""
    return (episode.sample + turn.index - sum(state.cards)) % 3 - 1


def main():
    torch.set_num_threads(1)
    model, out = Path(sys.argv[1]), Path(sys.argv[2])
    for name, settings in json.loads(sys.argv[3]).items():
        train(model, out / name, settings)


def columns_of(model, args):
    """What supplies columns: a function for `adca`, the reward model beside the model."""
    if args.credit == "adca":
        return {"rewards.judge": judge}
    if args.credit == "counterfactual" and args.critic is None:
        names = ("value", "action_value")
        return dict.fromkeys(names, RewardColumn(f"{model}-reward"))
    return None


def train(model, out, settings):
    args = TurnGRPOConfig(
        output_dir=str(out / "run"),
        rules=False,
        reply_format="bare",
        max_completion_length=2,
        max_steps=2,
        episodes_per_step=16,
        num_generations=4,
        learning_rate=1e-3,
        **settings,
        bf16=False,
        gradient_checkpointing=False,
        use_cpu=True,
        report_to="none",
        disable_tqdm=True,
        save_strategy="no",
        logging_steps=1,
        seed=3,
    )
    trainer = Recorder(
        str(model),
        args,
        processing_class=AutoTokenizer.from_pretrained(model),
        columns=columns_of(model, args),
    )
    trainer.train()
    state = trainer.accelerator.unwrap_model(trainer.model).state_dict()
    matchmaker = trainer.games.matchmaker
    digest = hashlib.sha256()
    for name in sorted(state):
        digest.update(state[name].numpy().tobytes())
    record = {
        **trainer.first,
        "weights": digest.hexdigest(),
        "adapters": [
            x
            for n in sorted(state)
            if "lora_" in n
            for x in state[n].flatten().tolist()
        ],
        "seats": trainer.all_seats,
        "matches": matchmaker and matchmaker.state_dict(),
        "critic": None if trainer.credit.critic is None else critic_values(trainer),
        "grad_norm": trainer.state.log_history[0]["grad_norm"],
        "processes": args.world_size,
    }
    (out / f"rank{args.process_index}.json").write_text(json.dumps(record))


def fork_two():
    """Runs `main` in two processes with the environment that torchrun gives."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    os.environ.update(place, WORLD_SIZE="2", LOCAL_WORLD_SIZE="2")
    processes = []
    for rank in ("0", "1"):
        if (process := os.fork()) == 0:
            os.environ.update(RANK=rank, LOCAL_RANK=rank)
            main()
            sys.exit()
        processes.append(process)
    status = [os.waitpid(process, 0)[1] for process in processes]
    sys.exit(int(any(status)))


if __name__ == "__main__":
    main() if "RANK" in os.environ else fork_two()
