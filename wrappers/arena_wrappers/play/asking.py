"""Asks policies for replies: checks them, limits their time, and turns failures into lost episodes."""

import math
import threading
from collections.abc import Sequence
from concurrent.futures import Future, wait
from itertools import chain
from typing import Literal

from arena_wrappers.policies import AsyncPolicy, Policy, Reply, TurnRequest

OnError = Literal["lose", "raise"] | None


class NoReplyError(RuntimeError):
    """A policy gave no reply, such as a model behind an endpoint that cannot be reached."""


def checked_on_error(on_error: OnError) -> OnError:
    """The argument; raises ValueError unless it is `"lose"`, `"raise"` or None."""
    if on_error not in ("lose", "raise", None):
        raise ValueError(
            f"want on_error 'lose' or 'raise', or None, got {on_error!r:.80}; correct it"
        )
    return on_error


def checked_timeout(timeout: float | None) -> float | None:
    """The timeout; raises ValueError unless it is above 0 or None."""
    if timeout is not None and not 0 < timeout <= threading.TIMEOUT_MAX:
        raise ValueError(f"want a timeout above 0 seconds, got {timeout}")
    return timeout


def ask(
    policy: Policy,
    requests: Sequence[TurnRequest],
    timeout: float | None,
    on_error: OnError,
) -> Sequence[Reply]:
    """The replies of a policy, one for each request.

    When a call times out, or fails with `on_error="lose"`, its requests are asked again one by
    one, so that one bad request does not lose the other episodes. A policy that always stalls
    therefore costs `timeout` seconds per request. A call that timed out goes on in its thread:
    with a timeout, `act` may run in several threads at once.

    Args:
        policy: who replies.
        requests: what is asked.
        timeout: seconds that one call may take; None for no limit.
        on_error: what a failure does: `"lose"` gives a `Reply` with `error` to each
            request that also fails alone; `"raise"` raises the exception again, and
            `NoReplyError` for a `Reply` with `error`; None raises exceptions other than
            `TimeoutError`.
    """
    try:
        replies = _check_replies(policy, requests, _call(policy, requests, timeout))
        return _raise_failures(policy, replies, on_error)
    except Exception as error:  # a policy may be anybody's code
        if on_error == "raise":
            raise
        if on_error is None and not isinstance(error, TimeoutError):
            error.add_note(
                f"raised by the policy {policy.name!r} in this process; play(..., "
                "on_error='lose') would lose its episodes and play the others"
            )
            raise
        if len(requests) > 1:
            return [ask(policy, [r], timeout, on_error)[0] for r in requests]
        return [_failure_reply(error)]


async def ask_async(
    policy: AsyncPolicy, request: TurnRequest, timeout: float | None, on_error: OnError
) -> Reply:
    """The reply of an asynchronous policy; the arguments are those of `ask`."""
    try:
        reply = await policy.act_async(request, timeout)
        _check_replies(policy, [request], [reply])
    except Exception as error:  # a network away
        if on_error == "raise":
            raise
        return _failure_reply(error)
    return _raise_failures(policy, [reply], on_error)[0]


MAX_ERROR = 500  # characters


def _failure_reply(error: Exception) -> Reply:
    message = f"{type(error).__name__}: {error}"[:MAX_ERROR]
    return Reply("", error=message, timed_out=isinstance(error, TimeoutError))


def _raise_failures(
    policy: Policy, replies: Sequence[Reply], on_error: OnError
) -> Sequence[Reply]:
    """The replies; raises what made a reply fail, or NoReplyError, if `on_error` wants it."""
    for reply in replies:
        if on_error != "lose" and reply.cause is not None:
            raise reply.cause
        if on_error == "raise" and reply.error is not None:
            raise NoReplyError(f"policy {policy.name!r} gave no reply: {reply.error}")
    return replies


def _check_replies(
    policy: Policy, requests: Sequence[TurnRequest], replies: Sequence[Reply]
) -> Sequence[Reply]:
    if isinstance(replies, str | Reply) or not isinstance(replies, Sequence):
        raise TypeError(
            f"policy {policy.name!r} returned {replies!r:.80}; want a list with one Reply for "
            "each request: return [Reply(...) for request in requests]"
        )
    if len(replies) != len(requests):
        raise ValueError(
            f"policy {policy.name!r} gave {len(replies)} replies to {len(requests)} requests; "
            "want one for each"
        )
    for reply in replies:
        if not isinstance(reply, Reply) or not isinstance(reply.text, str):
            raise TypeError(
                f"policy {policy.name!r} gave {reply!r:.80}, want a Reply; write "
                "Reply(request.wrap(request.legal[0])) for the first legal action"
            )
        if reply.error is not None and not isinstance(reply.error, str):
            raise TypeError(f"policy {policy.name!r}: want a text as error")
        for name, values in (
            ("logprob", reply.logprobs),
            ("entropy", reply.entropies),
        ):
            if values is None:
                continue
            if reply.token_ids is None or len(values) != len(reply.token_ids):
                raise ValueError(f"policy {policy.name!r}: want one {name} per token")
            if not math.isfinite(sum(values)):
                raise ValueError(
                    f"policy {policy.name!r}: want finite numbers, one {name} per token"
                )
    all_ids = (
        ids for r in replies for ids in (r.prompt_ids, r.token_ids) if ids is not None
    )
    kinds = {*map(type, chain.from_iterable(all_ids))}
    if not all(hasattr(kind, "__index__") for kind in kinds):
        raise TypeError(f"policy {policy.name!r}: want integers as token ids")
    return replies


def _call(
    policy: Policy, requests: Sequence[TurnRequest], timeout: float | None
) -> Sequence[Reply]:
    if timeout is None:
        return policy.act(requests)
    done: Future[Sequence[Reply]] = Future()

    def work() -> None:
        try:
            done.set_result(policy.act(requests))
        except Exception as error:  # raised again below
            done.set_exception(error)

    threading.Thread(target=work, daemon=True).start()
    if not wait([done], timeout).done:
        raise TimeoutError(f"no reply within {timeout} s")
    return done.result()
