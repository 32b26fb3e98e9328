"""CPU time of the host in a training step: all that Python does while a model would run elsewhere.

An engine answers at once with legal replies of a length (filler and an answer), and the model has one
layer of eight numbers. What is left is ours: rules, prompts, tokens, parsing, records, credit, rows,
masks, metrics. A moment belongs to the innermost part:

| part | what it is |
|---|---|
| environment | the rules, `GameEnv` |
| prompt | messages, texts of legal actions, chat template |
| tokenise | text to tokens, and back |
| parse | a reply to an action |
| records | turns as records, and as turn batch |
| credit | the estimator |
| rows | training rows, their tensors, which of them are equal, how they are packed |
| masks | inputs of a forward pass: ids, positions, attention mask |
| metrics | of play and rows |
| loss | TRL's loss and the optimizer, on the model of one layer |
| rest | bookkeeping of play, loop |

With `--before` another checkout takes turns with this one, a step each, so that other load on the
machine slows both alike. The ratio is that of the turns per CPU second.

    git worktree add ../before COMMIT
    python benchmarks/host_speed.py hanabi --history transcript --before ../before
    python benchmarks/host_speed.py hanabi --sizes 64 512 4096
"""

import argparse
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from step_speed import HERE, Parts

TRAIN = "arena_trainers.train"
PLACES = {
    "environment": [
        *(f"arena_envs.env:GameEnv.{name}" for name in ("play", "reset", "clone")),
    ],
    "prompt": [
        "arena_wrappers.play.wrapper:PromptWrapper.observe",
        "arena_wrappers.play.wrapper:PromptWrapper.legal_texts",
        "arena_trainers.lm.chat:Chat.prompt_text",
        "arena_trainers.lm.chat:Chat._render",
        "arena_trainers.lm.chat:Chat._after_reply",
    ],
    "tokenise": [
        *(
            f"arena_trainers.lm.chat:Chat.{name}"
            for name in ("ids", "ids_of", "decoded")
        ),
        "arena_trainers.lm.policy:LMPolicy._decode",
    ],
    "parse": [
        "arena_wrappers.prompts.options:PromptOptions.parse",
        "arena_trainers.lm.chat:Chat.readable_reply",
    ],
    "records": [
        f"{TRAIN}.advantages:BatchCredit.records",
        f"{TRAIN}.advantages:turn_batch",
        "arena_wrappers.play.episodes:LiveEpisode.record",
        "arena_wrappers.play.episodes:turn_of",
    ],
    "credit": [f"{TRAIN}.advantages:estimate_credit"],
    "rows": [
        f"{TRAIN}.trainer:TurnGRPOTrainer._training_rows",
        f"{TRAIN}.trainer:row_tensors",
        f"{TRAIN}.score.forward:distinct_rows",
        f"{TRAIN}.score.forward:packed_rows",
    ],
    "masks": [f"{TRAIN}.score.forward:model_inputs"],
    "metrics": [
        f"{TRAIN}.trainer:TurnGRPOTrainer._log_play",
        f"{TRAIN}.trainer:TurnGRPOTrainer._log_rows",
        f"{TRAIN}.trainer:TurnGRPOTrainer.log",
    ],
    "loss": [
        f"{TRAIN}.trainer:TurnGRPOTrainer._compute_loss",
        "accelerate:Accelerator.backward",
        "accelerate:Accelerator.clip_grad_norm_",
        "accelerate.optimizer:AcceleratedOptimizer.step",
    ],
    "engine": ["arena_trainers.train.clock:TimedBackend.generate"],  # not counted
}
PARTS = [part for part in PLACES if part != "engine"] + ["rest"]
FILLER = range(1000, 20_000)  # token ids


class LegalReplies:
    """An engine that answers at once: filler tokens, and a random legal action."""

    runs_model = False

    def __init__(self, policy: Any, num_tokens: int) -> None:
        self.policy, self.num_tokens = policy, num_tokens
        self.rng, self.answers = random.Random(0), dict[str, list[int]]()
        self.requests: Sequence[Any] = ()
        self.num_turns = 0

    def generate(self, prompt_ids: Any, seeds: Any, *_: Any, **__: Any) -> Any:
        from arena_trainers.lm.backends import Generated

        replies: list[list[int]] = []
        for request in self.requests:
            text = request.wrap(self.rng.choice(request.legal))
            if text not in self.answers:
                self.answers[text] = self.policy.tokenizer.encode(
                    text, add_special_tokens=False
                )
            answer = self.answers[text]
            size = max(self.num_tokens - len(answer) - 1, 0)
            filler = self.rng.choices(FILLER, k=size)
            replies.append([*filler, *answer, self.policy.eos_ids[0]])
        self.num_turns += len(replies)
        return Generated(replies, [[-0.1] * len(reply) for reply in replies])


def run(args: argparse.Namespace) -> None:
    """Trains; prints the seconds of each step, after a line is read."""
    import torch
    from transformers import AutoTokenizer, PrinterCallback, TrainerCallback

    from arena_trainers.lm.policy import LMPolicy
    from arena_trainers.runs.settings import build_configs
    from arena_trainers.train.score.forward import Forward
    from arena_trainers.train.score.mismatch import MismatchCheck, ScoringMode
    from arena_trainers.train.trainer import TurnGRPOTrainer

    torch.set_num_threads(1)
    parts, out = Parts(PLACES), sys.stdout
    sys.stdout = sys.stderr  # libraries print

    def exact(check: Any, rows: Any) -> None:
        check.forward.mode = ScoringMode(True, True)

    def no_scores(forward: Any, model: Any, packed: Any, entropy: bool) -> Any:
        inputs = sys.modules[Forward.__module__].model_inputs
        device = [forward.accelerator.device][
            : inputs.__wrapped__.__code__.co_argcount - 1
        ]
        inputs_of_pass: Any = inputs(packed, *device)
        arguments = getattr(inputs_of_pass, "arguments", inputs_of_pass)
        shape = arguments["shift_labels"].shape
        zeros = 0 * next(model.parameters()).flatten()[0] + torch.zeros(shape)
        return zeros - 0.1, torch.zeros(shape)

    MismatchCheck.check = exact  # type: ignore[assignment, method-assign]
    Forward._score_chunk = no_scores  # type: ignore[assignment, method-assign]
    with tempfile.TemporaryDirectory() as folder:
        model = make_model(args.tokenizer, Path(folder) / "model")
        options = {
            "games": [args.game],
            "history": args.history,
            "reply_format": "answer",
            "max_completion_length": max(args.reply, 64),
            "episodes_per_step": args.episodes,
            "num_generations": 8,
            "max_steps": args.steps,
            "bf16": False,
            "use_cpu": True,
            "gradient_checkpointing": False,
            "save_strategy": "no",
            "credit": "random_effects",
            "max_tokens_per_forward": 4096,
            "model": str(model),
        }
        _, settings = build_configs(options, str(Path(folder) / "run"))
        settings.report_to, settings.disable_tqdm = [], True
        tokenizer = AutoTokenizer.from_pretrained(model)
        trainer = TurnGRPOTrainer(str(model), settings, processing_class=tokenizer)
        engine = LegalReplies(trainer.policy, args.reply)
        trainer.policy.backend.inner = engine  # type: ignore[attr-defined]
        act: Callable[..., Any] = LMPolicy.act

        def act_legally(policy: Any, requests: Any) -> Any:
            engine.requests = requests
            return act(policy, requests)

        LMPolicy.act = act_legally  # type: ignore[assignment, method-assign]

        class Steps(TrainerCallback):
            def on_step_begin(self, *_: Any, **__: Any) -> None:
                sys.stdin.readline()
                parts.read()
                engine.num_turns = 0

            def on_step_end(self, *_: Any, **__: Any) -> None:
                seconds = parts.read()
                seconds.pop("engine")
                memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
                line = {"turns": engine.num_turns, "memory": memory, "parts": seconds}
                print(json.dumps(line), file=out, flush=True)

        trainer.remove_callback(PrinterCallback)
        trainer.add_callback(Steps())
        trainer.train()


def make_model(tokenizer_name: str, folder: Path) -> Path:
    """A model of one layer of eight numbers, with a real tokenizer."""
    from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

    from arena_trainers.lm.models import find_model

    source = find_model(tokenizer_name)
    if source is None:
        raise ValueError(f"want {tokenizer_name} converted; run arena train smollm2")
    tokenizer = AutoTokenizer.from_pretrained(source)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=8,
        intermediate_size=8,
        num_hidden_layers=1,
        num_attention_heads=1,
        max_position_embeddings=32_768,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def measure(
    checkouts: Sequence[Path], args: argparse.Namespace, episodes: int
) -> list[list[dict[str, Any]]]:
    """The steps of each checkout, which take turns; the first step does not count."""
    processes = []
    options = [args.game, "--history", args.history, "--reply", str(args.reply)]
    options += ["--steps", str(args.steps), "--tokenizer", args.tokenizer, "--run"]
    for top in checkouts:
        paths = os.pathsep.join(
            str(top / part) for part in (".", "wrappers", "trainers")
        )
        process = subprocess.Popen(
            [sys.executable, __file__, *options, "--episodes", str(episodes)],
            env={
                **os.environ,
                "PYTHONPATH": paths,
                "OMP_NUM_THREADS": "1",
                "RAYON_NUM_THREADS": "1",
                "TOKENIZERS_PARALLELISM": "false",
            },
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=None if args.verbose else subprocess.DEVNULL,
            text=True,
        )
        processes.append(process)
    steps: list[list[dict[str, Any]]] = [[] for _ in processes]
    for _ in range(args.steps):
        for process, lines in zip(processes, steps, strict=True):
            print(file=process.stdin, flush=True)
            lines.append(json.loads(process.stdout.readline()))  # type: ignore[union-attr]
    for process in processes:
        process.communicate()
    return [lines[1:] for lines in steps]


def cost(steps: Sequence[dict[str, Any]], part: str) -> float:
    """Median CPU microseconds per turn of a part."""
    return float(statistics.median(1e6 * s["parts"][part] / s["turns"] for s in steps))


def speed(steps: Sequence[dict[str, Any]]) -> float:
    """Turns per CPU second."""
    return float(
        statistics.median(s["turns"] / sum(s["parts"].values()) for s in steps)
    )


def show(names: Sequence[str], columns: Sequence[Sequence[dict[str, Any]]]) -> None:
    """Prints a table of parts, in microseconds per turn, and the turns per CPU second."""
    print(f"| μs per turn | {' | '.join(names)} |")
    print(f"|---|{'---|' * len(names)}")
    for part in PARTS:
        print(f"| {part} | {' | '.join(f'{cost(c, part):.0f}' for c in columns)} |")
    print(
        f"| turns per CPU second | {' | '.join(f'{speed(c):,.0f}' for c in columns)} |"
    )
    memory = [max(s["memory"] for s in c) / 1024 for c in columns]
    print(f"| memory, MB | {' | '.join(f'{m:,.0f}' for m in memory)} |")
    ratios = [speed(c) / speed(columns[0]) for c in columns]
    print(f"| / first | {' | '.join(f'{ratio:.2f}' for ratio in ratios)} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("game")
    parser.add_argument("--history", default="state")
    parser.add_argument("--reply", type=int, default=60, help="tokens")
    parser.add_argument("--episodes", type=int, default=64, help="of a step")
    parser.add_argument("--sizes", type=int, nargs="+", help="several --episodes")
    parser.add_argument("--steps", type=int, default=4, help="the first is not counted")
    parser.add_argument("--tokenizer", default="smollm2", help="a model with one")
    parser.add_argument("--before", type=Path, help="another checkout")
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--run", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.run:
        run(args)
    elif args.sizes:
        columns = [measure([HERE], args, size)[0] for size in args.sizes]
        show([f"{size} episodes" for size in args.sizes], columns)
    else:
        before = [args.before.resolve()] if args.before else []
        columns = measure([*before, HERE], args, args.episodes)
        show(["before", "now"] if before else ["now"], columns)


if __name__ == "__main__":
    main()
