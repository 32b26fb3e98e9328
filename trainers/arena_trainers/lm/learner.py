"""`learner_of`: the model that a trainer of TRL's trains, as a policy."""

from typing import Any

from arena_trainers.lm.policy import LMPolicy


def learner_of(trainer: Any, **options: Any) -> LMPolicy:
    """The policy of a trainer's model, with the trainer's sampling settings.

    Args:
        trainer: a `trl.GRPOTrainer`.
        **options: arguments of `LMPolicy`. `max_new_tokens`, of one reply, is by default the
            trainer's `max_completion_length`.

    Raises:
        ValueError: the trainer generates by vLLM; or as for `LMPolicy`.
    """
    args = trainer.args
    if args.use_vllm:
        raise ValueError(
            "learner_of generates with transformers, got a trainer with use_vllm=True; set "
            "use_vllm=False, or train with TurnGRPOTrainer, which plays by vLLM"
        )
    from trl.models import unwrap_model_for_generation

    given = {
        "name": "self",
        "max_new_tokens": args.max_completion_length,
        "temperature": args.temperature,
        "top_k": args.top_k,
        "top_p": args.top_p,
        "min_p": args.min_p or 0.0,
        "repetition_penalty": args.repetition_penalty,
        "chat_template_kwargs": args.chat_template_kwargs,
        "context": lambda: unwrap_model_for_generation(
            trainer.model_wrapped,
            trainer.accelerator,
            gather_deepspeed3_params=args.ds3_gather_for_generation,
        ),
    }
    processing = trainer.processing_class
    return LMPolicy(
        trainer.accelerator.unwrap_model(trainer.model),
        getattr(processing, "tokenizer", processing),
        **{**given, **options},
    )
