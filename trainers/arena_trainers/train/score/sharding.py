"""Weights that are split among processes, by FSDP2 or DeepSpeed's ZeRO-3.

Each process plays different games with different numbers of turns. So play must not wait for other
processes: while it lasts, every process holds all weights. The same is done for a loss that is computed
in several chunks, because the number of chunks differs between processes.
"""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Any

import torch
from accelerate.utils import gather_object
from torch.nn import Module
from trl.models.utils import add_hooks, remove_hooks

from arena_trainers.lm.loading import unsharded_loading
from arena_trainers.train.parts import ShardedLoop


def is_zero3(accelerator: Any) -> bool:
    """Whether DeepSpeed splits the weights."""
    plugin = accelerator.state.deepspeed_plugin
    return plugin is not None and plugin.zero_stage == 3


def check_sharding(accelerator: Any, has_reference: bool) -> None:
    """Raises ValueError for sharding that gives wrong weights, or has not been tested.

    Args:
        accelerator: of the trainer.
        has_reference: whether there is a reference model of its own.
    """
    fsdp = getattr(accelerator.state, "fsdp_plugin", None)
    if fsdp is not None and fsdp.fsdp_version != 2:
        raise ValueError(
            f"want FSDP2, got fsdp_version {fsdp.fsdp_version}; set fsdp_version: 2 in "
            "the configuration of accelerate"
        )
    if fsdp is not None and fsdp.cpu_ram_efficient_loading and has_reference:
        raise ValueError(
            "want the weights of the reference model in every process, got "
            "fsdp_cpu_ram_efficient_loading, which loads them in one; set "
            "fsdp_cpu_ram_efficient_loading: false in the configuration of accelerate, "
            "or beta to 0"
        )
    if fsdp is not None and "FULL" not in str(fsdp.state_dict_type):
        raise ValueError(
            f"want whole weights in a saved model, got {fsdp.state_dict_type}; set "
            "fsdp_state_dict_type: FULL_STATE_DICT in the configuration of accelerate"
        )
    if is_zero3(accelerator):
        config = accelerator.state.deepspeed_plugin.deepspeed_config
        key = "stage3_gather_16bit_weights_on_model_save"
        if not config["zero_optimization"].get(key):
            raise ValueError(
                f"want whole weights in a saved model, got {key} false; set "
                "zero3_save_16bit_model: true in the configuration of accelerate"
            )


@contextmanager
def whole_weights(model: Module, accelerator: Any) -> Iterator[None]:
    """Within this context every process has all weights of a model, and may use it alone.

    Every process must enter and leave it. It must not be nested. Where weights are not
    sharded, nothing happens.
    """
    if accelerator.is_fsdp2:
        with _unsharded(model, accelerator.state.fsdp_plugin.reshard_after_forward):
            yield
    elif is_zero3(accelerator):
        with _gathered(model):
            yield
    else:
        yield


@contextmanager
def _unsharded(model: Any, reshard_after_forward: bool) -> Iterator[None]:
    """`whole_weights` under FSDP2."""
    from torch.distributed.fsdp import FSDPModule

    parts = [part for part in model.modules() if isinstance(part, FSDPModule)]
    for part in parts:
        part.set_reshard_after_forward(False, recurse=False)
        part.set_reshard_after_backward(False, recurse=False)
        part.unshard()
    try:
        yield
    finally:
        for part in parts:
            outer = part is model  # its weights are used first and last
            part.set_reshard_after_forward(
                reshard_after_forward and not outer, recurse=False
            )
            part.set_reshard_after_backward(True, recurse=False)
            part.reshard()


@contextmanager
def _gathered(model: Any) -> Iterator[None]:
    """`whole_weights` under ZeRO-3."""
    import deepspeed

    # whole models: else TRL would gather the output layer again in the backward pass
    parameters = deepspeed.zero.GatheredParameters(list(model.parameters()))
    with parameters, unsharded_loading(), _without_hooks(model):
        yield


@contextmanager
def _without_hooks(model: Any) -> Iterator[None]:
    """Keeps DeepSpeed from gathering layer by layer, and from comparing the processes.

    TRL leaves the hook of the whole model, which waits for the other processes.
    """
    if not hasattr(model, "optimizer"):  # before training
        yield
        return
    offload = getattr(model.optimizer, "parameter_offload", model.optimizer)
    key, hooks = offload.fwd_pre_hook.id, offload.module._forward_pre_hooks
    compare = hooks.pop(key)
    remove_hooks(model)
    try:
        yield
    finally:
        hooks[key] = compare
        add_hooks(model)


def load_whole(model: Module, weights: Mapping[str, Any], accelerator: Any) -> None:
    """Gives a model the weights of `accelerator.get_state_dict`; every process calls it.

    Args:
        model: as `accelerator.prepare` made it.
        weights: by name; each process has all of them.
        accelerator: of the trainer.
    """
    inner = accelerator.unwrap_model(model)
    if accelerator.is_fsdp2:
        from torch.distributed.checkpoint.state_dict import (
            StateDictOptions,
            set_model_state_dict,
        )

        options = StateDictOptions(full_state_dict=True)
        set_model_state_dict(model, dict(weights), options=options)
    elif is_zero3(accelerator):
        import deepspeed

        with deepspeed.zero.GatheredParameters(
            list(model.parameters()), modifier_rank=0
        ):
            inner.load_state_dict(weights)
    else:
        inner.load_state_dict(weights)


class ShardedWeights:
    """The part of `TurnGRPOTrainer` that knows where the weights are.

    Args:
        trainer: TRL's trainer, after its construction.

    Attributes:
        held: weights that are held from a forward pass until its backward pass is over.

    Raises:
        ValueError: as `check_sharding`.
    """

    def __init__(self, trainer: ShardedLoop) -> None:
        self.trainer, self.accelerator = trainer, trainer.accelerator
        self.held = ExitStack()
        check_sharding(self.accelerator, has_reference=trainer.ref_model is not None)

    def whole_weights(self, model: Any = None) -> AbstractContextManager[None]:
        """Within this context each process can use the model without the others.

        Every process must enter it, outside of play and training. Evaluations by one process
        need it; see `arena_trainers.train.score.sharding.whole_weights`.
        """
        if model is None or model is self.trainer.model:
            model = self.trainer.model_wrapped
        return whole_weights(model, self.accelerator)

    def weights_for_play(self, scores: bool = False) -> AbstractContextManager[None]:
        """`whole_weights`, unless all replies of the model come from a server."""
        policy = self.trainer.policy
        players = (policy, *self.trainer.games.models)
        generates = any(
            player.backend.runs_model
            for player in players
            if player.model is policy.model
        )
        needs_weights = generates or scores or self.trainer.args.critic == "exact"
        return self.whole_weights() if needs_weights else nullcontext()

    def weights_for(self, model: Any, num_passes: int) -> AbstractContextManager[None]:
        """Weights for forward passes, and for their backward pass if there is one.

        A pass through sharded weights waits for a pass of every other process. So where one
        process makes several, all of them hold all weights.

        Args:
            model: runs the rows.
            num_passes: forward passes of this process.
        """
        sharded = bool(self.accelerator.is_fsdp2) or is_zero3(self.accelerator)
        if not sharded or max(gather_object([num_passes])) == 1:
            return nullcontext()
        is_own = model is self.trainer.model_wrapped
        whole = self.whole_weights(None if is_own else model)
        if not torch.is_grad_enabled():
            return whole
        self.held.enter_context(whole)  # until the backward pass is over
        self.held.enter_context(self._checkpointing_once())
        if self.accelerator.is_fsdp2:
            self.held.enter_context(self._reduced_once())
        return nullcontext()

    @contextmanager
    def _checkpointing_once(self) -> Iterator[None]:
        """Has a backward pass give each gradient once, as DeepSpeed wants it.

        For adapters under ZeRO-3 TRL asks for reentrant checkpointing of layers, which gives
        a gradient for each pass, and which whole weights do not need.
        """
        options: Any = self.trainer.args.gradient_checkpointing_kwargs or {}
        reentrant = self.trainer.args.gradient_checkpointing and options.get(
            "use_reentrant"
        )
        model = self.accelerator.unwrap_model(self.trainer.model)
        if reentrant:
            model.gradient_checkpointing_enable({**options, "use_reentrant": False})
        try:
            yield
        finally:
            if reentrant:
                model.gradient_checkpointing_enable(options)

    @contextmanager
    def _reduced_once(self) -> Iterator[None]:
        """Has FSDP2 sum gradients over the processes once, at the end of this context.

        In the backward pass it would do so after each chunk that finds a gradient. With gradient
        accumulation those of earlier batches are there from the first chunk on.
        """
        self.trainer.model_wrapped.set_requires_gradient_sync(False)
        yield
        if self.accelerator.sync_gradients:
            self.trainer.model_wrapped.set_requires_gradient_sync(True)
            # What a backward pass ends with; there is no public call.
            self.trainer.model_wrapped._get_fsdp_state()._root_post_backward_final_callback()
