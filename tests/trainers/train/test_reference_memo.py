"""The reference's scores of rows that come again: the same numbers, and never those of other weights."""

import torch

from arena_trainers.train.score.reference_memo import ReferenceMemo


class Reference:
    """Scores that are told by the rows alone, and a version of the weights."""

    def __init__(self):
        self.version, self.calls = 0, []

    def score(self, ids, mask):
        self.calls.append(len(ids))
        return ((ids + self.version) * mask)[:, -2:].float()


def padded(rows):
    """Rows of a prompt and a reply of at most two tokens, prompts padded on the left."""
    width = max(len(prompt) for prompt, _ in rows)
    ids = [
        [0] * (width - len(prompt)) + prompt + reply + [0] * (2 - len(reply))
        for prompt, reply in rows
    ]
    mask = [
        [0] * (width - len(prompt))
        + [1] * (len(prompt) + len(reply))
        + [0] * (2 - len(reply))
        for prompt, reply in rows
    ]
    return torch.tensor(ids), torch.tensor(mask)


def test_known_rows_are_not_scored_again_whatever_their_padding():
    reference = Reference()
    memo = ReferenceMemo(lambda: reference.version)
    first = [([7], [5, 2]), ([7], [5, 2]), ([8, 9], [6])]
    again = [([8, 9], [6]), ([1, 2, 3], [5, 2]), ([7], [5, 2]), ([7, 5], [2])]
    for rows, num_scored in ((first, 2), (again, 2)):
        ids, mask = padded(rows)
        scores = memo.logprobs(ids, mask, 2, reference.score)
        assert torch.equal(scores, reference.score(ids, mask))
        assert reference.calls.pop() == len(rows)
        assert reference.calls.pop() == num_scored


def test_a_reference_that_moved_scores_all_rows_anew():
    reference = Reference()
    memo = ReferenceMemo(lambda: reference.version)
    ids, mask = padded([([7], [5, 2])])
    memo.logprobs(ids, mask, 2, reference.score)
    reference.version = 1
    assert memo.logprobs(ids, mask, 2, reference.score).tolist() == [[6.0, 3.0]]


def test_a_checkpoint_holds_what_is_known(tmp_path):
    reference = Reference()
    memo, resumed = (ReferenceMemo(lambda: reference.version) for _ in range(2))
    ids, mask = padded([([7], [5, 2])])
    memo.logprobs(ids, mask, 2, reference.score)
    memo.save(tmp_path)
    resumed.load(tmp_path, torch.device("cpu"))
    assert resumed.logprobs(ids, mask, 2, reference.score).tolist() == [[5.0, 2.0]]
    assert reference.calls == [1]
