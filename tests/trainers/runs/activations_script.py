"""Prints bytes that training of a Qwen3 or Llama with random weights takes, calculated and measured.

Arguments: shape, rows, tokens of a row, `half` or `float32`, for the bytes per token of one pass; or shape, rank of
an adapter (0: all weights are trained) and a folder, for the bytes of a step of the trainer. Allocations of a page
and more are mapped apart (`MALLOC_MMAP_THRESHOLD_`), so that the size of the process is what is in use.
"""

import gc
import re
import sys
from pathlib import Path

import psutil
import torch
from transformers import LlamaConfig, LlamaForCausalLM, Qwen3Config, Qwen3ForCausalLM
from trl.trainer.utils import add_fused_lm_head

from arena_trainers.lm.backends.activations import Passes, activation_bytes

KINDS = {
    "llama": (LlamaConfig, LlamaForCausalLM),
    "qwen3": (Qwen3Config, Qwen3ForCausalLM),
}
SHAPES = {  # kind, hidden, layers, heads, key heads, head_dim, inner, vocabulary
    "tiny": ("qwen3", 64, 2, 4, 2, 16, 128, 600),
    "smollm2": ("llama", 576, 30, 9, 3, 64, 1536, 49_152),
    "qwen3-0.6b": ("qwen3", 1024, 28, 16, 8, 128, 3072, 151_936),
}


def model_of(shape, **options):
    kind, hidden, layers, heads, keys, head_dim, inner, vocabulary = SHAPES[shape]
    config_kind, model_kind = KINDS[kind]
    config = config_kind(
        vocab_size=vocabulary,
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=keys,
        head_dim=head_dim,
        intermediate_size=inner,
        tie_word_embeddings=True,
        **options,
    )
    return model_kind(config)


def forget_peak():
    """From here on `peak` counts anew: Linux forgets the largest size of this process."""
    Path("/proc/self/clear_refs").write_text("5")


def peak():
    """Bytes of the largest size of this process since `forget_peak`."""
    (line,) = re.findall(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return 1024 * int(line)


def one_pass(shape, rows, length, precision):
    """Bytes per token."""
    model = model_of(shape).train()
    add_fused_lm_head(model, temperature=1.0, outputs=("log_probs", "entropy"))
    ids = torch.randint(0, model.config.vocab_size, (int(rows), int(length)))
    half = precision == "half"

    def step():
        with torch.autocast("cpu", torch.bfloat16, enabled=half):
            options = {"shift_labels": ids, "fused_lm_head": True, "use_cache": False}
            loss = model(input_ids=ids, **options).log_probs.sum()
        loss.backward()

    step()  # makes the gradients
    before = psutil.Process().memory_info().rss
    forget_peak()
    step()
    calculated = activation_bytes(model.config, ids.numel(), Passes(half=half))
    if half:  # torch keeps the weights that it has cast
        calculated += 2.0 * sum(weight.numel() for weight in model.parameters())
    return calculated / ids.numel(), (peak() - before) / ids.numel()


def step_of_trainer(shape, rank, folder):
    """Bytes of weights, gradients, AdamW and activations: those of the plan, and those of the process."""
    from arena_envs import make_game
    from arena_trainers import TurnGRPOConfig, TurnGRPOTrainer
    from arena_trainers.lm import LMPolicy, lora_config
    from arena_trainers.runs import tiny_tokenizer, words_of
    from arena_trainers.runs.checks.dry_run import _method, known_config
    from arena_trainers.runs.checks.memory import play_memory
    from arena_trainers.runs.checks.preflight import read_options
    from arena_wrappers import PromptOptions

    options = PromptOptions(rules=False, reply_format="bare")
    tokenizer = tiny_tokenizer(words_of(make_game("kuhn_poker"), options))
    ids = {
        "pad_token_id": tokenizer.pad_token_id,
        "eos_token_id": tokenizer.eos_token_id,
    }
    dtype = torch.bfloat16 if int(rank) else torch.float32
    model = model_of(shape, **ids).to(dtype)
    LMPolicy(model, tokenizer, prompt=options, max_new_tokens=2).save_pretrained(folder)
    del model
    settings = {
        "games": ["kuhn_poker"],
        "rules": False,
        "reply_format": "bare",
        "max_completion_length": 2,
        "on_invalid": "random",
        "max_steps": 2,
        "episodes_per_step": 16,
        "num_generations": 4,
        "gradient_accumulation_steps": 2,  # the second pass finds gradients
        "learning_rate": 1e-4,
        "bf16": bool(int(rank)),
        "gradient_checkpointing": False,
        "max_tokens_per_forward": 65_536,
        "use_cpu": True,
        "model_init_kwargs": {"dtype": str(dtype).removeprefix("torch.")},
    }
    job, draft = read_options(settings | {"model": folder, "lora_r": int(rank)})
    method = _method(job, draft, known_config(folder, None))
    gc.collect()
    quiet = {"report_to": "none", "disable_tqdm": True, "save_strategy": "no"}
    args = TurnGRPOConfig(output_dir=f"{folder}/run", **settings, **quiet)
    before = psutil.Process().memory_info().rss
    adapter = lora_config(int(rank), None, ["all-linear"]) if int(rank) else None
    trainer = TurnGRPOTrainer(folder, args, peft_config=adapter)
    num_tokens, score = [0], trainer.forward._score_chunk

    def counted(model, packed, *arguments):
        num = sum(len(row.tokens) for row in packed)
        num_tokens[0] = max(num_tokens[0], num)
        return score(model, packed, *arguments)

    trainer.forward._score_chunk = counted  # type: ignore[method-assign]
    forget_peak()
    trainer.train()
    planned = sum(play_memory(method).values()) + method.activations(num_tokens[0])
    return planned, peak() - before


if __name__ == "__main__":
    torch.set_num_threads(1)
    measure = one_pass if len(sys.argv) == 5 else step_of_trainer
    print(*measure(*sys.argv[1:]))
