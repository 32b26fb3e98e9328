"""`ExpectedReplies`: the replies that come in batch after batch, as those of a small game do."""

import json
from collections import Counter, deque
from collections.abc import Sequence
from pathlib import Path

from arena_trainers.lm.backends.known_texts import MAX_TOKENS, ReplyTo
from arena_trainers.lm.backends.transformers import TransformersBackend
from arena_trainers.lm.policy import LMPolicy
from arena_trainers.processes import splits_weights
from arena_trainers.train.config import TurnGRPOConfig
from arena_trainers.train.rows import TrainingRow
from arena_wrappers import Episode
from arena_wrappers.records import write_whole

NUM_BATCHES = 8  # that are compared
COVERED = 0.9  # least share of the latest batch that common replies must make up


class ExpectedReplies:
    """Tells the backend of the model that learns which replies will probably come again.

    Expected replies change the last bits of logits. So a checkpoint holds the latest batches, and a
    resumed run goes on bit for bit.

    Args:
        backend: of the model that learns; None where nothing is expected.
        process: index of this process.
    """

    def __init__(self, backend: TransformersBackend | None, process: int = 0) -> None:
        self.backend, self.process = backend, process
        self._batches: deque[Counter[ReplyTo]] = deque(maxlen=NUM_BATCHES)
        self._num_rounds = 0  # of the latest batch

    def add(self, rows: Sequence[TrainingRow], episodes: Sequence[Episode]) -> None:
        """Adds the replies of a batch that are trained.

        Args:
            rows: of the batch, each of one turn.
            episodes: of the batch.
        """
        if self.backend is None:
            return
        replies = Counter(
            (tuple(row.prompt_ids), tuple(row.completion_ids))
            for row in rows
            if row.advantage is not None  # no placeholder row
        )
        if sum(len(prompt) + len(reply) for prompt, reply in replies) > MAX_TOKENS:
            self._batches.clear()  # not a small game
            return
        self._batches.append(replies)
        self._num_rounds = max(len(episode.turns) for episode in episodes)

    def announce(self) -> None:
        """Tells the backend what to expect of the next batch."""
        if self.backend is not None:
            self.backend.expect_replies(self._common_replies(), self._num_rounds)

    def _common_replies(self) -> list[ReplyTo]:
        """Replies of at least two of the latest batches (of one, if there is one).

        None if they make up less than `COVERED` of the latest batch.
        """
        if not self._batches:
            return []
        latest_batch, min_batches = self._batches[-1], min(2, len(self._batches))
        batches_of = Counter(reply for batch in self._batches for reply in batch)
        common = [reply for reply, num in batches_of.items() if num >= min_batches]
        num_covered = sum(latest_batch[reply] for reply in common)
        return common if num_covered >= COVERED * latest_batch.total() else []

    def clear(self) -> None:
        """Forgets all batches."""
        self._batches.clear()

    def save(self, checkpoint: Path) -> None:
        """Writes the latest batches into a checkpoint; every process calls it."""
        if self.backend is None:
            return
        # in their order, which is that of the rows of the pass
        batches = [
            [[*reply, num] for reply, num in batch.items()] for batch in self._batches
        ]
        checkpoint.mkdir(parents=True, exist_ok=True)
        content = {"num_rounds": self._num_rounds, "batches": batches}
        write_whole(checkpoint / self._file, json.dumps(content))

    def load(self, checkpoint: Path) -> None:
        """Goes on from a checkpoint; from one without the file, with nothing.

        Raises:
            ValueError: the file is of another form, or of a model with more tokens.
        """
        self.clear()
        file = checkpoint / self._file  # none if the number of processes was another
        if self.backend is None or not file.is_file():
            return
        num_tokens = self.backend.model.config.get_text_config().vocab_size
        try:
            content = json.loads(file.read_text())
            self._num_rounds = int(content["num_rounds"])
            for batch in content["batches"]:
                replies = Counter[ReplyTo]()
                for prompt, reply, num in batch:
                    ids = [*prompt, *reply]
                    if not all(type(i) is int and 0 <= i < num_tokens for i in ids):
                        raise ValueError("token ids are out of range")
                    replies[tuple(prompt), tuple(reply)] = int(num)
                self._batches.append(replies)
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            raise ValueError(
                f"want the replies of batches in {file}, got other content ({error}); delete "
                "the file to go on without"
            ) from error

    @property
    def _file(self) -> str:
        return f"expected_replies_{self.process}.json"


def backend_of_learner(
    args: TurnGRPOConfig, policy: LMPolicy, has_roles: bool
) -> TransformersBackend | None:
    """The backend of the model that learns, where `ExpectedReplies` supports the run; else None.

    Supported: one learner, `layout="turn"`, synchronous play, weights that are not sharded.

    Args:
        args: of the run.
        policy: the learner.
        has_roles: whether there are several learners.
    """
    if has_roles or args.asynchronous or args.layout != "turn" or splits_weights(args):
        return None
    backend = policy.backend
    return backend if isinstance(backend, TransformersBackend) else None
