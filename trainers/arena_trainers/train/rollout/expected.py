"""`ExpectedReplies`: the replies that come in batch after batch, as those of a small game do."""

from collections import Counter, deque
from collections.abc import Sequence

from arena_trainers.lm.backends.known_texts import ReplyTo
from arena_trainers.lm.backends.transformers import TransformersBackend
from arena_trainers.lm.policy import LMPolicy
from arena_trainers.processes import splits_weights
from arena_trainers.train.config import TurnGRPOConfig
from arena_trainers.train.rows import TrainingRow
from arena_wrappers import Episode

NUM_BATCHES = 8  # that are compared
MAX_TOKENS = 2**16  # of the prompts of a batch; those of small games have fewer
COVERED = 0.9  # of the replies of a batch; where fewer come again, none is expected


class ExpectedReplies:
    """Tells the backend of the model that learns what it will probably draw.

    What is expected changes the last bits of logits. A run that resumes expects nothing at first. So
    `forget` is called after each checkpoint, and the run that goes on has the same bits.

    Args:
        backend: of the model that learns; None where nothing is expected.
    """

    def __init__(self, backend: TransformersBackend | None) -> None:
        self.backend = backend
        self._batches: deque[Counter[ReplyTo]] = deque(maxlen=NUM_BATCHES)
        self._num_rounds = 0  # of the latest one

    def add(self, rows: Sequence[TrainingRow], episodes: Sequence[Episode]) -> None:
        """Takes what was played.

        Args:
            rows: of a batch, each of one turn.
            episodes: of the batch.
        """
        is_large = sum(len(row.prompt_ids) for row in rows) > MAX_TOKENS
        if self.backend is None or is_large:
            return
        replies = ((tuple(row.prompt_ids), tuple(row.completion_ids)) for row in rows)
        self._batches.append(Counter(replies))
        self._num_rounds = max(len(episode.turns) for episode in episodes)

    def announce(self) -> None:
        """Tells the backend what to expect of the next batch."""
        if self.backend is not None:
            self.backend.expect_replies(self._next(), self._num_rounds)

    def _next(self) -> list[ReplyTo]:
        """The replies that came in several of the latest batches, if they are most of the last one."""
        if not self._batches:
            return []
        last = self._batches[-1]
        num_batches = Counter(reply for batch in self._batches for reply in batch)
        least = min(2, len(self._batches))
        common = [reply for reply, num in num_batches.items() if num >= least]
        num_covered = sum(last[reply] for reply in common)
        return common if num_covered >= COVERED * last.total() else []

    def forget(self) -> None:
        """Forgets all batches."""
        self._batches.clear()


def backend_of_learner(
    args: TurnGRPOConfig, policy: LMPolicy, several: bool
) -> TransformersBackend | None:
    """The backend of the model that learns, where `ExpectedReplies` supports the run; else None.

    It supports one learner with a row for each turn, which plays and trains in turn, and whose weights
    are not split among processes.

    Args:
        args: of the run.
        policy: the learner.
        several: whether there are several learners.
    """
    if several or args.asynchronous or args.layout != "turn" or splits_weights(args):
        return None
    backend = policy.backend
    return backend if isinstance(backend, TransformersBackend) else None
