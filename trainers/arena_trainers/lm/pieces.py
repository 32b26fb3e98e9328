"""`PieceEncoder`: token ids of texts; encodes each distinct piece of text once.

Prompts repeat the rules of a game and most lines of its texts. The encoder cuts texts into pieces, encodes
all new pieces of a batch in one call, and joins the ids. The result equals the ids of the whole text:

| cut | exact if |
|---|---|
| before an added token that the chat template writes | the tokenizer splits texts there first, and strips no white space around the token |
| after a line that does not end in white space, if a letter or digit follows | no token of the vocabulary has a line end followed by a letter or digit, and the tokenizer encodes the beginning of a text as its middle |

Each cut is also tested on samples of the template. A cut that fails is not used.
"""

import re
import string
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import chain, pairwise

from transformers import AddedToken, PreTrainedTokenizerBase

MAX_TOKENS = 500_000  # of cached pieces
MAX_KNOWN = 10_000  # characters; lines of one letter take 30 bytes for each
_LETTERS = frozenset(string.ascii_letters + string.digits)
# "\n" as it stands, as ByteLevel writes it, and as sentencepiece names its byte
_TOKEN_ACROSS_LINES = re.compile(r"(?:\n|\u010a|<0x0A>)[A-Za-z0-9]")


class PieceEncoder:
    """Encodes texts of a chat template, without adding special tokens.

    Args:
        tokenizer: the tokenizer.
        marks: the added tokens that the template writes.
        samples: texts of the template, on which cuts are tested.
    """

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerBase,
        marks: Iterable[str],
        samples: Sequence[str],
    ) -> None:
        self.tokenizer = tokenizer
        added = {str(t): t for t in tokenizer.added_tokens_decoder.values()}
        cuts = [mark for mark in marks if mark in added and _may_cut(mark, added)]
        at_marks = re.compile("|".join(map(re.escape, cuts)) or "(?!)")
        has_lines = not any(map(_TOKEN_ACROSS_LINES.search, tokenizer.get_vocab()))
        whole = [self._whole(text) for text in samples]
        for marks_cut, lines_cut in ((True, has_lines), (True, False), (False, False)):
            self._marks = at_marks if marks_cut else re.compile("(?!)")
            self._cuts_lines = lines_cut
            self._ids_of_piece: dict[str, list[int]] = {}
            self._num_tokens = 0
            if self.encode(samples) == whole:
                break

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """The token ids of each text."""
        pieces = [self.pieces(text) for text in texts]
        distinct = dict.fromkeys(chain.from_iterable(pieces))
        new = [piece for piece in distinct if piece not in self._ids_of_piece]
        new_ids = self._batch(new)
        self._num_tokens += sum(map(len, new_ids))
        if self._num_tokens > MAX_TOKENS:  # keeps only the pieces of these texts
            self._ids_of_piece = {
                piece: self._ids_of_piece[piece]
                for piece in distinct
                if piece in self._ids_of_piece
            }
            self._num_tokens = sum(map(len, [*self._ids_of_piece.values(), *new_ids]))
        self._ids_of_piece.update(zip(new, new_ids, strict=True))
        ids_of = self._ids_of_piece.__getitem__
        return [[*chain.from_iterable(map(ids_of, of_text))] for of_text in pieces]

    def pieces(self, text: str) -> list[str]:
        """The parts of a text that are encoded separately; joined, they are the text."""
        starts = [match.start() for match in self._marks.finditer(text)]
        segments = [text[i:j] for i, j in pairwise([0, *starts, len(text)]) if i < j]
        if not self._cuts_lines:
            return segments
        return [line for segment in segments for line in _lines_of(segment)]

    def _batch(self, texts: list[str]) -> list[list[int]]:
        if len(texts) < 2:
            return [self._whole(text) for text in texts]
        ids: list[list[int]] = self.tokenizer(
            texts, add_special_tokens=False, return_attention_mask=False
        )["input_ids"]
        return ids

    def _whole(self, text: str) -> list[int]:
        ids: list[int] = self.tokenizer.encode(text, add_special_tokens=False)
        return ids


def _lines_of(text: str) -> tuple[str, ...]:
    """As `_lines`; of short texts they are remembered, as the rules stand in every prompt."""
    return _known_lines(text) if len(text) <= MAX_KNOWN else _lines(text)


def _lines(text: str) -> tuple[str, ...]:
    """The lines of a text, some of them joined to the next.

    A line is joined to the next if it is empty or ends in white space, or if the next does not begin
    with a letter or digit: longer runs of white space may be tokens.
    """
    lines: list[str] = []
    first, *others = text.split("\n")
    parts = [first]
    for line in others:
        last = parts[-1]
        if line[:1] in _LETTERS and last and not last[-1].isspace():
            lines.append("\n".join([*parts, ""]))
            parts = [line]
        else:
            parts.append(line)
    return (*lines, "\n".join(parts))


_known_lines = lru_cache(100)(_lines)


def _may_cut(mark: str, added: dict[str, AddedToken]) -> bool:
    """Whether a cut before an added token leaves the tokens around it unchanged."""
    token = added[mark]
    if token.lstrip or token.rstrip or token.single_word or token.normalized:
        return False
    # another added token that overlaps this one might be matched instead
    return not any(
        other.find(mark, 1) > 0
        or any(other[1:].endswith(mark[:size]) for size in range(1, len(mark)))
        for other in added
    )
