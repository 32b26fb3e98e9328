"""`HumanPolicy`: a person at a terminal."""

import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

from arena_envs.hostile import break_markup, wrapped
from arena_wrappers.policies.protocol import Policy, Reply, TurnRequest, addressed
from arena_wrappers.prompts import InvalidReply, parse_reply

HINT, RULES = "?", "rules"
KIND = "human"  # of policy strings
_ONE_LINE = (  # the rules want a line break before the action, which ends what is typed
    'Type your reply in one line. A message, where the rules allow one, ends with ".", "!" or '
    '"?" before the action.'
)


class HumanPolicy:
    """Asks a person for each action, until the input is a legal one.

    Shows the seat's text, with the legal actions numbered from 1; in language games they are
    examples. The person types an action or its number; `?` shows a hint of the advisor, `rules`
    the rules. Actions whose texts hold numbers, such as "guess 7", are not numbered. Each new
    game and seat begins with the rules. `play` and all that stands on it play one episode at a
    time.

    Args:
        advisor: the policy that gives hints; None for no hints.
        read: takes an input prompt, returns the line that the person typed.
        write: shows a text.
        name: name in records.
    """

    is_person = True

    def __init__(
        self,
        advisor: Policy | None = None,
        read: Callable[[str], str] = input,
        write: Callable[[str], None] = lambda text: print(wrapped(text, sys.stdout)),
        name: str = "human",
    ) -> None:
        self.advisor = advisor
        self.read, self.write = read, write
        self.name = name
        # the game and the seat whose rules were shown last
        self._rules_shown_for: Any = None

    def act(self, requests: Sequence[TurnRequest]) -> list[Reply]:
        """One reply for each request.

        Raises:
            KeyboardInterrupt: the person closed the input, which ends all play as Ctrl-C does.
        """
        try:
            return [self._ask(request) for request in requests]
        except EOFError:
            raise KeyboardInterrupt from None

    def _ask(self, request: TurnRequest) -> Reply:
        game, state = request.game, request.state
        is_talk = game.num_actions is None
        if request.turn == 0:
            self.write(f"\nA new game. You are player_{request.seat}.")
            if self._rules_shown_for != (game, request.seat):  # the rules may be new
                self._rules_shown_for = game, request.seat
                self.write(game.rules(request.seat))
                if is_talk:
                    self.write(_ONE_LINE)
        self.write(f"\n{game.observe(state, request.seat)}")
        self.write(_legal_lines(request))
        while True:
            typed = self.read(f"player_{request.seat}> ").strip()
            if typed == RULES:
                self.write(game.rules(request.seat))
            elif typed == HINT:
                self.write(self._hint(request))
            elif isinstance(parsed := _action_text(request, typed), str):
                return Reply(request.wrap(parsed))
            else:
                # in language games, what the rules want
                advice = parsed.detail if is_talk else _what_to_type(request.legal)
                self.write(f"Not a legal action: {typed[:80]!r}. {advice}")

    def _hint(self, request: TurnRequest) -> str:
        if self.advisor is None:
            return f"No hints here. {_what_to_type(request.legal)}"
        request = addressed(request, self.advisor)
        if hasattr(self.advisor, "action_probs"):
            ((chances, _),) = self.advisor.action_probs([request])
            pairs = zip(request.legal, chances, strict=True)
            return "\n".join(f"{p:6.1%}  {text}" for text, p in pairs)
        (reply,) = self.advisor.act([request])
        if reply.error is not None:
            return f"{self.advisor.name} has failed: {break_markup(reply.error)}"
        # a terminal would execute control characters
        return f"{self.advisor.name} says: {break_markup(reply.text)}"


def names_person(spec: str) -> bool:
    """Whether a policy string names a person: `"human"` or `"human:NAME"`."""
    return spec.partition(":")[0] == KIND


def person(spec: str) -> HumanPolicy:
    """The person that a policy string names, at this terminal.

    Everything is shown on stderr, so that stdout has the results alone.

    Raises:
        ValueError: there is no terminal, or this is one of several processes.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise ValueError(
            f"policy {spec!r} needs a single process, got several (WORLD_SIZE is "
            f"{os.environ['WORLD_SIZE']}); start one process without torchrun"
        )
    if not sys.stdin.isatty():
        raise ValueError(
            f"policy {spec!r} is a person at a terminal, and the input of this process "
            "is none; start it in a terminal, and in the main process"
        )

    def show(text: str) -> None:
        print(wrapped(text, sys.stderr), file=sys.stderr)

    def read(prompt: str) -> str:
        print(prompt, end="", file=sys.stderr, flush=True)
        return input()

    return HumanPolicy(read=read, write=show, name=spec)


def _has_numbers(legal: Sequence[str]) -> bool:
    return not any(word.isdigit() for text in legal for word in text.split())


def _what_to_type(legal: Sequence[str]) -> str:
    """A hint at what to type; actions that hold numbers have no other number."""
    number = " or its number" if _has_numbers(legal) else ""
    return f'Type a legal action{number}, or "rules". Ctrl-C stops.'


def _legal_lines(request: TurnRequest) -> str:
    """The legal actions; in language games they are examples."""
    legal, is_talk = request.legal, request.game.num_actions is None
    head = "For example: " if is_talk else "Legal actions: "
    if not _has_numbers(legal):
        return f"{head}{', '.join(legal)}."
    numbered_texts = "  ".join(
        f"{number}: {text}" for number, text in enumerate(legal, 1)
    )
    return head + numbered_texts if is_talk else numbered_texts


def _action_text(request: TurnRequest, typed: str) -> str | InvalidReply:
    """The canonical text of the action that was typed."""
    game, state, legal = request.game, request.state, request.legal
    parsed = parse_reply(game, state, typed, "bare", legal)
    if not isinstance(parsed, InvalidReply):
        return game.action_text(state, parsed)
    is_number = typed.isascii() and typed.isdigit() and _has_numbers(legal)
    if is_number and 1 <= int(typed[:9]) <= len(legal):
        return legal[int(typed[:9]) - 1]
    return parsed
