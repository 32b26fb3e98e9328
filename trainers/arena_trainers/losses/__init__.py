"""Terms of the loss, by name: they are added to TRL's surrogate, or take its place.

A term is `def term(logps, inputs, **options) -> Tensor[B, T]`; it declares with `needs` what it reads of
`LossInputs`. Its value per token is averaged as `loss_type` does, times its weight:

    loss = TRL's loss + Σ weight(step) · mean of the term

A surrogate (`hapo_clip`, `aepo_clip`, `dpo_drift`) takes the place of TRL's while it has a weight; TRL's KL
term and entropy bonus stay. A term of weight 0 is not computed. Statistics over tokens are of the micro-batch.

| entry of `losses` | meaning |
|---|---|
| `weight`, `over`, `until` | see `arena_trainers.options.Weight` |
| `teacher`, `sees_hidden` | of a term that needs one: a policy; whether it may know what the seat does not |
| others | options of the term |

Below, ρ = exp(log π - log π_old). This module imports no torch.
"""

from arena_trainers.losses.by_name import Term as Term
from arena_trainers.losses.by_name import losses as losses
from arena_trainers.losses.by_name import terms_of as terms_of
from arena_trainers.losses.inputs import TINY as TINY
from arena_trainers.losses.inputs import Choice as Choice
from arena_trainers.losses.inputs import LossInputs as LossInputs
from arena_trainers.losses.inputs import needs as needs
from arena_trainers.losses.surrogates import aepo_clip as aepo_clip
from arena_trainers.losses.surrogates import clipped as clipped
from arena_trainers.losses.surrogates import dpo_drift as dpo_drift
from arena_trainers.losses.surrogates import hapo_clip as hapo_clip
from arena_trainers.losses.terms import down_push as down_push
from arena_trainers.losses.terms import entropy as entropy
from arena_trainers.losses.terms import kickstart as kickstart
from arena_trainers.losses.terms import kl_to as kl_to
from arena_trainers.losses.testing import check_term as check_term
from arena_trainers.losses.values import value_loss as value_loss
