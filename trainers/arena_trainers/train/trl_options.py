"""`TRLOptions`: the types of TRL's options that self-play reads, without importing TRL (6 s)."""

from typing import TYPE_CHECKING, Any


class TRLOptions:
    """Options of `GRPOConfig`, which sets their values; `Draft` has them, too."""

    if TYPE_CHECKING:  # else they would stand before the annotations of `GRPOConfig`
        output_dir: str | None
        seed: int
        max_steps: int
        num_train_epochs: float
        logging_steps: float
        save_steps: float
        save_strategy: Any  # an enumeration of transformers, or its text
        eval_strategy: Any  # likewise
        learning_rate: float
        ddp_timeout: int
        model_init_kwargs: Any  # a dict, or None
        use_cpu: bool
        fp16: bool
        auto_find_batch_size: bool
        optim: Any  # an enumeration of transformers, or its text
        use_liger_kernel: bool
        per_device_train_batch_size: int
        per_device_eval_batch_size: int
        gradient_accumulation_steps: int
        generation_batch_size: int | None
        steps_per_generation: int | None
        num_generations: Any  # an int: TRL's None is an old default
        num_generations_eval: int | None
        num_iterations: int
        max_completion_length: int | None
        temperature: float
        top_p: float
        top_k: int
        min_p: float | None
        repetition_penalty: float
        generation_kwargs: dict[str, Any] | str | None
        cache_implementation: str | None
        use_transformers_continuous_batching: bool
        use_vllm: bool
        vllm_mode: str
        beta: float
        loss_type: str
        reward_weights: list[float] | None
        multi_objective_aggregation: str
        scale_rewards: str
        fsdp: Any  # the type differs between versions of transformers
        deepspeed: Any  # likewise
        vllm_enable_sleep_mode: bool
        vllm_group_port: int
        vllm_importance_sampling_correction: bool
        vllm_server_base_url: str | None
        vllm_server_host: str
        vllm_server_port: int
        vllm_server_timeout: float
        vllm_structured_outputs_regex: str | None
        vllm_tensor_parallel_size: int
