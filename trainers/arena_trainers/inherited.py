"""TRL's options on the help page of `arena train`, by group.

TRL's own help of them is longer than a line, or describes another trainer.
"""

HELP_OF_TRL = {
    "Run": {
        "seed": "Seed of the model, the episodes and the order of the data.",
        "max_steps": "Optimizer steps.",
    },
    "Sampling": {
        "temperature": "Sampling temperature.",
        "top_k": "Samples from the k likeliest tokens; 0: all.",
        "top_p": "Samples from the likeliest tokens of this total probability; 1 for "
        "all.",
        "min_p": "Samples from tokens of this share of the likeliest one's "
        "probability.",
        "repetition_penalty": "Makes repeated tokens less likely; 1: no.",
        "max_completion_length": "Longest reply, in tokens.",
        "chat_template_kwargs": "Arguments of the chat template.",
        "use_vllm": "Whether vLLM generates.",
        "vllm_mode": "colocate (in this process) or server.",
        "vllm_server_base_url": "URL of the server; arena serve policy starts one.",
    },
    "Episodes and batch": {
        "num_generations": "Episodes per group: all have the same start.",
        "per_device_train_batch_size": "Episodes per process and backward pass; "
        "computed if episodes_per_step is given.",
        "gradient_accumulation_steps": "Backward passes per optimizer step.",
        "num_iterations": "Passes over each generation batch.",
    },
    "Optimization": {
        "learning_rate": "Learning rate of AdamW.",
        "lr_scheduler_type": "Schedule of the rate: linear, cosine, ...",
        "warmup_steps": "Steps in which the learning rate rises from 0.",
        "max_grad_norm": "Clips gradients to this norm; 0 for no clipping.",
        "loss_type": "Loss: grpo, bnpo, dr_grpo, dapo, cispo, ...",
        "epsilon": "Clipping range of the ratio.",
        "epsilon_high": "Upper clipping range; epsilon if not given.",
        "beta": "Weight of the KL term; 0 for no reference model.",
        "sync_ref_model": "Whether to update the reference model.",
        "ref_model_sync_steps": "Steps between updates of the reference model.",
        "bf16": "Whether to train in bfloat16.",
        "gradient_checkpointing": "Whether to recompute activations: less memory, "
        "more time.",
        "use_cpu": "Whether to train on the CPU despite a GPU.",
    },
    "Output": {
        "logging_steps": "Steps between logs.",
        "save_steps": "Steps between checkpoints.",
        "save_total_limit": "Number of checkpoints to keep.",
        "report_to": "Other logs: wandb, tensorboard, ...",
        "run_name": "Name of the run in the logs of report_to.",
    },
    "": {
        "vllm_server_timeout": "Longest silence of the server in seconds, also while "
        "it loads weights; then the run ends.",
    },
}
