"""A term of the loss.

- **Protocol**: a function of the log-probabilities of the trained tokens, of `LossInputs`, and
  of options. It returns a loss per token. `needs` declares what it reads of `LossInputs`; all
  else is None. `@needs(surrogate=True)` leaves out TRL's surrogate.
- **Name**: `losses: {my_loss:my_term: {weight: 0.1}}`; the group is `arena.losses`.
- **Check**: `check_term`.
"""

from arena_trainers.losses import check_term, needs


@needs("reference")
def my_term(logps, inputs, *, power=2.0):
    """A penalty for the distance to the reference's log-probabilities."""
    return (logps - inputs.reference).abs() ** power


def test_my_term_keeps_its_promises():
    check_term(my_term)
