"""The worked vectors of the loss, by TRL's loss with the options that the recipes set."""

import json
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

FILE = Path(__file__).parents[2] / "credit" / "vectors.json"
VECTOR = json.loads(FILE.read_text())["V11"]
RELEASED = {
    "loss_type": "grpo",
    "epsilon": 0.2,
    "delta": 1.4,
    "use_bias_correction_kl": False,
}


@pytest.fixture
def loss_of(make_trainer, monkeypatch):
    """The loss of rows of tokens, given what the model and the reference make of them."""

    def loss(advantage, mask=None, log_ratio=0.0, log_reference=0.0, **options):
        trainer = make_trainer(**{**RELEASED, **options})
        advantages = torch.tensor(advantage, dtype=torch.float64)  # [B, T]
        kept = torch.ones_like(advantages) if mask is None else torch.tensor(mask)
        now = torch.full_like(advantages, -1.0)
        scored = (now, torch.zeros_like(now), None)
        monkeypatch.setattr(
            trainer, "_get_per_token_logps_and_entropies", lambda *_, **__: scored
        )
        ids = torch.ones(advantages.shape, dtype=torch.long)
        inputs = {
            "prompt_ids": ids,
            "prompt_mask": ids,
            "completion_ids": ids,
            "completion_mask": kept,
            "advantages": advantages,
            "old_per_token_logps": now - log_ratio,
            "ref_per_token_logps": now + log_reference,
            "num_rows_in_batch": torch.tensor(len(advantages)),
        }
        trainer.model.eval()  # no share of accumulated steps
        return float(trainer._compute_loss(trainer.model, inputs))

    return loss


@pytest.mark.parametrize("row", VECTOR["dual_clip"]["rows"])
def test_the_dual_clip(loss_of, row):
    """-min(Aρ, A clip(ρ, .8, 1.2)), and at most 1.4 |A| where A < 0."""
    got = loss_of([[row["advantage"]]], log_ratio=row["log_ratio"])
    assert got == pytest.approx(row["loss"], abs=1e-5)


@pytest.mark.parametrize("row", VECTOR["k3"])
def test_the_kl_term(loss_of, row):
    """exp(d) - d - 1, with d the reference's log-probability less the model's."""
    got = loss_of([[0.0]], log_reference=row["d"], beta=1.0)
    assert got == pytest.approx(row["k3"], abs=1e-5)


@pytest.mark.parametrize(
    ("loss_type", "form"),
    [
        ("grpo", "seq_mean_token_mean"),
        ("bnpo", "token_mean"),
        ("luspo", "seq_mean_token_sum"),
    ],
)
def test_means_over_tokens(loss_of, loss_type, form):
    """At ρ = 1 the loss of a token is less its advantage."""
    vector = VECTOR["aggregation_tokens"]
    advantage = [[-x for x in row] for row in vector["loss"]]
    got = loss_of(advantage, vector["mask"], loss_type=loss_type)
    assert got == pytest.approx(vector[form])


def test_the_released_mode_named_token_sum_is_the_mean(loss_of):
    """As `loss_type: grpo` has it."""
    vector = VECTOR["aggregation_tokens"]
    advantage = [[-x for x in row] for row in vector["loss"]]
    got = loss_of(advantage, vector["mask"], loss_type="grpo")
    assert got == vector["released_mode_named_seq_mean_token_sum"]


def test_a_row_per_trajectory_weighs_tokens_alike(loss_of):
    vector = VECTOR["aggregation_turns"]
    trajectories = vector["trajectories_turns_tokens"]
    rows = [[-x for turn in turns for x in turn] for turns in trajectories]
    got = loss_of(rows, loss_type="grpo")
    assert got == vector["mean_over_traj_of_token_mean"]
