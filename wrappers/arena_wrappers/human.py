"""`HumanPolicy`: a person at a terminal chooses the replies."""

from collections.abc import Callable, Sequence

from arena_envs.hostile import break_markup
from arena_wrappers.formats import InvalidReply, parse_reply
from arena_wrappers.policies import Policy, Reply, TurnRequest, addressed

HINT, RULES = "?", "rules"


class HumanPolicy:
    """Asks a person for each action, until the input is a legal one.

    Shows the seat's text, with the legal actions numbered from 1. The person types an action
    or its number; `?` shows a hint of the advisor, `rules` the rules. Actions whose texts are
    numbers are not numbered.

    Args:
        advisor: the policy that gives hints; None for no hints.
        read: takes an input prompt, returns the line that the person typed.
        write: shows a text.
        name: name in records.
    """

    def __init__(
        self,
        advisor: Policy | None = None,
        read: Callable[[str], str] = input,
        write: Callable[[str], None] = print,
        name: str = "human",
    ) -> None:
        self.advisor = advisor
        self.read, self.write = read, write
        self.name = name

    def act(self, requests: Sequence[TurnRequest]) -> list[Reply]:
        """One reply for each request.

        Raises:
            EOFError: the person closed the input.
        """
        return [self._ask(request) for request in requests]

    def _ask(self, request: TurnRequest) -> Reply:
        game, state = request.game, request.state
        self.write(f"\n{game.observe(state, request.seat)}")
        self.write(_numbered(request.legal))
        while True:
            typed = self.read(f"player_{request.seat}> ").strip()
            if typed == RULES:
                self.write(game.rules(request.seat))
            elif typed == HINT:
                self.write(self._hint(request))
            elif (text := _action_text(request, typed)) is not None:
                return Reply(request.wrap(text))
            else:
                self.write(f"Not a legal action: {typed[:80]!r}.")

    def _hint(self, request: TurnRequest) -> str:
        if self.advisor is None:
            return "There are no hints in this game: no advisor was given."
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


def _has_numbers(legal: Sequence[str]) -> bool:
    return not any(text.isdigit() for text in legal)


def _numbered(legal: Sequence[str]) -> str:
    if not _has_numbers(legal):
        return f"Legal actions: {', '.join(legal)}."
    return "  ".join(f"{number}: {text}" for number, text in enumerate(legal, 1))


def _action_text(request: TurnRequest, typed: str) -> str | None:
    """The canonical text of the action that was typed; None if it is no legal action."""
    game, state, legal = request.game, request.state, request.legal
    found = parse_reply(game, state, typed, "bare", legal)
    if not isinstance(found, InvalidReply):
        return game.action_text(state, found)
    is_number = typed.isascii() and typed.isdigit() and _has_numbers(legal)
    if is_number and 1 <= int(typed[:9]) <= len(legal):
        return legal[int(typed[:9]) - 1]
    return None
