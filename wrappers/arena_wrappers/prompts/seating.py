"""Prompt options and prompts by seat, and messages about replies."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

from arena_envs.checks import did_you_mean
from arena_envs.game import AnyGame
from arena_wrappers.prompts.formats import InvalidReply, legal_texts
from arena_wrappers.prompts.languages import language_named
from arena_wrappers.prompts.messages import (
    PROMPT_OPTIONS,
    Message,
    PromptOptions,
    messages,
)

_CUT = "\n[...]\n"  # in place of the middle of a long reply


def said_by_author(text: str, most: int) -> Message:
    """A reply for later prompts of its author, cut to at most `most` characters."""
    if len(text) > most:
        half = most // 2 - len(_CUT)
        text = f"{text[:half]}{_CUT}{text[-half:]}"
    return {"role": "assistant", "content": _encodable(text)}


def ask_again(invalid: InvalidReply, options: PromptOptions) -> Message:
    """The reason why a reply is invalid, with a request for another reply."""
    words = language_named(options.language)
    # the reason may quote the reply
    fault = (words.faults or {}).get(invalid.reason) or _encodable(invalid.detail)
    template = words.again if options.again is None else options.again
    return {"role": "user", "content": template.replace("{fault}", fault)}


def _encodable(text: str) -> str:
    """The two halves of a surrogate pair as one character, and a lone half as U+FFFD."""
    units = text.encode("utf-16-le", "surrogatepass")
    return units.decode("utf-16-le", "replace")


MAX_VIEWS = 5_000  # remembered at a time, of a seat

Seats = Mapping[int | str, PromptOptions | Mapping[str, Any]]


class View(NamedTuple):
    """The prompt of a seat in a state, and the canonical texts of the legal actions."""

    prompt: list[Message]
    legal: list[str]


class Seating:
    """The prompt options of each seat.

    Args:
        default: options of the seats that are not in `named`.
        named: options by seat.
        num_players: number of seats.
        memory: a cache of views by seat and options, shared by all seatings of an
            environment.

    Attributes:
        options: by seat.
    """

    def __init__(
        self,
        default: PromptOptions,
        named: Mapping[int, PromptOptions],
        num_players: int,
        memory: dict[tuple[int, PromptOptions], dict[Any, View]] | None = None,
    ) -> None:
        self.default, self.named = default, named
        self.options = [named.get(seat, default) for seat in range(num_players)]
        self._memory = {} if memory is None else memory
        self._views = [
            self._memory.setdefault((seat, options), {})
            for seat, options in enumerate(self.options)
        ]

    def __getstate__(self) -> dict[str, Any]:
        views: list[dict[Any, View]] = [{} for _ in self._views]
        return {**self.__dict__, "_memory": {}, "_views": views}

    def view(self, game: AnyGame, state: Any, seat: int) -> View:
        """The view of a seat in a state; cached."""
        views = self._views[seat]
        view = views.get(state)
        if view is None:
            if len(views) >= MAX_VIEWS:
                views.clear()
            prompt = messages(game, state, seat, self.options[seat])
            view = views[state] = View(prompt, legal_texts(game, state))
        return view

    def with_own(self, own: Sequence[PromptOptions | None]) -> "Seating":
        """A seating with these options in the seats that are not in `named`.

        Args:
            own: options by seat; None for the default.
        """
        given = {
            seat: options
            for seat, options in enumerate(own)
            if options is not None and seat not in self.named
        }
        if not given:
            return self
        named = {**given, **self.named}
        return Seating(self.default, named, len(self.options), self._memory)

    def as_arguments(self) -> dict[str, Any]:
        """Arguments of a `PromptWrapper` as JSON holds them; `seats` only if seats differ."""
        alike = len(set(self.options)) == 1
        default = self.options[0] if alike else self.default
        others = {
            str(seat): asdict(options)
            for seat, options in enumerate(self.options)
            if options != default
        }
        return {**asdict(default), "seats": others} if others else asdict(default)


def named_seats(seats: Seats, num_players: int) -> dict[int, PromptOptions]:
    """Options by seat; the keys may be texts, as in JSON.

    Raises:
        ValueError: a seat is out of range, an option is unknown, or a value is neither
            `PromptOptions` nor a mapping.
    """
    if not isinstance(seats, Mapping):
        raise ValueError(f"want seats as a mapping of options, got {seats!r:.80}")
    known = {str(seat): seat for seat in range(num_players)}
    named = {}
    for key, options in seats.items():
        if str(key) not in known:
            raise ValueError(f"want seats from 0 to {num_players - 1}, got {key!r:.80}")
        if isinstance(options, Mapping):
            for name in options:
                if name not in PROMPT_OPTIONS:
                    hint = did_you_mean(str(name), PROMPT_OPTIONS)
                    raise ValueError(f"seat {key} has no option {name!r:.80}; {hint}")
            options = PromptOptions(**options)
        if not isinstance(options, PromptOptions):
            raise ValueError(f"want PromptOptions of seat {key}, got {options!r:.80}")
        named[known[str(key)]] = options
    return named
