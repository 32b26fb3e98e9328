"""Terms of the loss, by name: they are added to TRL's surrogate, or take its place.

A term is `def term(logps, seen, **options) -> Tensor[B, T]`; it declares with `needs` what it reads of
`Seen`. Its value per token is averaged as `loss_type` does, times its weight:

    loss = TRL's loss + Σ weight(step) · mean of the term

A surrogate (`hapo_clip`, `aepo_clip`, `dpo_drift`) takes the place of TRL's while it has a weight; TRL's KL
term and entropy bonus stay. A term of weight 0 is not computed. Statistics over tokens are of the micro-batch.

| entry of `losses` | meaning |
|---|---|
| `weight`, `over`, `until` | see `arena_trainers.weight.Weight` |
| `teacher`, `sees_hidden` | of a term that needs one: a policy; whether it may know what the seat does not |
| others | options of the term |

Below, ρ = exp(log π - log π_old). This module imports no torch.
"""

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from arena_envs.doors import Door, broken, check_options
from arena_trainers.weight import OF_WEIGHT, Weight

F = TypeVar("F", bound=Callable[..., Any])
_HERE = "arena_trainers.losses"
NEEDS = ("old", "reference", "teacher", "entropy", "values", "invalid")
OF_TURNS = ("teacher", "values", "invalid")  # a row has to be one turn
TINY = 1e-8
TERMS = (
    *("kl_to", "entropy", "kickstart", "down_push"),
    *("hapo_clip", "aepo_clip", "dpo_drift"),
)
losses: Door[Any] = Door(
    "loss term",
    "arena.losses",
    {name: f"{_HERE}:{name}" for name in TERMS},
    given=("logps", "seen"),
    kit=f"{_HERE}:check_term",
)


class Choice(NamedTuple):
    """A teacher's probabilities of the legal actions, and the learner's log-probabilities of them.

    float32[B, A] each. Probabilities are 0 beyond the legal actions; the second have a gradient.
    """

    probs: Any
    logps: Any


@dataclass(frozen=True)
class Seen:
    """What a term reads beside `logps`; tensors [B, T] unless told otherwise.

    Attributes:
        mask: bool, the tokens that are trained.
        advantages: of each token.
        clip: two numbers, `epsilon` and `epsilon_high`.
        old: log-probabilities when the batch was played.
        reference: log-probabilities of the reference.
        entropy: of the policy at each token, with gradient.
        values: of the turn, by the critic or a column function.
        invalid: bool[B], whether the reply of the row was invalid.
        teacher: what the term's teacher would do.
    """

    mask: Any
    advantages: Any
    clip: tuple[float, float]
    old: Any = None
    reference: Any = None
    entropy: Any = None
    values: Any = None
    invalid: Any = None
    teacher: Choice | None = None


def needs(*names: str, surrogate: bool = False) -> Callable[[F], F]:
    """Declares which optional fields of `Seen` a term reads, and whether it is a surrogate."""
    for name in names:
        if name not in NEEDS:
            raise ValueError(f"want needs among {', '.join(NEEDS)}, got {name!r}")

    def declare(term: F) -> F:
        term.__dict__["loss_needs"] = (frozenset(names), surrogate)
        return term

    return declare


@needs("old", "reference")
def kl_to(logps: Any, seen: Any, *, corrected: bool = True) -> Any:
    """The KL divergence to the reference, as TRL's `beta`: exp(d) - d - 1, d = log π_ref - log π.

    It is `corrected` by ρ as with TRL's `use_bias_correction_kl`: then its gradient is unbiased.
    """
    d = seen.reference - logps
    kl = d.exp() - d - 1
    return kl * (logps - seen.old).exp() if corrected else kl


@needs("entropy")
def entropy(logps: Any, seen: Any) -> Any:
    """The entropy of the policy, negative: a weight above 0 raises it."""
    return -seen.entropy


@needs("teacher")
def kickstart(logps: Any, seen: Any) -> Any:
    """The cross-entropy H(teacher, learner) over the legal actions, exactly.

    Of "Kickstarting Deep Reinforcement Learning" (https://arxiv.org/abs/1803.03835). The tokens of a
    reply have equal shares of it.
    """
    cross = -(seen.teacher.probs * seen.teacher.logps).sum(1, keepdim=True)
    return cross / seen.mask.sum(1, keepdim=True).clamp(min=1) * seen.mask


@needs("reference", "invalid")
def down_push(logps: Any, seen: Any, *, of: str = "invalid") -> Any:
    """Pushes failed turns down: log(1 + π / π_ref), as the code of SEAgent with a weight of 0.2.

    Code: https://github.com/SunzeY/SEAgent. A judge names its failed turns; here these are `"invalid"`
    replies, or those of negative advantage if `of` is `"losing"`.
    """
    if of not in ("invalid", "losing"):
        raise ValueError(f"want of as 'invalid' or 'losing' in down_push, got {of!r}")
    failed = seen.invalid[:, None] if of == "invalid" else seen.advantages < 0
    gap = logps - seen.reference
    return gap.logaddexp(gap.new_zeros(())) * failed


def clipped(ratio: Any, advantages: Any, low: Any, high: Any) -> Any:
    """PPO's surrogate: -min(ρ A, clip(ρ, low, high) A)."""
    return -(ratio * advantages).minimum(ratio.clamp(min=low, max=high) * advantages)


def value_loss(values: Any, old: Any, targets: Any, clip: float | None = None) -> Any:
    """PPO's loss of values v, per token: ½ max((v - R)², (v_old + clip(v - v_old, ±c) - R)²).

    Without a clip c it is ½ (v - R)²; v_old is the value as the batch was played, R the target.
    """
    error = (values - targets) ** 2
    if clip is not None:
        near = old + (values - old).clamp(-clip, clip)
        error = error.maximum((near - targets) ** 2)
    return error / 2


@needs("old", "entropy", surrogate=True)
def hapo_clip(
    logps: Any, seen: Any, *, quantile: float = 0.8, redistribute: bool = True
) -> Any:
    """PPO's surrogate with clipping by entropy, of HAPO (https://arxiv.org/abs/2509.16591).

    h = log H - its quantile, scaled to [-1, 0] and to [0, 1] on the sides of 0:

        low = ε (1 - h) where h ≤ 0,  high = ε' (1 + h) where h > 0

    `redistribute` makes A (1 + h) of A where h > 0 and ρ is outside of [1 - low / 2, 1 + high / 2], or
    h ≤ 0 and ρ is inside.
    """
    ratio = (logps - seen.old).exp()
    found = seen.entropy.detach().clamp(min=TINY).log()
    h = found - found[seen.mask].quantile(quantile, interpolation="nearest")
    own = h[seen.mask]
    top, bottom = own.max().clamp(min=TINY), (-own).max().clamp(min=TINY)
    h = (h / top).where(h > 0, h / bottom).clamp(-1, 1)
    low = seen.clip[0] * (1 - h.clamp(max=0))
    high = seen.clip[1] * (1 + h.clamp(min=0))
    advantages, now = seen.advantages, ratio.detach()
    if redistribute:
        inside = (now > 1 - low / 2) & (now < 1 + high / 2)
        advantages = (advantages * (1 + h)).where(inside != (h > 0), advantages)
    return clipped(ratio, advantages, 1 - low, 1 + high)


@needs("old", "entropy", surrogate=True)
def aepo_clip(logps: Any, seen: Any, *, alpha: float = 0.2) -> Any:
    """PPO's surrogate whose upper clip keeps a gradient, of AEPO (https://arxiv.org/abs/2510.14545).

    Where A > 0 and ρ > 1 + ε', the loss is -(1 + ε') A ρ / sg(ρ): the value of the clip, with a
    gradient. A is scaled by 1 + alpha z(H), z standardised.
    """
    ratio, own = (logps - seen.old).exp(), seen.entropy.detach()
    z = (own - own[seen.mask].mean()) / own[seen.mask].std(correction=0).clamp(min=TINY)
    advantages = seen.advantages * (1 + alpha * z)
    low, high = 1 - seen.clip[0], 1 + seen.clip[1]
    kept = -high * advantages * ratio / ratio.detach()
    over = (advantages > 0) & (ratio.detach() > high)
    return kept.where(over, clipped(ratio, advantages, low, high))


@needs("old", surrogate=True)
def dpo_drift(logps: Any, seen: Any, *, alpha: float = 2.0, beta: float = 0.6) -> Any:
    """-(ρ A - drift) of Discovered Policy Optimisation (https://arxiv.org/abs/2210.05639).

    drift = relu(x - α tanh(x / α)), x = (ρ - 1) A where A ≥ 0; else the same of β and x = A log ρ.
    """
    log_ratio, advantages = logps - seen.old, seen.advantages
    ratio = log_ratio.exp()
    x, y = (ratio - 1) * advantages, log_ratio * advantages
    gained, lost = x - alpha * (x / alpha).tanh(), y - beta * (y / beta).tanh()
    return gained.relu().where(advantages >= 0, lost.relu()) - ratio * advantages


@dataclass(frozen=True, eq=False)
class Term:
    """A term with its weight."""

    name: str
    function: functools.partial[Any]
    weight: Weight
    needs: frozenset[str]
    surrogate: bool
    teacher: Any = None
    sees_hidden: bool = False


def terms_of(given: Mapping[str, Any], layout: str = "turn") -> list[Term]:
    """The terms of the option `losses`, without those whose weight is always 0."""
    found = [_term(name, {} if o is None else o) for name, o in given.items()]
    for term in found:
        if layout != "turn" and (of_turns := term.needs & {*OF_TURNS}):
            raise ValueError(
                f"loss term {term.name!r} needs {min(of_turns)!r} of turns, got "
                f"layout={layout!r}; set layout='turn'"
            )
    live = [term for term in found if not term.weight.is_over(0)]
    own = {term.name: term.weight for term in live if term.surrogate}
    if len(own) > 1 or any(
        min(weight.start, weight.end) < 0 for weight in own.values()
    ):
        raise ValueError(
            "want one surrogate in losses, and its weight above 0, got "
            f"{ {name: given[name] for name in own} }; leave the others out"
        )
    return live


def _term(name: str, given: Any) -> Term:
    if not isinstance(given, Mapping):
        raise ValueError(
            f"want a mapping such as {{weight: 0.1}} as losses[{name!r}], got {given!r}"
        )
    one = losses.read(name)
    function, options = losses.find(one.name), {**one.options, **given}
    weight = Weight.of(f"losses[{name!r}]", options)
    reads, surrogate = getattr(function, "loss_needs", (frozenset[str](), False))
    teacher, sees = options.pop("teacher", None), options.pop("sees_hidden", False)
    if type(teacher) is not (str if "teacher" in reads else type(None)):
        wanted = "a policy as teacher" if "teacher" in reads else "no teacher"
        raise ValueError(f"want {wanted} in losses[{name!r}], got {teacher!r}")
    if type(sees) is not bool:
        raise ValueError(
            f"want sees_hidden of losses[{name!r}] as true or false, got {sees!r}"
        )
    others = (*OF_WEIGHT, "teacher", "sees_hidden")
    what = f"loss term {name!r}"
    check_options(what, function, options, losses.given, others=others)
    made = functools.partial(function, **options)
    return Term(name, made, weight, reads, surrogate, teacher, sees)


def check_term(term: Callable[..., Any], **options: Any) -> None:
    """Checks that a term reads what it declares, and gives a finite loss and gradient per token.

    Raises:
        BrokenPromise: names the first promise that it breaks.
    """
    import torch

    draws = torch.Generator().manual_seed(0)
    logps, old, reference, values, entropy = -torch.rand(5, 2, 3, generator=draws)
    logps, entropy = logps.requires_grad_(), (-entropy).requires_grad_()
    invalid = torch.tensor([True, False])
    choice = Choice(values.softmax(1), logps.log_softmax(1))
    every = (old, reference, choice, entropy, values, invalid)
    known: dict[str, Any] = dict(zip(NEEDS, every, strict=True))
    reads, _ = getattr(term, "loss_needs", (frozenset[str](), False))
    mask = torch.tensor([[True] * 3, [True, True, False]])
    read = {name: known[name] for name in reads}
    seen = Seen(mask, torch.tensor([[1.0], [-1.0]]) * mask, (0.2, 0.2), **read)
    try:
        found = term(logps, seen, **options)
    except (AttributeError, TypeError) as error:
        broken(
            "needs",
            f"it reads what it does not declare, or an option is wrong: {error}",
        )
    if tuple(found.shape) != (2, 3):
        broken("per token", f"want a loss of shape (2, 3), got {tuple(found.shape)}")
    if not found.isfinite().all():
        broken("finite", f"got {found.tolist()}")
    if not found.requires_grad:
        broken("gradient", "it does not depend on the policy")
