"""`WholeLearners`: several learners with a whole model each."""

import copy
from pathlib import Path
from typing import Any

import torch
from trl.trainer import grpo_trainer
from trl.trainer.utils import add_fused_lm_head, disable_dropout_in_model

from arena_trainers.lm.backends.memory import free_memory
from arena_trainers.lm.model_memory import check_memory, whole_memory
from arena_trainers.train.learners import Learners, learner_starts
from arena_trainers.train.score.reference_model import check_vocabulary


class WholeLearners(Learners):
    """Learners with a whole model each.

    The first is TRL's model. The others are its submodule `learners`, so that their weights are
    optimised, clipped and reset with its own.

    Attributes:
        models: of the learners.
        references: the model of each at the start; None if no term of the loss reads it.
    """

    def _make(self, source: Any) -> None:
        """Makes the models from the one that the run was given."""
        args, num = self.trainer.args, self.trainer.accelerator.num_processes
        if num > 1:
            raise ValueError(
                f"a whole model for each role does not support {num} processes: only one "
                "has been tested; leave it out"
            )
        if args.use_vllm:
            raise ValueError(
                "a whole model for each role does not support use_vllm: an engine holds "
                "one model; leave it out"
            )
        size = sum(p.nbytes for p in self.model.parameters())
        check_memory(whole_memory(args, size), free_memory(args.device) + size)
        starts = learner_starts(args, source)
        self.models = [self.model, *map(self._copied_model, starts[1:])]
        for name, start, model in zip(self.names, starts, self.models, strict=True):
            self._check_fit(name, model)
            if start is not source:
                check_vocabulary(start, self.trainer.chat_tokenizer)
        reference_of: dict[Any, Any] = {}
        for start in starts if args.reads_reference else ():
            if start not in reference_of:
                reference = self._copied_model(start).eval().requires_grad_(False)
                reference_of[start] = reference
        self.references = [reference_of.get(start) for start in starts]
        self.trainer.ref_model = self.references[0]
        self.weights = [list(model.parameters()) for model in self.models]
        self.model.learners = torch.nn.ModuleList(self.models[1:])

    def _copied_model(self, source: Any) -> Any:
        """A model of a folder, or a copy of a model, which scores as TRL's own does."""
        trainer, args = self.trainer, self.trainer.args
        if isinstance(source, (str, Path)):
            init_options: Any = args.model_init_kwargs or {}
            model = grpo_trainer.create_model_from_path(str(source), **init_options)
        else:
            model = copy.deepcopy(source)
            vars(model).pop("forward", None)  # TRL's, which would run the source
        if args.disable_dropout:
            disable_dropout_in_model(model)
        outputs = "log_probs", "entropy"
        add_fused_lm_head(model, temperature=trainer.temperature, outputs=outputs)
        return trainer.accelerator.prepare_model(model, evaluation_mode=True)

    def _check_fit(self, name: str, model: Any) -> None:
        """Raises ValueError for a model of other shapes than the first."""
        first_shapes, own_shapes = _shapes(self.model), _shapes(model)
        for key in sorted({*first_shapes, *own_shapes}):
            first_shape, own_shape = first_shapes.get(key), own_shapes.get(key)
            if first_shape != own_shape:
                raise ValueError(
                    f"want {key} of {name!r} in the shape {first_shape} of the first role's "
                    f"model, got {own_shape}; give models of one architecture and size"
                )

    def use(self, learner: int, model: Any = None) -> Any:
        """The model of a learner, or its reference in place of the first one."""
        is_reference = model is not None and model is self.references[0]
        return (self.references if is_reference else self.models)[learner]

    def save(self, folder: Path) -> bool:
        for name, model in zip(self.names, self.models, strict=True):
            weights = {
                k: v for k, v in model.state_dict().items() if "learners." not in k
            }
            model.save_pretrained(folder / name, state_dict=weights)
            self.trainer.processing_class.save_pretrained(folder / name)
        return True

    def load(self, checkpoint: Path) -> bool:
        for name, model in zip(self.names, self.models, strict=True):
            if not (checkpoint / name / "config.json").is_file():
                raise ValueError(
                    f"want a whole model of {name!r} in {str(checkpoint)!r}, got none; "
                    "resume with the roles of that run"
                )
            path = str(checkpoint / name)
            saved = grpo_trainer.create_model_from_path(
                path, dtype="auto", device_map=None
            )
            self._check_fit(name, saved)
            model.load_state_dict(saved.state_dict(), strict=False)
        return True


def _shapes(model: Any) -> dict[str, tuple[int, ...]]:
    """The shape of each weight of a model, without those of further learners."""
    return {
        name: tuple(weight.shape)
        for name, weight in model.named_parameters()
        if "learners." not in name
    }
