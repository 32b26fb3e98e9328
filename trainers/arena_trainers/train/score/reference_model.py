"""The model of a folder as the reference: found, checked, and made as TRL makes its own."""

from typing import Any

from accelerate import Accelerator
from transformers import AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase
from trl.models import prepare_deepspeed, prepare_fsdp
from trl.trainer import grpo_trainer
from trl.trainer.utils import add_fused_lm_head, disable_dropout_in_model

from arena_trainers.lm.models import check_language_model, model_folder
from arena_trainers.train.config import TurnGRPOConfig


def reference_folder(args: TurnGRPOConfig) -> str | None:
    """The folder of the model of `reference`, if it has one of its own."""
    name = (args.reference or {}).get("model")
    return None if name is None else str(model_folder(name))


def check_vocabulary(path: str, tokenizer: PreTrainedTokenizerBase) -> None:
    """Raises ValueError for a model that reads tokens otherwise than the learner."""
    if AutoTokenizer.from_pretrained(path).get_vocab() != tokenizer.get_vocab():
        raise ValueError(
            f"want {path!r} with the tokenizer of the model, got another; choose a "
            "model of the same family"
        )


def make_reference(
    path: str,
    *,
    learner: PreTrainedModel,
    args: TurnGRPOConfig,
    accelerator: Accelerator,
    temperature: float,
) -> Any:
    """The model of a folder as a reference, loaded and prepared as TRL does it for the learner's own.

    Args:
        path: the folder.
        learner: its type of numbers and attention are the default of the reference.
        args: how models are loaded.
        accelerator: of the trainer.
        temperature: of the log-probabilities.
    """
    check_language_model(path)
    options: Any = args.model_init_kwargs or {}
    init_options = {
        "trust_remote_code": args.trust_remote_code,
        "dtype": learner.dtype,
        "attn_implementation": learner.config._attn_implementation,
        **options,
    }
    if args.distributed_state.distributed_type in ("MULTI_GPU", "DEEPSPEED"):
        init_options["device_map"] = None  # each process places its own
    model = grpo_trainer.create_model_from_path(path, **init_options)
    if args.disable_dropout:
        disable_dropout_in_model(model)
    if args.cast_lm_head_to_fp32:
        dtype = model.dtype
        model.get_output_embeddings().float()
        # embeddings may share the weights, and the layers behind them read the old type
        model.get_input_embeddings().register_forward_hook(
            lambda module, inputs, output: output.to(dtype)
        )
    add_fused_lm_head(
        model, temperature=temperature, cast_lm_head_to_fp32=args.cast_lm_head_to_fp32
    )
    state = accelerator.state
    if getattr(state, "deepspeed_plugin", None) is not None:
        return prepare_deepspeed(model, accelerator)
    if getattr(state, "fsdp_plugin", None) is not None:
        return prepare_fsdp(model, accelerator)
    return accelerator.prepare_model(model, evaluation_mode=True)
