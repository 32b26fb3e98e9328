r"""What a first GPU tells about arena-envs in eight minutes: eight parts in order of worth, as lines of JSON.

A machine without network needs 3.7 MB of wheels beside torch, transformers, accelerate, peft, pandas, pyarrow, xxhash,
matplotlib, scipy, psutil and jinja2. From the root of a clone:

    W='trl==1.16.0 datasets==5.2.0 dill multiprocess gymnasium pettingzoo farama-notifications openskill'
    (elsewhere) python -m pip download --no-deps --only-binary=:all: --python-version 3.12 \
        --platform manylinux_2_28_x86_64 --platform manylinux2014_x86_64 -d wheels $W
    (there) python -m pip install --no-index --no-deps --target site wheels/*.whl
    export PYTHONPATH=site:.:wrappers:trainers PYTHONUNBUFFERED=1
    timeout 480 python benchmarks/gpu.py --out gpu.jsonl

`python benchmarks/gpu.py --tiny` runs the same code with tiny sizes on a CPU. No weights are needed: models have the
sizes of Qwen3 and random weights, and replies run to their limit, which is the worst case. Each part is a process of
its own with a limit of time, prints a line as soon as it is known, and does not end the others.

| part | tells |
|---|---|
| kernels | which way of scoring rows agrees with plain passes, in float32 and bfloat16 |
| gradient | whether a step on the GPU gives the weights of the CPU, up to rounding |
| learns | seconds and NashConv of the default job on the GPU and on the CPU |
| lora | seconds and peak memory of LoRA at two sizes against the plan; chunks that run twice, in each step |
| attention | replies of one prompt by a mask, by blocks and by flash-attn: gaps, seconds, peak; flash-attn where it is installed |
| long | tokens per second and peak of rows of 4 to 16 thousand tokens, padded and not |
| full | the share of weights that move at 1e-6 when all are trained, and its peak |
| small | milliseconds of small calls on the host |
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

LIMITS = {
    "kernels": 60,
    "gradient": 40,
    "learns": 65,
    "lora": 145,
    "attention": 45,
    "long": 50,
    "full": 55,
    "small": 20,
}
SHAPES = {  # hidden, layers, heads, key heads, head_dim, inner, vocabulary
    "shallow": (1024, 4, 16, 8, 128, 3072, 151_936),  # widths of 0.6b, saved in seconds
    "0.6b": (1024, 28, 16, 8, 128, 3072, 151_936),
    "4b": (2560, 36, 32, 8, 128, 9728, 151_936),
    "tiny": (64, 2, 4, 2, 16, 128, 600),
}
GIB = 2**30


def say(part: str, **figures: object) -> None:
    line = json.dumps({"part": part, **figures})
    print(line, flush=True)
    if path := os.environ.get("GPU_OUT"):
        with open(path, "a", encoding="utf-8") as file:
            file.write(line + "\n")


def has_gpu() -> bool:
    import torch

    return torch.cuda.is_available()


def device() -> str:
    return "cuda" if has_gpu() else "cpu"


def wait() -> None:
    import torch

    if has_gpu():
        torch.cuda.synchronize()


def peak_gib() -> float | None:
    """The peak since the last call."""
    import torch

    if not has_gpu():
        return None
    peak = torch.cuda.max_memory_allocated() / GIB
    torch.cuda.reset_peak_memory_stats()
    return round(peak, 2)


def saved_model(shape: str, folder: Path, dtype: str = "bfloat16") -> Path:
    """A folder with a model of a shape, with random weights, and a tokenizer of as many words."""
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    from arena_envs import make_game
    from arena_trainers.lm import LMPolicy
    from arena_trainers.runs import tiny_tokenizer, words_of
    from arena_wrappers import PromptOptions

    hidden, layers, heads, keys, head_dim, inner, vocabulary = SHAPES[shape]
    texts = [
        text
        for name in ("kuhn_poker", "tic_tac_toe")
        for text in words_of(make_game(name), PromptOptions())
    ]
    missing = vocabulary - len(tiny_tokenizer(texts))
    more = " ".join(f"w{i}" for i in range(max(missing, 0)))
    tokenizer = tiny_tokenizer([*texts, more])
    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=keys,
        head_dim=head_dim,
        intermediate_size=inner,
        max_position_embeddings=40_960,
        tie_word_embeddings=True,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
        dtype=dtype,
    )
    torch.manual_seed(0)
    with torch.device(device()):
        model = Qwen3ForCausalLM(config).to(getattr(torch, dtype))
    policy = LMPolicy(model, tokenizer, prompt=PromptOptions(), max_new_tokens=8)
    policy.save_pretrained(folder)
    return folder


def trainer_of(model: Path, folder: Path, lora_r: int = 0, **settings: Any) -> Any:
    from transformers import PrinterCallback

    from arena_trainers import TurnGRPOConfig, TurnGRPOTrainer
    from arena_trainers.lm import lora_config

    options: dict[str, Any] = {
        "output_dir": str(folder),
        "games": ["kuhn_poker"],
        "episodes_per_step": 16,
        "num_generations": 4,
        "max_steps": 1,
        "learning_rate": 1e-6,
        "lr_scheduler_type": "constant",
        "report_to": "none",
        "disable_tqdm": True,
        "save_strategy": "no",
        "logging_steps": 1,
        "seed": 0,
        "on_invalid": "random",
        "max_completion_length": 8,
        "use_cpu": not has_gpu(),
        "bf16": True,
        "credit": "random_effects",
    }
    adapter = lora_config(lora_r, None, ["all-linear"]) if lora_r else None
    args = TurnGRPOConfig(**options | settings)
    trainer = TurnGRPOTrainer(str(model), args, peft_config=adapter)
    trainer.remove_callback(PrinterCallback)
    return trainer


def logged(trainer: Any, word: str) -> dict[str, float]:
    """The figures of all logs whose names have a word; the last of each."""
    return {
        name: value
        for logs in trainer.state.log_history
        for name, value in logs.items()
        if word in name
    }


def kernels(tiny: bool, work: Path) -> None:
    for dtype in ("float32", "bfloat16"):
        folder = saved_model("tiny" if tiny else "shallow", work / dtype, dtype)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            trainer = trainer_of(
                folder,
                work / "run",
                lora_r=4,
                bf16=dtype == "bfloat16",
                model_init_kwargs={"dtype": dtype},
                temperature=0.8,
            )
            trainer.train()
        texts = [str(warning.message) for warning in caught]
        say(
            "kernels",
            dtype=dtype,
            mode=str(trainer.forward.mode),
            gaps=logged(trainer, "sampling_gap"),
            warned=[text[:160] for text in texts if "nats" in text],
        )


def gradient(tiny: bool, work: Path) -> None:
    folder = saved_model("tiny", work / "model", "float32")
    ends = []
    for use_cpu in (True, not has_gpu()):
        trainer = trainer_of(
            folder,
            work / "run",
            bf16=False,
            use_cpu=use_cpu,
            learning_rate=1e-2,
            adam_epsilon=1.0,
            optim="adamw_torch",
        )
        trainer.train()
        weights = {
            name: weight.detach().cpu().clone()
            for name, weight in trainer.model.state_dict().items()
        }
        ends.append(([tuple(row.completion_ids) for row in trainer._rows], weights))
    (rows, weights), (other_rows, others) = ends
    gaps = [float((weights[name] - others[name]).abs().max()) for name in weights]
    say("gradient", same_rows=rows == other_rows, largest_difference=max(gaps))


def learns(tiny: bool, work: Path) -> None:
    for use_cpu in ["true"] if not has_gpu() else ["false", "true"]:
        out, began = work / f"cpu-{use_cpu}", time.monotonic()
        words = ["--max_steps", "2" if tiny else "60", "--use_cpu", use_cpu]
        words += ["--callbacks.eval_episodes", "20"] if tiny else []
        command = [sys.executable, "-m", "arena_trainers", "train", *words]
        done = subprocess.run(
            [*command, "--output-dir", str(out)],
            capture_output=True,
            text=True,
            check=False,
        )
        figures: dict[str, object] = {"error": done.stderr[-300:]}
        if done.returncode == 0:
            results = json.loads((out / "results.json").read_text(encoding="utf-8"))
            figures = {name: results[name] for name in ("nash_conv", "profile")}
        seconds = round(time.monotonic() - began, 1)
        say("learns", use_cpu=use_cpu, seconds=seconds, **figures)


def lora(tiny: bool, work: Path) -> None:
    from transformers import TrainerCallback

    from arena_trainers.lm.backends.activations import Passes, activation_bytes

    plans = [("tiny", 16, 8, 512)]
    if not tiny:
        plans = [("0.6b", 64, 128, 16_384), ("4b", 64, 128, 8_192)]
    for shape, episodes, length, max_tokens in plans:
        trainer = trainer_of(
            saved_model(shape, work / shape),
            work / "run",
            lora_r=32,
            # of Kuhn poker: at most three replies follow each other, each of `length` passes
            episodes_per_step=episodes,
            max_completion_length=length,
            max_steps=3,
            num_generations=8,
            max_tokens_per_forward=max_tokens,
            gradient_checkpointing=False,
            learning_rate=3e-5,
            model_init_kwargs={"dtype": "bfloat16"},
        )
        passes = Passes(
            half=True,
            half_states=True,
            adapted=True,
            checkpointing=False,
            on_gpu=has_gpu(),
        )
        trained = sum(w.numel() for w in trainer.model.parameters() if w.requires_grad)
        planned = sum(w.nbytes for w in trainer.model.parameters()) + 12.0 * trained
        planned += activation_bytes(trainer.model.config, max_tokens, passes)
        chunks = {"once": 0, "twice": 0}
        fits: Callable[[int, int], bool] = trainer.forward.kept.fits

        def counted(
            num: int,
            largest: int,
            fits: Callable[[int, int], bool] = fits,
            chunks: dict[str, int] = chunks,
        ) -> bool:
            is_kept = fits(num, largest)
            chunks["once" if is_kept else "twice"] += 1
            return is_kept

        trainer.forward.kept.fits = counted

        class Steps(TrainerCallback):
            def __init__(self, shape: str, planned: float, chunks: dict[str, int]):
                self.shape, self.planned, self.chunks = shape, planned, chunks
                self.began = time.monotonic()

            def on_step_end(
                self, args: Any, state: Any, control: Any, **_: Any
            ) -> None:
                wait()
                say(
                    "lora",
                    shape=self.shape,
                    step=state.global_step,
                    seconds=round(time.monotonic() - self.began, 2),
                    chunks=dict(self.chunks),
                    peak_gib=peak_gib(),
                    planned_gib=round(self.planned / GIB, 2),
                )
                self.began = time.monotonic()
                self.chunks.update(once=0, twice=0)

        trainer.add_callback(Steps(shape, planned, chunks))
        trainer.train()
        figures = logged(trainer, "time/") | logged(trainer, "per_second")
        say("lora", shape=shape, **figures, **logged(trainer, "arena/memory"))
        del trainer
        empty_cache()


def empty_cache() -> None:
    import torch

    if has_gpu():
        torch.cuda.empty_cache()


def attention(tiny: bool, work: Path) -> None:
    """A step over replies that share a prompt, in each way; gaps are those to the mask."""
    import torch
    from transformers.utils.import_utils import is_flash_attn_2_available

    dtype = "float32" if tiny else "bfloat16"
    folder = saved_model("tiny" if tiny else "0.6b", work / "model", dtype)
    prompt, reply, num = (64, 16, 4) if tiny else (3072, 128, 16)
    generator = torch.Generator().manual_seed(0)
    shared = torch.randint(10, 500, (1, prompt), generator=generator)
    replies = torch.randint(10, 500, (num, reply), generator=generator)
    ids = torch.cat([shared.expand(num, -1), replies], dim=1)
    by_mask: list[torch.Tensor] = []
    for way in ("mask", "blocks", "flash"):
        if way == "flash" and not (has_gpu() and is_flash_attn_2_available()):
            say("attention", way=way, skipped="no CUDA, or flash-attn is not installed")
            continue
        seconds, logprobs, gradient = _scored_in(way, folder, dtype, ids, reply)
        by_mask = by_mask or [logprobs, gradient]
        gap = (gradient - by_mask[1]).norm() / by_mask[1].norm()
        say(
            "attention",
            way=way,
            seconds=round(seconds, 4),
            peak_gib=peak_gib(),
            largest_gap=float((logprobs - by_mask[0]).abs().max()),
            mean_gap=float((logprobs - by_mask[0]).abs().mean()),
            gradient_gap=float(gap),
        )
        empty_cache()


def _scored_in(
    way: str, folder: Path, dtype: str, ids: Any, width: int
) -> tuple[float, Any, Any]:
    """Seconds of a step, log-probabilities of the replies, and the gradient of a weight."""
    import torch
    from transformers import AutoModelForCausalLM

    from arena_trainers.train.score.blocks import block_inputs
    from arena_trainers.train.score.heads import plain_scores
    from arena_trainers.train.score.packing import (
        joined_replies,
        model_inputs,
        packed_rows,
        pairs_per_token,
    )

    name = "flash_attention_2" if way == "flash" else "sdpa"
    options = {"dtype": getattr(torch, dtype), "attn_implementation": name}
    model: Any = AutoModelForCausalLM.from_pretrained(folder, **options)
    model.to(device()).train()
    model.gradient_checkpointing_enable({"use_reentrant": False})
    pairs = None if way == "flash" else pairs_per_token(model)  # which takes no mask
    packed = packed_rows(ids, torch.ones_like(ids), width, 2**20, pairs)
    logprobs: Any = None
    seconds = []
    for _ in range(3):
        wait()
        began = time.monotonic()
        inputs = model_inputs(packed, device(), with_mask=way != "blocks")
        arguments = inputs.arguments | (block_inputs(packed) if way == "blocks" else {})
        model.zero_grad()
        scores, _ = plain_scores(model, arguments, inputs.tail, inputs.scored, 1.0)
        logprobs = joined_replies([scores], [packed], width)
        logprobs.mean().backward()
        wait()
        seconds.append(time.monotonic() - began)
    gradient = model.model.layers[0].self_attn.k_proj.weight.grad
    return min(seconds), logprobs.detach().cpu(), gradient.float().cpu()


def long(tiny: bool, work: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM

    folder = saved_model("tiny" if tiny else "0.6b", work / "model")
    model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16)
    model.to(device()).train()
    model.gradient_checkpointing_enable({"use_reentrant": False})
    sizes = ((64, 2),) if tiny else ((4096, 4), (8192, 2), (16_384, 1))
    for length, num_rows in sizes:
        ids = torch.randint(10, 500, (num_rows, length), device=device())
        mask = torch.ones_like(ids)
        mask[0, : length // 4] = 0  # on the left, as of a shorter prompt
        for name, masks in {"padded": {"attention_mask": mask}, "unpadded": {}}.items():
            seconds = []
            try:
                for _ in range(3):
                    wait()
                    began = time.monotonic()
                    options = {"use_cache": False, "logits_to_keep": 64}
                    logits = model(input_ids=ids, **options, **masks).logits
                    logits.float().mean().backward()
                    wait()
                    seconds.append(time.monotonic() - began)
                rate = round(ids.numel() / min(seconds))
                figures: dict[str, object] = {"tokens_per_second": rate}
            except torch.OutOfMemoryError as error:
                figures = {"out_of_memory": str(error)[:100]}
                empty_cache()
            say("long", length=length, rows=name, peak_gib=peak_gib(), **figures)


def full(tiny: bool, work: Path) -> None:
    shape = "tiny" if tiny else "0.6b"
    folder = saved_model(shape, work / "model", "float32")
    trainer = trainer_of(folder, work / "run", max_steps=2)
    began = time.monotonic()
    trainer.train()
    wait()
    say(
        "full",
        shape=shape,
        **logged(trainer, "moved_weights"),
        seconds=round(time.monotonic() - began, 1),
        peak_gib=peak_gib(),
    )


def small(tiny: bool, work: Path) -> None:
    import torch

    from arena_trainers.lm.backends.memory import free_memory, release_free_memory

    calls: dict[str, Callable[[], object]] = {
        "release_free_memory": release_free_memory,
        "free_memory": lambda: free_memory(torch.device(device())),
    }
    figures = {}
    for name, call in calls.items():
        began = time.monotonic()
        for _ in range(20):
            call()
        figures[f"{name}_ms"] = round((time.monotonic() - began) * 50, 3)
    say("small", **figures, threads=torch.get_num_threads())


PARTS: dict[str, Callable[[bool, Path], None]] = {
    part.__name__: part
    for part in (kernels, gradient, learns, lora, attention, long, full, small)
}


def run_parts(names: list[str], tiny: bool) -> None:
    """Runs parts, each in a process of its own."""
    for name in names:
        began = time.monotonic()
        command = [
            sys.executable,
            __file__,
            "--part",
            name,
            *(["--tiny"] if tiny else []),
        ]
        try:
            done = subprocess.run(
                command,
                timeout=LIMITS[name],
                stderr=subprocess.PIPE,
                text=True,
                check=False,
            )
            if done.returncode:
                say(name, failed=done.stderr[-1500:])
        except subprocess.TimeoutExpired:
            say(name, ended_after_seconds=LIMITS[name])
        say("time", of=name, seconds=round(time.monotonic() - began, 1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--tiny", action="store_true", help="tiny sizes, on a CPU")
    parser.add_argument("--part", choices=[*PARTS], help="this part, in this process")
    parser.add_argument("--out", help="file for the lines")
    options = parser.parse_args()
    if options.out:
        os.environ["GPU_OUT"] = str(Path(options.out).absolute())
    if options.part:
        with tempfile.TemporaryDirectory() as folder:
            PARTS[options.part](options.tiny, Path(folder))
        return
    import torch
    import transformers
    import trl

    gpu = torch.cuda.get_device_name() if has_gpu() else None
    versions = {m.__name__: m.__version__ for m in (torch, transformers, trl)}
    say("machine", gpu=gpu, **{n: str(v) for n, v in versions.items()})
    run_parts([*PARTS], options.tiny)


if __name__ == "__main__":
    main()
