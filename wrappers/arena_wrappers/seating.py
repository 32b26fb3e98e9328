"""`Seating`: which prompt options hold in each seat, and the prompts made by them."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any, NamedTuple

from arena_envs.checks import did_you_mean
from arena_envs.game import AnyGame
from arena_wrappers.formats import legal_texts
from arena_wrappers.prompts import Message, PromptOptions, messages

OPTIONS = tuple(field.name for field in fields(PromptOptions))
MAX_VIEWS = 5_000  # remembered at a time, of a seat

Seats = Mapping[int | str, PromptOptions | Mapping[str, Any]]


class View(NamedTuple):
    """What a seat reads in a state, and the canonical texts of the legal actions."""

    prompt: list[Message]
    legal: list[str]


class Seating:
    """The prompt options of each seat.

    Args:
        default: of seats that are not named.
        named: of the others, by number.
        num_players: seats of the game.
        memory: views by seat and options, shared by all seatings of an environment.

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
        """What a seat reads in a state; made once."""
        views = self._views[seat]
        view = views.get(state)
        if view is None:
            if len(views) >= MAX_VIEWS:
                views.clear()
            prompt = messages(game, state, seat, self.options[seat])
            view = views[state] = View(prompt, legal_texts(game, state))
        return view

    def with_own(self, own: Sequence[PromptOptions | None]) -> "Seating":
        """The seating in which seats that are not named get options; None: the default."""
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
        """Arguments of a `PromptWrapper`, `seats` only where they differ, for JSON."""
        alike = len(set(self.options)) == 1
        default = self.options[0] if alike else self.default
        others = {
            str(seat): asdict(options)
            for seat, options in enumerate(self.options)
            if options != default
        }
        return {**asdict(default), "seats": others} if others else asdict(default)


def named_seats(seats: Seats, num_players: int) -> dict[int, PromptOptions]:
    """Options by seat; JSON has the numbers of seats as texts.

    Raises:
        ValueError: a seat that there is not, an unknown option, or what is no `PromptOptions`.
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
                if name not in OPTIONS:
                    hint = did_you_mean(str(name), OPTIONS)
                    raise ValueError(f"seat {key} has no option {name!r:.80}; {hint}")
            options = PromptOptions(**options)
        if not isinstance(options, PromptOptions):
            raise ValueError(f"want PromptOptions of seat {key}, got {options!r:.80}")
        named[known[str(key)]] = options
    return named
