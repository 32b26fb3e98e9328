"""Writes an adapter merged into its model, and checks that the merged model plays alike."""

import json
import math
import random
import shutil
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import yaml
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel

from arena_envs import make_game
from arena_envs.game import random_states
from arena_trainers.finite import check_finite_weights
from arena_trainers.lm.backends.tolerance import logprob_gap, tolerance
from arena_trainers.lm.card_file import read_card
from arena_trainers.lm.models import ADAPTER, CARD, adapter_base, model_folder
from arena_trainers.lm.prompt_file import PROMPT_FILE
from arena_wrappers import PromptOptions
from arena_wrappers.prompts import messages

NUM_PROMPTS = 10  # on which a merged model is compared with its adapter


def write_merged(source: Path, target: Path) -> int:
    """Writes a whole model with its tokenizer, `arena_prompt.json` and model card.

    Where an adapter changes one of two tied matrices of embeddings, they are written apart. What
    was written is loaded again, and compared with the model and its adapter on ten prompts.

    Args:
        source: folder of a saved model or adapter.
        target: folder to make; it appears whole or not at all.

    Returns:
        The number of parameters.

    Raises:
        ValueError: the folder exists, the adapter's base model is missing, the adapter is of
            another base model, or the written model has other log-probabilities.
    """
    if target.exists():
        raise ValueError(
            f"want a new folder, {str(target)!r} exists; give another (--out FOLDER)"
        )
    base = adapter_base(str(source))
    folder = model_folder(base or str(source))
    tokenizer_folder = (
        source if (source / "tokenizer_config.json").is_file() else folder
    )
    tokenizer = AutoTokenizer.from_pretrained(tokenizer_folder)
    prompts = [tokenizer.encode(text) for text in _sample_prompts()]
    model, logprobs = _merge_adapter(folder, source if base else None, prompts)
    check_finite_weights(model.named_parameters(), repr(str(source)))
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = target.with_name(target.name + ".part")
    shutil.rmtree(unfinished, ignore_errors=True)
    try:
        model.save_pretrained(unfinished)
        num_weights = int(model.num_parameters())
        del model
        tokenizer.save_pretrained(unfinished)
        if (source / PROMPT_FILE).is_file():
            shutil.copy(source / PROMPT_FILE, unfinished / PROMPT_FILE)
        if (source / CARD).is_file():
            _copy_card(source / CARD, unfinished / CARD)
        _check_merged(unfinished, source, prompts, logprobs)
        unfinished.rename(target)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return num_weights


def _sample_prompts() -> list[str]:
    """Ten texts that players of a small game read."""
    game, rng = make_game("kuhn_poker"), random.Random(0)
    texts = dict[str, None]()
    while len(texts) < NUM_PROMPTS:
        for state, seat in random_states(game, rng):
            if seat >= 0:
                prompt = messages(game, state, seat, PromptOptions())
                texts["\n\n".join(message["content"] for message in prompt)] = None
    return list(texts)[:NUM_PROMPTS]


def _merge_adapter(
    folder: Path, adapter: Path | None, prompts: Sequence[Sequence[int]]
) -> tuple[PreTrainedModel, list[torch.Tensor]]:
    """A model that holds its adapter, and `_logprobs` of the prompts before they were merged."""
    from arena_trainers.lm.loading import with_adapter

    model: PreTrainedModel = AutoModelForCausalLM.from_pretrained(folder).eval()
    if adapter is None:
        return model, _logprobs(model, prompts)
    adapted: Any = with_adapter(model, adapter)  # a `PeftModel`
    logprobs = _logprobs(adapted, prompts)
    _untie(model)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Input and output embeddings are no longer")
        return adapted.merge_and_unload(), logprobs


def _untie(model: PreTrainedModel) -> None:
    """Gives the output layer weights of its own, if an adapter changes it or the embeddings.

    Else what is merged into one of two tied matrices would change the other one.
    """
    layers = model.get_input_embeddings(), model.get_output_embeddings()
    inner, output = (_base_layer(layer) for layer in layers)
    is_tied = output is not None and inner.weight is output.weight
    is_adapted = (inner, output) != layers
    if is_tied and is_adapted:
        output.weight = torch.nn.Parameter(output.weight.detach().clone())
        for config in (model.config, model.config.get_text_config()):
            config.tie_word_embeddings = False


def _base_layer(layer: Any) -> Any:
    """The model's own layer inside of peft's."""
    for name in ("base_layer", "original_module"):
        layer = getattr(layer, name, layer)
    return layer


@torch.no_grad()
def _logprobs(
    model: PreTrainedModel, prompts: Sequence[Sequence[int]]
) -> list[torch.Tensor]:
    """float32[L, V] for each prompt: log-probabilities of the next tokens."""
    return [
        model(input_ids=torch.tensor([ids])).logits[0].float().log_softmax(-1)
        for ids in prompts
    ]


def _check_merged(
    folder: Path,
    source: Path,
    prompts: Sequence[Sequence[int]],
    expected: Sequence[torch.Tensor],
) -> None:
    """Raises ValueError unless the model of a folder has the log-probabilities that are wanted."""
    model: PreTrainedModel = AutoModelForCausalLM.from_pretrained(folder).eval()
    pairs = zip(_logprobs(model, prompts), expected, strict=True)
    gap = max(
        logprob_gap((written - reference).abs(), model.dtype)
        for written, reference in pairs
    )
    if not gap <= tolerance(model.dtype):
        raise ValueError(
            f"want a merged model that plays as {str(source)!r} does, got log-probabilities "
            f"that differ by {gap:.3g} nats on {len(prompts)} prompts (at most "
            f"{tolerance(model.dtype)}), so nothing was written; play the adapter itself as "
            f"lm:{source}, or train one without {_unmergeable_options(source)}"
        )


def _unmergeable_options(source: Path) -> str:
    """The options of an adapter that may keep it from being merged."""
    config = json.loads((source / ADAPTER).read_bytes())
    names = ("modules_to_save", "trainable_token_indices", "use_dora", "bias")
    set_names = [n for n in names if config.get(n) not in (None, [], False, "none")]
    return " and ".join(set_names) or "lora_target_modules of embeddings"


def _copy_card(source: Path, target: Path) -> None:
    """Copies a model card, which then says that the model is a whole one."""
    stated, text = read_card(source)
    tags = stated.get("tags")
    if isinstance(tags, list):
        tags = [tag for tag in tags if tag != "lora"]
    stated = {**stated, "library_name": "transformers", "tags": tags or []}
    front = yaml.safe_dump(stated, sort_keys=False, allow_unicode=True, width=math.inf)
    target.write_text(f"---\n{front}---\n{text}", encoding="utf-8")
