"""What it takes to run vLLM's engine as TRL builds it, on a CPU.

vLLM on a CPU packs linear weights, after which new weights cannot be loaded into them: its
oneDNN kernels are turned off. TRL passes neither dtype nor `enforce_eager`, and batches of
4,096 tokens, which would cut prompts into chunks: sampling with seeds does not bear chunks
there.
"""

import importlib
import os
from typing import Any

SETTINGS = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_CPU_KVCACHE_SPACE": "1",  # GiB
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "HF_HUB_OFFLINE": "1",
}


def prepare() -> None:
    """Changes vLLM and TRL's use of it for this process; to be called once."""
    os.environ.update(SETTINGS)
    import vllm._custom_ops as ops

    ops._supports_onednn = False
    generation: Any = importlib.import_module("trl.generation.vllm_generation")
    build = generation.LLM
    forced = {
        "enforce_eager": True,
        "dtype": "float32",
        "max_num_batched_tokens": 65_536,
    }
    generation.LLM = lambda **options: build(**{**options, **forced})
