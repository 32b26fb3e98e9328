"""The files that a `TurnGRPOTrainer` saves besides TRL's, and reads when a run resumes."""

from pathlib import Path
from typing import Any

import torch

from arena_trainers.lm.prompt_file import PROMPT_FILE
from arena_trainers.train.bounded_forward import BoundedForwardTrainer
from arena_trainers.train.checkpoint import credited_by, load_credit, save_credit
from arena_trainers.train.credit import BatchCredit
from arena_trainers.train.matching import Matching, PreparedGames, Tasks
from arena_trainers.train.resume import keep_to_schedule
from arena_trainers.train.sharding import load_whole

REFERENCE = "reference_model.pt"


class CheckpointedTrainer(BoundedForwardTrainer):
    """The part of `TurnGRPOTrainer` that writes models and checkpoints.

    Attributes:
        credit: gives turns their credit; its state and critic are saved.
        games: the games, as `prepare_games` made them.
        matching: assigns the seats of starts.
        tasks: assigns the games of starts.
    """

    credit: BatchCredit
    games: PreparedGames
    matching: Matching
    tasks: Tasks
    _prompt_json: str

    def create_model_card(self, *args: Any, **kwargs: Any) -> None:
        """Writes no model card: TRL's describes other training. `arena train` writes one."""

    def save_model(
        self, output_dir: str | None = None, _internal_call: bool = False
    ) -> None:
        """Saves the model with its `arena_prompt.json`; only the main process writes."""
        folder = Path(output_dir or str(self.args.output_dir))
        if self.args.should_save:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / PROMPT_FILE).write_text(self._prompt_json)
        card = folder / "README.md"
        has_card = card.exists()
        super().save_model(output_dir, _internal_call)
        if self.args.should_save and not has_card:
            card.unlink(missing_ok=True)  # peft's is a form with empty fields

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        super()._save_checkpoint(model, trial)
        step = f"checkpoint-{self.state.global_step}"
        folder = Path(self._get_output_dir(trial=trial)) / step
        self.matching.save_replies(folder)
        weights = None
        if self.args.sync_ref_model:  # every process takes part where it is sharded
            weights = self.accelerator.get_state_dict(self.ref_model)
        if not self.args.should_save:
            return
        if weights is not None:
            torch.save(weights, folder / REFERENCE)
        self.matching.save(folder)
        self.tasks.save(folder)
        owner = credited_by(self.args, self.games.plans)
        save_credit(
            folder, owner, self.credit.state, self.credit.critic
        )  # the last file

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        super()._load_optimizer_and_scheduler(checkpoint)
        if checkpoint is None:
            return
        keep_to_schedule(self.lr_scheduler)
        owner = credited_by(self.args, self.games.plans)
        self.credit.state = load_credit(Path(checkpoint), owner, self.credit.critic)
        self.matching.load(Path(checkpoint))
        self.tasks.load(Path(checkpoint))
        reference = Path(checkpoint) / REFERENCE
        if self.args.sync_ref_model and reference.is_file():
            weights = torch.load(reference, map_location="cpu", weights_only=True)
            load_whole(self.ref_model, weights, self.accelerator)
