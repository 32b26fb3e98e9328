"""Prompt options: what a policy's prompts hold, and how its replies are read; by seat."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import date
from typing import Any, Literal, get_args

from arena_envs.checks import check_known
from arena_envs.game import (
    AnyGame,
    AnyState,
)
from arena_wrappers.prompts.formats import InvalidReply, find_reply_format
from arena_wrappers.prompts.languages import languages
from arena_wrappers.prompts.parsing import Parsing, parse_reply

HistoryMode = Literal["state", "transcript"]
DATE = "2026-01-01"  # else a prompt would change overnight


@dataclass(frozen=True)
class PromptOptions:
    """Content of a policy's prompts, and parsing of its replies.

    Attributes:
        reply_format: name of a reply format, see `arena_wrappers.prompts.formats`.
        rules: whether a system message tells the rules and the reply format.
        show_legal_actions: whether prompts list the legal actions that the game lets them show.
        history: `"state"`: the rules and the current text; `"transcript"`: the seat's
            whole conversation.
        parsing: `"tolerant"` or `"strict"`, by the rules of `arena_wrappers.prompts.parsing`.
        persona: who the player is, in a sentence before the rules.
        language: `"en"`, or that of a file in `prompts/phrases`, which some
            games have. Actions keep their names.
        system: template of the system message, by default `SYSTEM` if `rules` is on. It may name
            {persona}, {rules}, {format} and {example}.
        turn: template of the user message, by default one below the other. It may name {text} and {legal}.
        again: template of the request for another reply. It may name {fault}.
        shuffle: seed of the order in which prompts list the legal actions, and of the action in the
            example of a reply; 0 for the game's order, True for 1. Each text that a seat reads in an
            episode has an order of its own, which also depends on the episode's seed.
        date: the day, as in "2026-01-01", that chat templates read as today.

    Raises:
        ValueError: an unknown name, or a flag that is not True or False.
    """

    reply_format: str = "answer"
    rules: bool = True
    show_legal_actions: bool = True
    history: HistoryMode = "state"
    parsing: Parsing = "tolerant"
    persona: str = ""
    language: str = "en"
    system: str | None = None
    turn: str | None = None
    again: str | None = None
    date: str = DATE
    shuffle: bool | int = 0

    def __post_init__(self) -> None:
        if not isinstance(self.reply_format, str):
            raise ValueError(
                f"want the name of a reply format, got {self.reply_format!r:.80}"
            )
        find_reply_format(self.reply_format)
        for name in ("rules", "show_legal_actions"):
            if not isinstance(getattr(self, name), bool):
                raise ValueError(
                    f"want {name} as True or False, got {getattr(self, name)!r:.80}"
                )
        if not (isinstance(self.shuffle, int) and 0 <= self.shuffle < 2**63):
            raise ValueError(
                f"want shuffle as True, False or an integer of at least 0, got {self.shuffle!r:.80}"
            )
        object.__setattr__(self, "shuffle", int(self.shuffle))
        if not isinstance(self.persona, str):
            raise ValueError(f"want a text as persona, got {self.persona!r:.80}")
        try:
            date.fromisoformat(self.date)
        except (TypeError, ValueError):
            raise ValueError(
                f"want a date such as '{DATE}', got {self.date!r:.80}"
            ) from None
        for name, known_fields in TEMPLATES.items():
            template = getattr(self, name)
            if not isinstance(template, str | None):
                raise ValueError(f"want a text as {name}, got {template!r:.80}")
            for field in re.findall(r"\{([a-z_]+)\}", template or ""):
                problem = f"the template {name} has no field {field!r:.80}"
                check_known(field, known_fields, problem)
        for name, choices in (
            ("history", get_args(HistoryMode)),
            ("parsing", get_args(Parsing)),
            ("language", ("en", *languages())),
        ):
            value = getattr(self, name)
            check_known(value, choices, f"unknown {name} {value!r:.80}")

    @property
    def is_of_state(self) -> bool:
        """Whether a prompt depends on nothing but the information state."""
        return self.history == "state" and not self.shuffle

    def parse(
        self,
        game: AnyGame,
        state: AnyState,
        text: str,
        legal: Sequence[str] | None = None,
    ) -> Any | InvalidReply:
        """The legal action that a reply names; see `arena_wrappers.prompts.parsing.parse_reply`."""
        return parse_reply(game, state, text, self.reply_format, legal, self.parsing)


PROMPT_OPTIONS = tuple(field.name for field in fields(PromptOptions))


def seat_options(prompt: Mapping[str, Any], seat: int) -> PromptOptions:
    """The prompt options of a seat in a record, see `Episode.prompt`.

    Raises:
        ValueError: the record's options have another form.
    """
    seats = prompt.get("seats", {})
    options_of_seat = seats.get(str(seat), {}) if isinstance(seats, Mapping) else None
    if not isinstance(options_of_seat, Mapping):
        raise ValueError(f"want options by seat in a record, got {seats!r:.80}")
    merged = {**prompt, **options_of_seat}
    return PromptOptions(**{n: merged[n] for n in PROMPT_OPTIONS if n in merged})


TEMPLATES = {
    "system": ("persona", "rules", "format", "example"),
    "turn": ("text", "legal"),
    "again": ("fault",),
}

SeatOptions = Mapping[int | str, PromptOptions | Mapping[str, Any]]


def options_by_seat(seats: SeatOptions, num_players: int) -> dict[int, PromptOptions]:
    """Options by seat; the keys may be texts, as in JSON.

    Raises:
        ValueError: a seat is out of range, an option is unknown, or a value is neither
            `PromptOptions` nor a mapping.
    """
    if not isinstance(seats, Mapping):
        raise ValueError(f"want seats as a mapping of options, got {seats!r:.80}")
    seat_of_name = {str(seat): seat for seat in range(num_players)}
    options_of_seat = {}
    for key, options in seats.items():
        if str(key) not in seat_of_name:
            raise ValueError(f"want seats from 0 to {num_players - 1}, got {key!r:.80}")
        if isinstance(options, Mapping):
            for name in options:
                problem = f"seat {key} has no option {name!r:.80}"
                check_known(name, PROMPT_OPTIONS, problem)
            options = PromptOptions(**options)
        if not isinstance(options, PromptOptions):
            raise ValueError(f"want PromptOptions of seat {key}, got {options!r:.80}")
        options_of_seat[seat_of_name[str(key)]] = options
    return options_of_seat
