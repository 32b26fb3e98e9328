"""Prints the bytes per token that a pass of a Qwen3 or Llama with random weights takes, calculated and measured.

Arguments: shape, rows, tokens of a row, `half` or `float32`. Allocations of a page and more are mapped apart
(`MALLOC_MMAP_THRESHOLD_`), so that the size of the process is what is in use.
"""

import sys
import threading
import time

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


def main():
    shape, rows, length, precision = sys.argv[1:]
    kind, hidden, layers, heads, keys, head_dim, inner, vocabulary = SHAPES[shape]
    torch.set_num_threads(1)
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
    )
    model = model_kind(config).train()
    add_fused_lm_head(model, temperature=1.0, outputs=("log_probs", "entropy"))
    ids = torch.randint(0, vocabulary, (int(rows), int(length)))
    half = precision == "half"

    def step():
        with torch.autocast("cpu", torch.bfloat16, enabled=half):
            options = {"shift_labels": ids, "fused_lm_head": True, "use_cache": False}
            loss = model(input_ids=ids, **options).log_probs.sum()
        loss.backward()

    step()  # makes the gradients
    process, peak, ended = psutil.Process(), [0], threading.Event()
    before = process.memory_info().rss

    def watch():
        while not ended.is_set():
            peak[0] = max(peak[0], process.memory_info().rss)
            time.sleep(0.002)

    thread = threading.Thread(target=watch)
    thread.start()
    step()
    ended.set()
    thread.join()
    passes = Passes(
        half=half, half_states=False, adapted=False, checkpointing=False, on_gpu=False
    )
    num = ids.numel()
    calculated = activation_bytes(config, num, passes)
    if half:  # torch keeps the weights that it has cast
        calculated += 2.0 * sum(weight.numel() for weight in model.parameters())
    print(calculated / num, (peak[0] - before) / num)


if __name__ == "__main__":
    main()
