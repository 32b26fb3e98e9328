"""`asynchronous: {max_staleness: 1, in_flight: 2}`: play beside training, one optimizer step ahead.

While a step trains, the episodes of the next one are played, with the weights that the step began
with. So what is trained was played with weights that are one step old (its *staleness*; 0 in the first
step). `max_staleness: 0` plays in the same place with the weights of the step itself, so that nothing
is played ahead but batches of the same step; its weights are those of a run without `asynchronous`.

| engine | plays in |
|---|---|
| transformers, on a CPU | a second process, with a copy of the model; weights reach it as files |

**Correction.** Each token has the log-probability with which it was sampled, log μ. The loss compares with
μ in place of the policy before the step, so its importance ratio is ρ = π / μ for each token, within the
clipping range of the loss (`epsilon`). TRL's `AsyncGRPOTrainer` does likewise.

**Order.** A batch has its number, seeds, seats and weights when it is submitted, which depends on the
number of the step alone. So no record depends on which process was faster. At most `in_flight` batches
are played and not yet trained, that of the step included.

**Resume.** A checkpoint holds the weights with which batches in flight were played. A resumed run
discards these batches and plays them again with them, so it is the unbroken one bit for bit.

| metric `arena/asynchronous/...` | formula | healthy range |
|---|---|---|
| `staleness` | optimizer steps between the weights that play and those that are trained | at most `max_staleness` |
| `ratio` | mean of ρ over trained tokens, before the weights move | near 1 |
| `effective_sample_size` | (Σ ρ)² / (n Σ ρ²) over n trained tokens | above 0.5 |
| `dropped_episodes` | episodes that were played ahead for other starts, and played anew | 0 |
| `play_seconds`, `play_cpu_seconds` | seconds that the player took for the batch, of wall and CPU | below those of training |
| `wait_seconds` | seconds that training waited for the batch | near 0 |
"""

import json
import os
import pickle
import shutil
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import torch
from accelerate import Accelerator
from safetensors import safe_open
from safetensors.torch import save_file

from arena_trainers.lm.policy import LMPolicy
from arena_trainers.processes import sendable
from arena_trainers.train.batch import Player
from arena_trainers.train.config import TurnGRPOConfig
from arena_trainers.train.games import makers_of
from arena_trainers.train.matching import Matching, PreparedGames, Tasks
from arena_trainers.train.metrics import Clock, Spent, TimedBackend
from arena_trainers.train.records import Played
from arena_wrappers import Episode, Policy, make_policy
from arena_wrappers.policies import without_noise

FOLDER = "player"  # in the run folder, while it trains
WEIGHTS, IN_FLIGHT = "player_weights.safetensors", "in_flight.json"  # of a checkpoint


class Job(NamedTuple):
    """A generation batch that is to be played.

    Attributes:
        played: its starts and seats, without episodes.
        version: optimizer steps of the weights that play.
        weights: where they are.
    """

    played: Played
    version: int
    weights: Path


class Done(NamedTuple):
    """What came of a job: episodes, tokens and seconds of their generation, seconds of all."""

    episodes: list[Episode]
    tokens: int
    generation: float
    spent: Spent


@dataclass
class Setup:
    """What a player's process is made of.

    Attributes:
        args: the trainer's settings.
        games: the games, with the opponents that are no language models.
        models: policy strings of the opponents that are.
        agent: makes the policy that plays from the model.
        folder: of a model with the learner's architecture.
        options: of the learner's policy.
        dtype: of its weights.
        places: of each of its weights, address modulo 64 and whether it is trained: the last bits
            of results depend on both.
        precision: of mixed-precision passes, as accelerate calls it.
        sizes: episodes of a start, in evaluation and in training.
        num_threads: of torch.
    """

    args: TurnGRPOConfig
    games: PreparedGames
    models: Sequence[str]
    agent: Callable[[Policy], Policy] | None
    folder: Path
    options: Mapping[str, Any]
    dtype: torch.dtype
    places: Mapping[str, tuple[int, bool]]
    precision: str
    sizes: tuple[int, int]
    num_threads: int


class CopyPlayer:
    """Plays jobs with a model of its own, in the player's process."""

    def __init__(self, setup: Setup) -> None:
        torch.set_num_threads(setup.num_threads)
        args, makers = setup.args, makers_of(setup.args)
        made = {name: make_policy(name, makers) for name in setup.models}
        games = replace(setup.games, opponents={**setup.games.opponents, **made})
        accelerator = Accelerator(cpu=True, mixed_precision=setup.precision)
        how = {"dtype": setup.dtype, "name": "self", **setup.options}
        policy = LMPolicy.from_pretrained(setup.folder, device="cpu", **how)
        games.place_opponents(policy, "cpu")
        self.model = policy.model
        for name, p in self.model.named_parameters():
            address, trained = setup.places[name]
            p.requires_grad_(trained).data = placed(p.data, address)
        accelerator.prepare_model(self.model, evaluation_mode=True)
        self.clock, self.version = Clock(), -1
        for one in (policy, *games.models):
            one.backend = TimedBackend(one.backend, self.clock)
        matching = Matching(games, args, accelerator, policy, self.clock, setup.agent)
        own = matching, Tasks(games, args)
        self.player = Player(args, games, *own, 0, setup.sizes, self.clock)

    def __call__(self, job: Job) -> Done:
        self.clock.restart()
        if job.version != self.version:
            self._load(job)
        with self.clock.part("environment"):
            starts = range(len(job.played.starts))
            episodes = self.player.episodes(job.played, starts)
        spent = self.clock.spent
        seconds = Spent(*map(sum, zip(*spent.values(), strict=True)))
        tokens = self.clock.counts["generated"]
        return Done(episodes, tokens, spent["generation"].wall, seconds)

    def _load(self, job: Job) -> None:
        own = dict(self.model.named_parameters())
        with safe_open(job.weights, framework="pt") as file:
            if (found := (file.metadata() or {}).get("step")) != str(job.version):
                raise ValueError(f"want weights of step {job.version}, got {found}")
            for name in file.keys():  # noqa: SIM118 # it is no mapping
                own[name].data.copy_(file.get_tensor(name))
        self.version = job.version


def placed(tensor: torch.Tensor, address: int) -> torch.Tensor:
    """A copy that begins at this address modulo 64."""
    room = torch.empty(tensor.nbytes + 128, dtype=torch.uint8)
    start = (address - room.data_ptr()) % 64
    return (
        room[start : start + tensor.nbytes]
        .view(tensor.dtype)
        .view(tensor.shape)
        .copy_(tensor)
    )


def serve() -> None:
    """A player's process: its setup and then jobs on stdin, answers on stdout."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what libraries print does not reach the answers
    player: CopyPlayer | None = None
    with suppress(EOFError):  # the trainer has ended
        while True:
            given = pickle.load(sys.stdin.buffer)
            try:
                if player is None:
                    player, answer = CopyPlayer(given), None
                else:
                    answer = player(given)
            except Exception as error:  # raised by the trainer
                answer = sendable(error)
            pickle.dump(answer, answers)
            answers.flush()


class PlayerProcess:
    """Has a second process play jobs.

    Raises:
        ValueError: something in the setup cannot be sent.
        RuntimeError: the process has ended.
    """

    def __init__(self, setup: Setup) -> None:
        module = f"from {__name__} import serve; serve()"
        self.process = subprocess.Popen(
            [sys.executable, "-c", module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            start_new_session=True,  # Ctrl-C is for the trainer, which ends it
        )
        self._ready = False
        self.setup = setup

    def __call__(self, job: Job) -> Done:
        if not self._ready:
            self._ask(self.setup)
            self._ready = True
        done: Done = self._ask(job)
        return done

    def _ask(self, what: Any) -> Any:
        pipes: Any = self.process
        try:
            pipes.stdin.write(pickle.dumps(what))
            pipes.stdin.flush()
            answer = pickle.load(pipes.stdout)
        except (OSError, EOFError, pickle.UnpicklingError) as error:
            raise RuntimeError(
                f"the process that plays ended with status {self.process.wait()}; what it "
                "printed is above. Resume the run from its last checkpoint"
            ) from error
        if isinstance(answer, Exception):
            raise answer
        return answer

    def close(self) -> None:
        """Ends the process."""
        self.process.kill()
        self.process.communicate()  # closes the pipes


class Ahead:
    """The part of `TurnGRPOTrainer` that has batches played ahead; see this module.

    Args:
        trainer: TRL's trainer, with its parts that play.

    Raises:
        ValueError: where the model that learns does not run on a CPU.
    """

    def __init__(self, trainer: Any) -> None:
        self.trainer, self.args = trainer, trainer.args
        given = {"max_staleness": 1, "in_flight": 2, **trainer.args.asynchronous}
        self.max_staleness, self.in_flight = given["max_staleness"], given["in_flight"]
        if self.args.device.type != "cpu":
            raise ValueError(
                "asynchronous with transformers plays in a second process on a CPU, and would "
                f"share the {self.args.device.type} with training; give --use_cpu true, or a "
                "server: --use_vllm true --vllm_mode server"
            )
        self.folder = Path(str(self.args.output_dir)) / FOLDER
        self._jobs: deque[tuple[Job, Future[Done]]] = deque()
        self._starts: deque[list[Any]] = deque()  # of this batch, and those after it
        self._order: Iterator[list[Any]] = iter(())
        self._resumed = (
            0,
            0,
        )  # batches that were in flight, and the version that played
        self._seen: list[list[float]] = []  # sums of micro-batches, see `measure`
        self._player: PlayerProcess | None = None
        self._threads = ThreadPoolExecutor(1)

    @contextmanager
    def running(self) -> Iterator[None]:
        """The player lives in this context."""
        shutil.rmtree(self.folder, ignore_errors=True)  # of a run that was killed
        try:
            yield
        finally:
            self._jobs.clear()
            if self._player is not None:
                self._player.close()
            self._threads.shutdown(cancel_futures=True)
            self._player, self._threads = None, ThreadPoolExecutor(1)
            shutil.rmtree(self.folder, ignore_errors=True)

    def play(self, starts: list[Any], step: int, trains: bool) -> Played:
        """As `Player.play`; where the batch is trained, those after it are submitted."""
        player, clock = self.trainer.player, self.trainer.clock
        if not trains:
            played: Played = player.play(starts, step, trains)
            return played
        with clock.part("environment"):
            number = player.generation_number(step)
            self._align(starts)
            in_flight, version = self._resumed
            self._resumed = (0, 0)
            for ahead in range(in_flight):
                self._submit(ahead, number, version)
            dropped = 0
            while self._jobs and not self._is_next(number):
                dropped += len(self._jobs.popleft()[0].played.starts)
            if not self._jobs:
                self._submit(0, number, step)
            job, future = self._jobs.popleft()
            began = time.perf_counter()
            done = future.result()
            waited = time.perf_counter() - began
            player.end(job.played, done.episodes, step)
            self._fill(number, step)
        clock.counts["generated"] += done.tokens
        clock.elsewhere += done.generation
        self._log("staleness", step - job.version)
        self._log("dropped_episodes", dropped)
        self._log("play_seconds", done.spent.wall)
        self._log("play_cpu_seconds", done.spent.cpu)
        self._log("wait_seconds", waited)
        return job.played

    def _log(self, name: str, value: float) -> None:
        self.trainer._metrics["train"][f"arena/asynchronous/{name}"].append(
            float(value)
        )

    def _is_next(self, number: int) -> bool:
        """Whether the first batch in flight is that of the first starts."""
        played = self._jobs[0][0].played
        pairs = zip(played.starts, self._starts[0], strict=False)
        return played.number == number and all(a["seed"] == b["seed"] for a, b in pairs)

    def _align(self, starts: list[Any]) -> None:
        """Has `_starts` begin with these, in the order of the data set."""
        if self._starts:
            self._starts.popleft()
        if not self._starts or self._starts[0] != starts:
            self._starts.clear()
            self._order = self._batches()
            size = self.args.generation_batch_size
            most = (
                len(self.trainer.train_dataset) * self.trainer.num_generations // size
            )
            if starts not in islice(self._order, most):
                raise ValueError(
                    "asynchronous needs the starts in the order of TRL's sampler, got others; "
                    "leave it out, or train on a Dataset that no other sampler reads"
                )
            self._starts.append(starts)

    def _batches(self) -> Iterator[list[Any]]:
        """The starts of all generation batches, epoch after epoch, as TRL's loader has them."""
        trainer, data = self.trainer, self.trainer.train_dataset
        size = self.args.generation_batch_size
        times = self.args.steps_per_generation * self.args.num_iterations
        sampler = trainer._get_train_sampler()
        while True:
            indices = iter(sampler)
            while chunk := list(islice(indices, size * times))[:size]:
                rows = {i: data[i] for i in set(chunk)}
                yield [rows[i] for i in chunk]

    def _fill(self, number: int, step: int) -> None:
        """Submits the batches after this one as far as staleness and queue allow."""
        per_step = self.args.generations_per_step
        for ahead in range(len(self._jobs) + 1, self.in_flight):
            of = (number + ahead) // max(int(per_step), 1)
            last = min(step + self.max_staleness, self.trainer.state.max_steps - 1)
            if per_step % 1 or of > last:
                return
            self._submit(ahead, number, step)

    def _submit(self, ahead: int, number: int, version: int) -> None:
        """Has the batch after so many others played with the weights of a step."""
        while len(self._starts) <= ahead:
            self._starts.append(next(self._order))
        player, number = self.trainer.player, number + ahead
        of = number // max(int(self.args.generations_per_step), 1)
        played = player.begin(self._starts[ahead], of, number, True)
        job = Job(played, version, self._weights(version))
        if self._player is None:
            self._player = PlayerProcess(self._setup())
        self._jobs.append((job, self._threads.submit(self._player, job)))

    def _path(self, version: int) -> Path:
        return self.folder / f"step-{version}.safetensors"

    def _weights(self, version: int) -> Path:
        """The file of a version, which is written if it is that of this moment."""
        path = self._path(version)
        if not path.is_file():
            self.folder.mkdir(parents=True, exist_ok=True)
            needed = {job.weights for job, _ in self._jobs}
            for old in {*self.folder.glob("step-*")} - needed:
                old.unlink()
            named = self.trainer.policy.model.named_parameters()
            weights = {name: p.detach() for name, p in named if p.requires_grad}
            part = path.with_suffix(".part")
            save_file(weights, part, {"step": str(version)})
            part.rename(path)
        return path

    def _setup(self) -> Setup:
        trainer, games = self.trainer, self.trainer.games
        models = [
            n for n, p in games.opponents.items() if without_noise(p) in games.models
        ]
        others = {n: p for n, p in games.opponents.items() if n not in models}
        policy = trainer.policy
        policy.save_pretrained(self.folder / "model")
        named = policy.model.named_parameters()
        return Setup(
            self.args,
            replace(games, opponents=others, functions={}),
            models,
            trainer._agent,
            self.folder / "model",
            {
                "with_entropy": policy.sampling.with_entropy,
                "prompt": self.args.prompt,
                **self.args.sampling_options,
            },
            policy.model.dtype,
            {n: (p.data_ptr() % 64, p.requires_grad) for n, p in named},
            trainer.accelerator.mixed_precision,
            (trainer.num_generations_eval, trainer.num_generations),
            torch.get_num_threads(),
        )

    def correct(self, output: dict[str, Any]) -> None:
        """Has TRL's loss compare with the policy that played, see this module."""
        if self.max_staleness:
            output["old_per_token_logps"] = output["sampling_per_token_logps"]

    def measure(
        self, logprobs: torch.Tensor, counted: torch.Tensor, inputs: Mapping[str, Any]
    ) -> None:
        """Notes the importance ratios of a micro-batch; arguments as `Agreement`'s."""
        ratio = (logprobs.detach() - inputs["sampling_per_token_logps"]).exp()
        ratio = ratio[counted].double()
        sums = ratio.sum(), (ratio**2).sum(), counted.sum()
        self._seen.append([float(x) for x in sums])

    def read(self) -> dict[str, float]:
        """The metrics of the importance ratios since the last call."""
        total, squares, count = map(sum, zip(*self._seen, strict=True))
        self._seen.clear()
        if not count:
            return {}
        return {
            "arena/asynchronous/ratio": total / count,
            "arena/asynchronous/effective_sample_size": total**2 / (count * squares),
        }

    def save(self, checkpoint: Path) -> None:
        """Keeps the weights with which batches in flight are played."""
        if self._jobs:
            weights = self._jobs[0][0].weights
            shutil.copyfile(weights, checkpoint / WEIGHTS)
            (checkpoint / IN_FLIGHT).write_text(json.dumps(len(self._jobs)))

    def load(self, checkpoint: Path) -> None:
        """Plays again what was in flight at a checkpoint, when training goes on."""
        if not (checkpoint / WEIGHTS).is_file():
            return
        with safe_open(checkpoint / WEIGHTS, framework="pt") as file:
            version = int(file.metadata()["step"])
        self.folder.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(checkpoint / WEIGHTS, self._path(version))
        in_flight = json.loads((checkpoint / IN_FLIGHT).read_text())
        self._resumed = in_flight, version
