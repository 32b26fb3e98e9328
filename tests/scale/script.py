"""Trains under `accelerate launch`; each process writes what it saw, the first its weights.

Arguments: kind of sharding, folder of the models, folder for the results, and the runs as
JSON: the settings of each run by its name; `{tied}` is the folder of that model. `job` is a run
of `arena train`.
"""

import faulthandler
import json
import os
import runpy
import sys
from pathlib import Path

SHARDING, MODEL, OUT, RUNS = sys.argv[1:]
runpy.run_path(str(Path(__file__).with_name("on_cpu.py")))["prepare"](SHARDING)

import torch  # noqa: E402 - the line above comes first
from transformers import AutoTokenizer  # noqa: E402

from arena_trainers import TurnGRPOConfig, TurnGRPOTrainer  # noqa: E402
from arena_trainers.engines import weights  # noqa: E402
from arena_trainers.lm.backends.server import ServerError  # noqa: E402


class Recorder(TurnGRPOTrainer):
    """Notes the games and the numbers of turns of this process, and its passes."""

    def __init__(self, *args, **kwargs):
        self.games_played, self.num_turns, self.num_passes = [], [], []
        super().__init__(*args, **kwargs)
        score = self.forward._score_chunk

        def counted(*chunk):
            if self.num_passes:
                self.num_passes[-1] += 1
            return score(*chunk)

        self.forward._score_chunk = counted  # type: ignore[method-assign]

    def _generate_and_score_completions(self, inputs):
        output = super()._generate_and_score_completions(inputs)
        played = self.last_played
        self.games_played.append([start["game"] for start in played.starts])
        self.num_turns.append(sum(len(e.turns) for e in played.episodes))
        return output

    def training_step(self, *args, **kwargs):
        self.num_passes.append(0)
        return super().training_step(*args, **kwargs)


def make(out, lora=False, tied=True, **settings):
    model = Path(MODEL) / ("tied" if tied else "untied")
    base = {
        "output_dir": str(out),
        "games": ["kuhn_poker", "tic_tac_toe"],
        "rules": False,
        "reply_format": "bare",
        "max_completion_length": 3,
        "on_invalid": "random",
        "max_steps": 2,
        "episodes_per_step": 8,
        "num_generations": 4,
        "learning_rate": 1e-2,
        "bf16": False,
        "gradient_checkpointing": False,
        "use_cpu": not SHARDING.startswith("zero"),
        "report_to": "none",
        "disable_tqdm": True,
        "save_strategy": "no",
        "logging_steps": 1,
        "seed": 5,
        "model_init_kwargs": {"dtype": "float32"},
    }
    peft = None
    if lora:
        from peft import LoraConfig

        peft = LoraConfig(r=4, target_modules="all-linear", task_type="CAUSAL_LM")
    return Recorder(
        str(model),
        TurnGRPOConfig(**{**base, **settings}),
        processing_class=AutoTokenizer.from_pretrained(model),
        peft_config=peft,
    )


def train(name, resume=False, **settings):
    """Trains, and writes the record and the model; with `resume` again from step 1."""
    out = Path(OUT) / name
    if resume:
        settings["save_strategy"], settings["save_steps"] = "steps", 1
    trainer = make(out, **settings)
    trainer.train()
    write(out, trainer)
    if resume:
        trainer = make(out, **settings)
        trainer.train(resume_from_checkpoint=str(out / "checkpoint-1"))
        write(out / "resumed", trainer)


def train_without_folder(name, **settings):
    """Trains with a server that finds no weights; writes the error of each process."""
    weights.write_weights = lambda *weights: None
    out = Path(OUT) / name
    trainer = make(out, **settings)
    try:
        trainer.train()
    except ServerError as error:
        out.mkdir(parents=True, exist_ok=True)
        (out / f"rank{trainer.args.process_index}.txt").write_text(str(error))


def write(out, trainer):
    out.mkdir(parents=True, exist_ok=True)
    wrapped = trainer.model_wrapped
    parameters = list(trainer.model.parameters())
    record = {
        "processes": trainer.args.world_size,
        "wrapper": [kind.__name__ for kind in type(wrapped).__mro__],
        "parameters": sorted({type(p).__name__ for p in parameters}),
        "local": sum(local_size(p) for p in parameters),
        "games": trainer.games_played,
        "num_turns": trainer.num_turns,
        "num_passes": trainer.num_passes,
        "log": trainer.state.log_history,
    }
    zero = getattr(wrapped, "zero_optimization_stage", None)
    record["zero"] = zero() if zero else None
    trainer.save_model(str(out / "model"))
    (out / f"rank{trainer.args.process_index}.json").write_text(json.dumps(record))


def local_size(parameter):
    """Numbers of a parameter that this process holds."""
    if hasattr(parameter, "ds_tensor"):
        return parameter.ds_tensor.numel()
    if hasattr(parameter, "to_local"):
        return parameter.to_local().numel()
    return parameter.numel()


def run_job(folder):
    """`arena train` with exact evaluation in training and after it."""
    from arena_trainers.cli.main import main
    from arena_trainers.runs.mappings import typed_words

    options = {
        "model": Path(MODEL) / "tied",
        "output_dir": folder,
        "games": "kuhn_poker",
        "warm_start_steps": 0,
        "max_steps": 2,
        "evaluate_every": 1,
        "logging_steps": 1,
        "episodes_per_step": 16,
        "num_generations": 4,
        "eval_episodes": 20,
        "beta": 0.1,
        "bf16": "false",
        "use_cpu": "false" if SHARDING.startswith("zero") else "true",
    }
    given = [word for pair in options.items() for word in typed_words(*pair)]
    sys.argv = ["arena", "train", *given]
    main()


if __name__ == "__main__":
    torch.set_num_threads(1)
    # processes that wait for each other say where
    faulthandler.dump_traceback_later(int(os.environ.get("STUCK", "500")), exit=True)
    runs = json.loads(RUNS.replace("{tied}", str(Path(MODEL) / "tied")))
    for name, settings in runs.items():
        if name == "job":
            run_job(Path(OUT) / name)
        elif settings.pop("without_folder", False):
            train_without_folder(name, **settings)
        else:
            train(name, **settings)
