"""`Seating`: the prompt options of each seat, and the prompts made by them."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

from arena_envs.game import (
    AnyGame,
    AnyState,
)
from arena_wrappers.prompts.messages import Message, messages
from arena_wrappers.prompts.options import PromptOptions
from arena_wrappers.prompts.parsing import legal_texts

MAX_VIEWS = 5_000  # remembered at a time, of a seat
MAX_OUTCOMES = 20  # remembered of a view
MAX_SHORT = 100  # characters of a reply whose outcome is remembered


class SeatView(NamedTuple):
    """What a seat sees in a state.

    Attributes:
        prompt: its prompt.
        legal: canonical texts of the legal actions.
        outcomes: what short replies to it are, by their text: actions or reasons.
    """

    prompt: list[Message]
    legal: list[str]
    outcomes: dict[str, Any]

    def parsed(
        self, text: str, options: PromptOptions, game: AnyGame, state: Any
    ) -> Any:
        """The legal action that a reply names, or an `InvalidReply`; cached."""
        if text in self.outcomes:
            return self.outcomes[text]
        outcome = options.parse(game, state, text, self.legal)
        if len(text) <= MAX_SHORT and len(self.outcomes) < MAX_OUTCOMES:
            self.outcomes[text] = outcome
        return outcome


class Seating:
    """The prompt options of each seat.

    Args:
        default: options of the seats that are not in `fixed`.
        fixed: options by seat, which policies do not change.
        num_players: number of seats.
        memory: a cache of views by seat and options, shared by all seatings of an
            environment.

    Attributes:
        options: by seat.
    """

    def __init__(
        self,
        default: PromptOptions,
        fixed: Mapping[int, PromptOptions],
        num_players: int,
        memory: dict[tuple[int, PromptOptions], dict[Any, SeatView]] | None = None,
    ) -> None:
        self.default, self.fixed = default, fixed
        self.options = [fixed.get(seat, default) for seat in range(num_players)]
        self._memory = {} if memory is None else memory
        self._rules: dict[int, str] = {}
        self._views = [
            self._memory.setdefault((seat, options), {})
            for seat, options in enumerate(self.options)
        ]

    def __getstate__(self) -> dict[str, Any]:
        views: list[dict[Any, SeatView]] = [{} for _ in self._views]
        return {**self.__dict__, "_memory": {}, "_views": views, "_rules": {}}

    def view(
        self, game: AnyGame, state: AnyState, seat: int, seed: int = 0
    ) -> SeatView:
        """The view of a seat in a state, in an episode with this seed; cached."""
        views = self._views[seat]
        key = (state, seed) if self.options[seat].shuffle else state
        view = views.get(key)
        if view is None:
            if len(views) >= MAX_VIEWS:
                views.clear()
            rules = self._rules.get(seat) or self._rules.setdefault(
                seat, game.rules(seat)
            )
            prompt = messages(game, state, seat, self.options[seat], rules, seed)
            view = views[key] = SeatView(prompt, legal_texts(game, state), {})
        return view

    def with_policy_options(
        self, policy_prompts: Sequence[PromptOptions | None]
    ) -> "Seating":
        """A seating with these options in the seats that are not in `fixed`.

        Args:
            policy_prompts: options by seat; None for the default.
        """
        policy_options = {
            seat: options
            for seat, options in enumerate(policy_prompts)
            if options is not None and seat not in self.fixed
        }
        if not policy_options:
            return self
        options_of_seat = {**policy_options, **self.fixed}
        return Seating(self.default, options_of_seat, len(self.options), self._memory)

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
