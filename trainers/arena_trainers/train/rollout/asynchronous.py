"""`AsyncPlayer`: batches of the next step are played while one trains (`asynchronous`).

Number, seeds, seats and weights of a batch follow from the number of its step, so no record depends on
which process was faster. A checkpoint holds the weights that play the episodes in flight; a resumed run plays these again with
them, and equals the unbroken run. The loss compares with the policy that played: its ratio is π / μ for each token, with
log μ as carried from sampling.
"""

import copy
import pickle
import shutil
import signal
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent import futures
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from multiprocessing import Pipe, get_context, resource_tracker
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from arena_trainers.engines.settings import by_server
from arena_trainers.engines.weights import PLAYERS, write_weights
from arena_trainers.processes import (
    is_main_process,
    num_processes,
    patient_group,
    raised_everywhere,
)
from arena_trainers.train.metrics import num_played
from arena_trainers.train.parts import PlayingLoop
from arena_trainers.train.played import PlayedBatch
from arena_trainers.train.rollout.jobs import (
    WEIGHTS,
    FinishedJob,
    Job,
    PlayerSetup,
    job_player,
    play_jobs,
)
from arena_wrappers.policies import without_noise

FOLDER = "player"  # of runs and checkpoints
END_SIGNALS = signal.SIGINT, signal.SIGTERM  # signals after which it ends in order


class AsyncPlayer:
    """The part of `TurnGRPOTrainer` that has batches played beside training.

    Args:
        trainer: with its parts that play.

    Raises:
        ValueError: play would need the device or the model that trains, or what another
            process cannot get.
    """

    def __init__(self, trainer: PlayingLoop) -> None:
        self.trainer, self.args = trainer, trainer.args
        options: Any = self.args.asynchronous  # not None, or there is no such player
        self.in_flight: int = options["in_flight"]
        self.folder = Path(str(self.args.output_dir)).absolute() / FOLDER
        self.serves = by_server(self.args)
        games, learner = trainer.games, trainer.policy.model
        if not self.serves and self.args.device.type != "cpu":
            raise ValueError(
                "asynchronous does not support transformers on a GPU: training needs it; "
                "leave it out"
            )
        if self.serves and any(policy.model is learner for policy in games.models):
            raise ValueError(
                "asynchronous does not support adapters on the learner's base: it trains; "
                "leave it out"
            )
        if not self.serves:  # the other process loads models itself
            without_models = {
                name: policy
                for name, policy in games.opponents.items()
                if without_noise(policy) not in games.models
            }
            games = replace(
                games, opponents=without_models, functions={}, curriculum=None
            )
        self._setup = PlayerSetup(
            self.args, games, trainer.agent, trainer.player.group_sizes
        )
        try:
            pickle.dumps(None if self.serves else self._setup)
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise ValueError(
                "asynchronous wants policies and an agent that pickle can send to another "
                f"process, got others ({error}); define them at the top of a module"
            ) from error
        if self.serves and num_processes() == 1:  # else `play` does it, in all of them
            backend: Any = trainer.policy.backend  # a `TimedBackend`
            backend.before = self.settle
        self._per_step = int(self.args.generations_per_step)
        self._loader: Any = None
        self._read: deque[list[Any]] = deque()  # batches of the loader
        self._starts: deque[list[Any]] = deque()  # of the batch that is next, and later
        self._number = 0  # of the batch that is next
        # in flight
        self._jobs: deque[tuple[Job, futures.Future[FinishedJob]]] = deque()
        self._resumed: int | None = None  # version that plays what was in flight
        self._versions: set[int] = set()  # whose weights are in the folder
        self._pool: Any = None
        self._play: Callable[[Job], FinishedJob]

    @contextmanager
    def running(self) -> Iterator[None]:
        """The player lives in this context."""
        self._clear()  # of a run that was killed
        if self.serves and num_processes() > 1:
            patient_group(PLAYERS)
        self._pool = futures.ThreadPoolExecutor(1)
        try:
            with self._player() as self._play:
                yield
                self.settle()
        finally:
            self._pool.shutdown(cancel_futures=True)
            self._pool = None
            self._jobs.clear()
            if not self.serves:
                shutil.rmtree(self.folder, ignore_errors=True)

    def _clear(self) -> None:
        """Empties the folder, which all processes share."""
        self._versions.clear()
        with raised_everywhere():
            if is_main_process():
                shutil.rmtree(self.folder, ignore_errors=True)

    @contextmanager
    def _player(self) -> Iterator[Callable[[Job], FinishedJob]]:
        trainer, policy = self.trainer, self.trainer.policy
        if self.serves:
            other_policy = copy.copy(policy)
            other_policy.begin_memos()  # another thread reads those of the learner
            yield job_player(
                self._setup, other_policy, trainer.accelerator, trainer.sender.take
            )
            return
        model = self.folder / "model"
        policy.save_pretrained(model)
        line, line_of_player = Pipe()
        # spawned, as a fork after torch's threads have run may hang
        spawn = get_context("spawn").Process
        process = spawn(
            target=play_jobs,
            kwargs={
                "line": line_of_player,
                "setup": self._setup,
                "folder": model,
                "dtype": policy.model.dtype,
                "num_threads": torch.get_num_threads(),
            },
            daemon=True,
        )
        resource_tracker.ensure_running()  # else `start` does, and admits the signals
        before = signal.pthread_sigmask(signal.SIG_BLOCK, END_SIGNALS)  # inherited
        process.start()
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        line_of_player.close()  # so that the end of the process is noticed

        def play(job: Job) -> FinishedJob:
            try:
                line.send(job)
                finished: FinishedJob = line.recv()
            except (EOFError, OSError) as error:
                raise RuntimeError(
                    "the process that plays has ended; what it printed is above. Resume the "
                    "run from its last checkpoint"
                ) from error
            return finished

        try:
            yield play
        finally:
            process.kill()

    def read(self, loader: Iterator[Any], num_batches: int) -> Iterator[Any]:
        """The loader's batches of a step; those of the step after it are known from here."""
        if loader is not self._loader:  # of another epoch
            self._loader, self._read = loader, deque()
        self._read.extend(islice(loader, 2 * num_batches - len(self._read)))
        times = (self.args.steps_per_generation or 1) * self.args.num_iterations
        self._starts = deque(islice(self._read, 0, None, times))
        num_read = min(num_batches, len(self._read))
        return iter([self._read.popleft() for _ in range(num_read)])

    def play(self, starts: list[Any], step: int, trains: bool) -> PlayedBatch:
        """As `RolloutPlayer.play`; where the batch is trained, those after it are submitted."""
        player, clock = self.trainer.player, self.trainer.clock
        if not trains:
            self.settle()
            played: PlayedBatch = player.play(starts, step, trains)
            return played
        with clock.part("environment"):
            began, dropped = time.perf_counter(), 0
            self._number = player.generation_number(step)
            if self._resumed is not None:
                self._fill(self._resumed)
                dropped, self._resumed = len(starts) * len(self._jobs), None
            if not self._jobs:
                self._submit(step)
            job, future = self._jobs.popleft()
            finished = future.result()
            player.end(job.played, finished.episodes, step)
            self._starts.popleft()
            self._number += 1
            self._fill(step)
            waited = time.perf_counter() - began
        clock.counts.update(
            num_played(finished.episodes),
            generated=finished.num_tokens,
            beside=round(1000 * finished.spent["generation"].wall),
        )
        self._note(
            staleness=step - job.version,
            dropped_episodes=dropped,
            play_seconds=sum(part.wall for part in finished.spent.values()),
            play_cpu_seconds=sum(part.cpu for part in finished.spent.values()),
            wait_seconds=waited,
        )
        return job.played

    def settle(self) -> None:
        """Waits for what is in flight; then a server has the weights of this moment."""
        if self.serves and self._pool is not None:
            step = self.trainer.state.global_step
            empty = PlayedBatch([], [], [], [], [], 0, False)
            job = Job(empty, step, self._weights(step))
            self._pool.submit(self._play, job).result()

    def _fill(self, version: int) -> None:
        """Submits the next batches, as far as staleness and queue allow."""
        last = min(version + 1, self.trainer.state.max_steps - 1)
        most = min((last + 1) * self._per_step - self._number, len(self._starts))
        while len(self._jobs) < min(most, self.in_flight - 1):
            self._submit(version)

    def _submit(self, version: int) -> None:
        """Has the first batch that is not in flight played with the weights of a step."""
        place = len(self._jobs)
        number, starts = self._number + place, self._starts[place]
        batch = self.trainer.player.begin(
            starts, number // self._per_step, number, trains=True
        )
        job = Job(batch, version, self._weights(version))
        self._jobs.append((job, self._pool.submit(self._play, job)))

    def _weights(self, version: int) -> Path:
        """The folder of a version, which is written if it is that of this moment."""
        path = self.folder / f"step-{version}"
        if version in self._versions:
            return path
        # the last is not played yet
        needed = {job.version for job, _ in self._jobs} | {version, self._resumed}
        accelerator, wrapped = self.trainer.accelerator, self.trainer.model_wrapped
        # every process takes part, as several may hold a part of each weight
        state = accelerator.get_state_dict(wrapped) if self.serves else {}
        with raised_everywhere():
            if accelerator.is_main_process:
                for old in self._versions - needed:
                    shutil.rmtree(self.folder / f"step-{old}")
                self._write(path, state)
        self._versions = self._versions & needed | {version}
        return path

    def _write(self, path: Path, state: dict[str, torch.Tensor]) -> None:
        """Writes the weights of this moment: those of `state`, or what another process lacks."""
        model = self.trainer.policy.model
        if self.serves:
            write_weights(model, state, path)
            return
        path.mkdir(parents=True)
        weights = {
            name: weight.detach()
            for name, weight in model.named_parameters()
            if weight.requires_grad
        }
        save_file(weights, path / WEIGHTS)

    def measure(
        self, logprobs: torch.Tensor, counted: torch.Tensor, inputs: Mapping[str, Any]
    ) -> None:
        """Logs the importance ratios of a micro-batch; arguments as `MismatchCheck`'s."""
        gap = logprobs.detach() - inputs["sampling_per_token_logps"]
        ratio = gap[counted].double().exp()
        if len(ratio):
            mean, square = float(ratio.mean()), float((ratio**2).mean())
            self._note(ratio=mean, effective_sample_size=mean**2 / square)

    def _note(self, **values: float) -> None:
        metrics = {f"arena/asynchronous/{name}": x for name, x in values.items()}
        self.trainer.note(metrics, "train")  # also where the model is in eval mode

    def save(self, checkpoint: Path) -> None:
        """Keeps the weights that play what is in flight."""
        if self._jobs:
            path = self._jobs[0][0].weights
            shutil.copytree(path, checkpoint / FOLDER / path.name)

    def load(self, checkpoint: Path) -> None:
        """Has what was in flight at a checkpoint played again, when training goes on."""
        for path in (checkpoint / FOLDER).glob("step-*"):
            self._resumed = int(path.name.removeprefix("step-"))
            self._versions.add(self._resumed)
            with raised_everywhere():
                if is_main_process():
                    shutil.copytree(path, self.folder / path.name)
