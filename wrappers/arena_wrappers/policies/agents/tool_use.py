"""The agent `tools`: a calculator, the list of legal moves, and the trial of a move."""

import ast
import json
import operator
import random
import re
from collections.abc import Callable

from arena_wrappers.policies.agents.protocol import (
    Ask,
    Asks,
    TurnView,
    add_instruction,
    quoted_reply,
    roles,
)
from arena_wrappers.policies.protocol import Reply
from arena_wrappers.prompts import InvalidReply, parse_reply

_CALL = re.compile(r"<tool_call>(.{1,4000}?)</tool_call>", re.DOTALL)


@roles("caller")
def tools(view: TurnView, calls: int = 4) -> Asks:
    """The caller may call tools before it moves, as `<tool_call>{"name": ...}</tool_call>`.

    Args:
        view: the turn.
        calls: largest number of calls.
    """
    instruction = (
        'Before you move you may call a tool: <tool_call>{"name": NAME, "arguments": {...}}'
        "</tool_call>\ncalculate(expression): the value of an arithmetic expression.\n"
        "legal_moves(): the legal moves.\n"
        "try_move(move): what you could see after a move."
    )
    prompt = add_instruction(instruction, view.messages)
    parent = None
    for _ in range(calls):
        reply = yield Ask("caller", prompt, parent)
        match = _CALL.search(reply.text)
        if match is None:
            return Reply(reply.text)
        answer = _tool_answer(view, match[1])
        prompt = add_instruction(
            f"<tool_response>{quoted_reply(answer)}</tool_response>", prompt
        )
        parent = reply
    reply = yield Ask(
        "caller", add_instruction("Now move, without a tool.", prompt), parent
    )
    return Reply(reply.text)


def _tool_answer(view: TurnView, call: str) -> str:
    """What a tool says; never an exception, since models write the call."""
    try:
        fields = dict(json.loads(call))
        name, arguments = fields["name"], dict(fields.get("arguments") or {})
        if name == "calculate":
            return f"{calculated(str(arguments['expression'])):.12g}"
        if name == "legal_moves":
            return ", ".join(view.legal)
        if name == "try_move":
            state = view.draw(random.Random(view.seed))
            move = str(arguments["move"])
            action = parse_reply(view.game, state, move, "bare", view.legal)
            if isinstance(action, InvalidReply):
                return "The move is not legal."
            return view.game.observe(view.game.apply(state, action), view.seat)
        return "There is no such tool."
    except (KeyError, TypeError):
        return "The call lacks its name or its arguments."
    except (ValueError, ArithmeticError, RecursionError, NotImplementedError) as error:
        return str(error)[:200]


_OPERATORS: dict[type, Callable[..., float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
}


def calculated(expression: str) -> float:
    """The value of an expression of numbers, `+ - * / // %` and parentheses.

    Raises:
        ValueError: anything else, or more than 200 characters.

    >>> calculated("3 * (4 + 1) / 2")
    7.5
    """
    if len(expression) > 200:
        raise ValueError("want an expression of at most 200 characters")
    try:
        tree = ast.parse(expression.strip(), mode="eval")
    except (SyntaxError, MemoryError):
        raise ValueError("want an arithmetic expression, such as 3 * (4 + 1)") from None

    def value(node: ast.expr) -> float:
        kind = type(getattr(node, "op", None))
        if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
            return float(node.value)
        if isinstance(node, ast.BinOp) and kind in _OPERATORS:
            return _OPERATORS[kind](value(node.left), value(node.right))
        if isinstance(node, ast.UnaryOp) and kind in _OPERATORS:
            return _OPERATORS[kind](value(node.operand))
        raise ValueError("want numbers, + - * / // % and parentheses alone")

    return value(tree.body)
