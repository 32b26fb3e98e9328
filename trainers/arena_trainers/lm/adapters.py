"""LoRA adapters: made for training, loaded for play, swapped on a shared base, and merged."""

import copy
import filecmp
import json
import random
import shutil
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel

from arena_envs import make_game
from arena_envs.extras import import_extra
from arena_envs.game import random_states
from arena_trainers.finite import check_weights
from arena_trainers.lm.backends.scoring import gap_of, tolerance
from arena_trainers.lm.models import (
    ADAPTER,
    CARD,
    WEIGHTS,
    adapted,
    adapter_base,
    model_folder,
)
from arena_trainers.lm.policy import LMPolicy
from arena_trainers.lm.prompt_file import PROMPT_FILE
from arena_wrappers import PromptOptions
from arena_wrappers.prompts import messages

GIB = 2**30
NUM_PROMPTS = 10  # on which a merged model is compared with its adapter
# what two adapters may differ in and still fit the same layers
_FREE = (
    *("base_model_name_or_path", "inference_mode", "lora_dropout", "revision"),
    *("init_lora_weights", "peft_version", "task_type"),
)


def lora_config(r: int, alpha: int | None, target_modules: Sequence[str]) -> Any:
    """The `LoraConfig` of a new adapter.

    Args:
        r: its rank.
        alpha: the adapter's output is times alpha / r; None for twice the rank.
        target_modules: names of the layers that get one; `["all-linear"]` for all but the
            output layer.
    """
    peft = import_extra("peft", "train")
    names = list(target_modules)
    return peft.LoraConfig(
        r=r,
        lora_alpha=2 * r if alpha is None else alpha,
        target_modules="all-linear" if names == ["all-linear"] else names,
        task_type="CAUSAL_LM",
    )


def starting_model(base: Path, adapter: Path | None, args: Any) -> Any:
    """The model that a trainer of TRL starts from.

    A trainer with a reference model keeps a copy of the adapter as its reference.

    Args:
        base: folder of the model.
        adapter: folder of the adapter that goes on training; None for none.
        args: the trainer's options. Its `model_init_kwargs` are used up with an adapter.

    Returns:
        The folder of the model, or the model with the adapter.
    """
    if adapter is None:
        return str(base)
    peft = import_extra("peft", "train")
    options = {"dtype": "float32", **(getattr(args, "model_init_kwargs", None) or {})}
    args.model_init_kwargs = None  # TRL passes them to models that it loads itself
    model: Any = AutoModelForCausalLM.from_pretrained(base, **options)
    return peft.PeftModel.from_pretrained(model, str(adapter), is_trainable=True)


def adapter_configs(roles: Mapping[Any, Mapping[str, Any]], base: Any) -> list[Any]:
    """The `LoraConfig` of each learner with one; `base` is that of learners without `lora_r`."""
    found = []
    for options in roles.values() if adapted(roles, base is not None) else ():
        rank = options.get("lora_r", base and base.r)
        config = base or lora_config(rank, None, ["all-linear"])
        alpha = config.lora_alpha * rank / config.r
        found.append(replace(copy.deepcopy(config), r=rank, lora_alpha=alpha))
    return found


def whole_memory(args: Any, size: float) -> dict[str, float]:
    """Bytes, by part, of the learners of settings, whole models of `size` bytes."""
    frozen = args.update.get("freeze", ()) if isinstance(args.update, Mapping) else ()
    num, starts = len(args.roles), {*args.learner_starts(None)}
    return {
        "weights": num * size,
        "gradients and AdamW": 3 * (num - len({*frozen})) * size,
        "reference models": args.reads_reference * len(starts) * size,
    }


def check_memory(parts: Mapping[str, float], free: float) -> None:
    """Raises ValueError if parts, in bytes, are more than is free."""
    if (total := sum(parts.values())) > free:
        said = ", ".join(f"{part} {size / GIB:.3g}" for part, size in parts.items())
        raise ValueError(
            f"want {total / GIB:.3g} GiB of memory for whole models ({said}), got "
            f"{free / GIB:.3g} free; give each role lora_r: 8, or choose a smaller model"
        )


def count_weights(config: Any, adapter: Any = None) -> tuple[int, int]:
    """Weights of a model, and of an adapter; makes neither.

    Raises:
        ValueError: that of peft: the adapter names layers that the model lacks.
    """
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
        total = model.num_parameters()
        if adapter is None:
            return total, 0
        adapted = import_extra("peft", "train").get_peft_model(model, adapter)
    return total, adapted.num_parameters(only_trainable=True)


def share_base(policy: LMPolicy, learner: LMPolicy) -> bool:
    """Plays an opponent's adapter on the learner's model, if that has the same base.

    The learner's adapter has the opponent's weights while the opponent generates or scores,
    and its own again after that. Its own model is not kept.

    Returns:
        Whether the model is shared. If not, the opponent plays with a model of its own: it
        has no adapter, or one of other layers or another base, or the learner has none.
    """
    if not _fits(policy.model, learner.model):
        return False
    weights = {name: p.detach().clone() for name, p in _adapter(policy.model).items()}

    @contextmanager
    def context() -> Iterator[PreTrainedModel]:
        with learner.context() as model, _swapped(learner.model, weights):
            yield model

    policy.run_on(learner.model, context)
    return True


def _fits(model: Any, learner: Any) -> bool:
    """True if an adapter can take the place of another, on the same base model."""
    own, other = (
        getattr(m, "peft_config", {}).get("default") for m in (model, learner)
    )
    if own is None or other is None or _kept(own) != _kept(other):
        return False
    if own.peft_type.value != "LORA" or own.modules_to_save or own.bias != "none":
        return False
    shapes = [{n: p.shape for n, p in _adapter(m).items()} for m in (model, learner)]
    bases = [Path(m.get_base_model().name_or_path) for m in (model, learner)]
    return shapes[0] == shapes[1] and _same_weights(*bases)


def _kept(config: Any) -> dict[str, Any]:
    return {k: v for k, v in config.to_dict().items() if k not in _FREE}


def _adapter(model: Any) -> Mapping[str, torch.nn.Parameter]:
    """The weights of the adapter of a model, by name."""
    named = model.named_parameters()
    return {name: p for name, p in named if model.base_model.prefix in name}


def _same_weights(one: Path, other: Path) -> bool:
    """True if the folders of two models hold the same files of weights."""
    if one == other:
        return True
    names = [{f.name for glob in WEIGHTS for f in p.glob(glob)} for p in (one, other)]
    if not names[0] or names[0] != names[1]:
        return False
    return all(filecmp.cmp(one / n, other / n, shallow=False) for n in names[0])


@contextmanager
def _swapped(model: Any, weights: Mapping[str, torch.Tensor]) -> Iterator[None]:
    """Gives the adapter of a model other weights for a while."""
    adapter = _adapter(model)
    own = {name: p.detach().clone() for name, p in adapter.items()}
    with torch.no_grad():
        try:
            for name, p in adapter.items():
                p.copy_(weights[name])
            yield
        finally:
            for name, p in adapter.items():
                p.copy_(own[name])


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
    named = source if (source / "tokenizer_config.json").is_file() else folder
    tokenizer = AutoTokenizer.from_pretrained(named)
    prompts = [tokenizer.encode(text) for text in _prompts()]
    model, wanted = _merged(folder, source if base else None, prompts)
    check_weights(model.named_parameters(), repr(str(source)))
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(target.name + ".part")
    shutil.rmtree(part, ignore_errors=True)
    try:
        model.save_pretrained(part)
        num_weights = int(model.num_parameters())
        del model
        tokenizer.save_pretrained(part)
        if (source / PROMPT_FILE).is_file():
            shutil.copy(source / PROMPT_FILE, part / PROMPT_FILE)
        if (source / CARD).is_file():
            _copy_card(source / CARD, part / CARD)
        _check_written(part, source, prompts, wanted)
        part.rename(target)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return num_weights


def _prompts() -> list[str]:
    """Ten texts that players of a small game read."""
    game, rng = make_game("kuhn_poker"), random.Random(0)
    texts = dict[str, None]()
    while len(texts) < NUM_PROMPTS:
        for state, seat in random_states(game, rng):
            if seat >= 0:
                asked = messages(game, state, seat, PromptOptions())
                texts["\n\n".join(message["content"] for message in asked)] = None
    return list(texts)[:NUM_PROMPTS]


def _merged(
    folder: Path, adapter: Path | None, prompts: Sequence[Sequence[int]]
) -> tuple[Any, list[torch.Tensor]]:
    """A model that holds its adapter, and `_logprobs` of the prompts before they were merged."""
    from arena_trainers.lm.backends.transformers import with_adapter

    model: Any = AutoModelForCausalLM.from_pretrained(folder).eval()
    if adapter is None:
        return model, _logprobs(model, prompts)
    adapted: Any = with_adapter(model, adapter)
    wanted = _logprobs(adapted, prompts)
    _untie(model)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Input and output embeddings are no longer")
        return adapted.merge_and_unload(), wanted


def _untie(model: Any) -> None:
    """Gives the output layer weights of its own, if an adapter changes it or the embeddings.

    Else what is merged into one of two tied matrices would change the other one.
    """
    layers = model.get_input_embeddings(), model.get_output_embeddings()
    inner, output = (_unwrapped(layer) for layer in layers)
    is_tied = output is not None and inner.weight is output.weight
    if is_tied and (inner, output) != layers:
        output.weight = torch.nn.Parameter(output.weight.detach().clone())
        for config in (model.config, model.config.get_text_config()):
            config.tie_word_embeddings = False


def _unwrapped(layer: Any) -> Any:
    """The model's own layer inside of peft's."""
    for name in ("base_layer", "original_module"):
        layer = getattr(layer, name, layer)
    return layer


@torch.no_grad()
def _logprobs(model: Any, prompts: Sequence[Sequence[int]]) -> list[torch.Tensor]:
    """float32[L, V] for each prompt: log-probabilities of the next tokens."""
    return [
        model(input_ids=torch.tensor([ids])).logits[0].float().log_softmax(-1)
        for ids in prompts
    ]


def _check_written(
    folder: Path,
    source: Path,
    prompts: Sequence[Sequence[int]],
    wanted: Sequence[torch.Tensor],
) -> None:
    """Raises ValueError unless the model of a folder has the log-probabilities that are wanted."""
    model: Any = AutoModelForCausalLM.from_pretrained(folder).eval()
    pairs = zip(_logprobs(model, prompts), wanted, strict=True)
    gap = max(gap_of((logprobs - own).abs(), model.dtype) for logprobs, own in pairs)
    if not gap <= tolerance(model.dtype):
        raise ValueError(
            f"want a merged model that plays as {str(source)!r} does, got log-probabilities "
            f"that differ by {gap:.3g} nats on {len(prompts)} prompts (at most "
            f"{tolerance(model.dtype)}), so nothing was written; play the adapter itself as "
            f"lm:{source}, or train one without {_unusual(source)}"
        )


def _unusual(source: Path) -> str:
    """The options of an adapter that may keep it from being merged."""
    config = json.loads((source / ADAPTER).read_bytes())
    names = ("modules_to_save", "trainable_token_indices", "use_dora", "bias")
    set_names = [n for n in names if config.get(n) not in (None, [], False, "none")]
    return " and ".join(set_names) or "lora_target_modules of embeddings"


def _copy_card(source: Path, target: Path) -> None:
    """Copies a model card, which then says that the model is a whole one."""
    from huggingface_hub import ModelCard

    card: Any = ModelCard.load(source, ignore_metadata_errors=True)
    card.data.library_name = "transformers"
    card.data.tags = [tag for tag in card.data.tags or () if tag != "lora"]
    card.save(target)
