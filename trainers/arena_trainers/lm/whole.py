"""Whole models in a run whose training is sharded."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from transformers.integrations import deepspeed


@contextmanager
def whole_models() -> Iterator[None]:
    """Within this context transformers and TRL take models to be whole.

    Where accelerate shards training, transformers loads models in parts: under ZeRO-3 each
    process has its part, and under FSDP the first process alone has the weights. An
    opponent's model is not trained, and each process uses it by itself.
    """
    config, fsdp = deepspeed._hf_deepspeed_config_weak_ref, "ACCELERATE_USE_FSDP"
    sharded = os.environ.pop(fsdp, None)
    deepspeed.unset_hf_deepspeed_config()
    try:
        yield
    finally:
        deepspeed._hf_deepspeed_config_weak_ref = config
        if sharded is not None:
            os.environ[fsdp] = sharded
