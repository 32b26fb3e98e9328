"""What is trained is what was sampled, in architectures that pad, cache and score otherwise."""

import math
import warnings

import numpy as np
import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from arena_trainers import TurnGRPOConfig, TurnGRPOTrainer
from arena_trainers.train import TrainingRow
from arena_trainers.train.score import forward as forward_module
from arena_trainers.train.score import mismatch
from arena_trainers.train.score.mismatch import checked_rows
from arena_trainers.train.score.packing import model_inputs

# random models never win
pytestmark = pytest.mark.filterwarnings("ignore::arena_credit.FlatPoolWarning")

SIZES = {
    "vocab_size": 1000,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 256,
    "pad_token_id": 0,
    "state_size": 8,
    "conv_kernel": 4,
    "word_embed_proj_dim": 32,
    "ffn_dim": 48,
}
OWN = {
    "ctrl": {"n_embd": 32, "n_layer": 2, "n_head": 4, "dff": 48, "n_positions": 256},
    "gpt2": {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 256},
    "recurrent_gemma": {
        "lru_width": 32,
        "attention_window_size": 6,
        "block_types": ["recurrent", "attention"],
    },
    "mixtral": {"num_local_experts": 4, "num_experts_per_tok": 2},
}


def model_of(model_type, **options):
    """A small model of an architecture, with random weights, norms included."""
    given = {**SIZES, **OWN.get(model_type, {}), **options}
    config = AutoConfig.for_model(model_type, **given)
    model = AutoModelForCausalLM.from_config(config).float().eval()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            noise = torch.randn(weight.shape, generator=generator)
            if weight.dim() >= 2:
                weight.copy_(0.25 * noise)
            elif "norm" in name and "weight" in name:
                weight += 0.3 * noise
    return model


@pytest.fixture
def trainer_of(settings, tokenizer):
    """A trainer of a small model of an architecture."""

    def make(model_type="llama", config=None, **options):
        own = {"max_completion_length": 3, "learning_rate": 1e-4, "logging_steps": 1}
        args = TurnGRPOConfig(**{**settings, **own, **options})
        model = model_of(model_type, **(config or {}))
        return TurnGRPOTrainer(model, args, processing_class=tokenizer)

    return make


def warned(run):
    """The texts of the warnings of a call."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        run()
    return [str(x.message) for x in found]


def alone(model, prompt, reply):
    """Log-probabilities of a reply in a row by itself: no padding, no mask, no cache."""
    logits = model(input_ids=torch.tensor([prompt + reply]), use_cache=False).logits
    logprobs = torch.log_softmax(logits[0].double(), dim=-1)
    first = len(prompt) - 1
    return torch.stack([logprobs[first + i, token] for i, token in enumerate(reply)])


def gradient_of(model, loss):
    weights = [p for p in model.parameters() if p.requires_grad]
    found = torch.autograd.grad(loss, weights, allow_unused=True)
    return torch.cat([g.flatten() for g in found if g is not None])


PROMPTS = [[5, 9, 7, 3, 8, 6, 4, 2], [7, 4, 9], [5, 9, 7, 3, 8, 6, 4, 2]]
REPLIES = [[3, 6], [8, 2, 5], [4]]


def padded():
    """`PROMPTS` and `REPLIES` as TRL pads them."""
    ids = torch.zeros(3, 11, dtype=torch.long)
    mask = torch.zeros_like(ids)
    for i, (prompt, reply) in enumerate(zip(PROMPTS, REPLIES, strict=True)):
        ids[i, 8 - len(prompt) : 8 + len(reply)] = torch.tensor(prompt + reply)
        mask[i, 8 - len(prompt) : 8 + len(reply)] = 1
    return ids, mask


@pytest.mark.parametrize(
    "model_type",
    [
        "hunyuan_v1_dense",
        "biogpt",
        "ctrl",
        "gpt2",
        "opt",
        "bloom",
        "qwen3",
        "mamba",
        "falcon_mamba",
        "rwkv",
        "recurrent_gemma",
        "mixtral",
    ],
)
@pytest.mark.filterwarnings("ignore:TRL's fused output layer switched off")
@pytest.mark.parametrize("bound", [pytest.param(1000, marks=pytest.mark.slow), 12])
def test_padded_rows_train_as_rows_of_their_own(
    model_type, bound, trainer_of, monkeypatch
):
    """Log-probabilities to 1e-4, and the gradient of their weighted sum; chunks run again."""
    monkeypatch.setattr(forward_module, "free_memory", lambda device: 0)
    router = {"router_aux_loss_coef": 0.0} if model_type == "mixtral" else {}
    trainer = trainer_of(model_type, max_tokens_per_forward=bound, **router)
    rows = [TrainingRow(p, r, None, 0.0) for p, r in zip(PROMPTS, REPLIES, strict=True)]
    trainer.forward.mismatch_check.check(rows)
    model = trainer.model
    logprobs, _, _ = trainer._get_per_token_logps_and_entropies(model, *padded(), 3)
    wanted = [alone(model, p, r) for p, r in zip(PROMPTS, REPLIES, strict=True)]
    for i, own in enumerate(wanted):
        torch.testing.assert_close(
            logprobs[i, : len(own)].double(), own, atol=1e-4, rtol=0
        )
    ours = sum((i + 1) * logprobs[i, : len(x)].sum() for i, x in enumerate(wanted))
    theirs = sum((i + 1) * x.sum() for i, x in enumerate(wanted))
    found, right = gradient_of(model, ours), gradient_of(model, theirs)
    assert (found - right).norm() < 1e-4 * right.norm()


def test_trls_layer_is_switched_off_where_it_lacks_a_transform(trainer_of):
    """RecurrentGemma caps its logits under a name that TRL does not read."""
    trainer = trainer_of("recurrent_gemma")
    said = warned(trainer.train)
    assert any("TRL's fused output layer switched off" in text for text in said)
    assert not trainer.forward.mode.fused
    assert trainer.state.log_history[0]["arena/sampling_gap/max"] < 1e-4


@pytest.mark.slow
def test_logits_of_inkling_are_trained_as_sampled(trainer_of):
    trainer = trainer_of("inkling_text")
    said = warned(trainer.train)
    assert any("TRL's fused output layer switched off" in text for text in said)
    assert trainer.state.log_history[0]["arena/sampling_gap/max"] < 1e-4


@pytest.mark.filterwarnings("ignore:the cache of bert is left out")
def test_a_model_that_sees_later_tokens_is_refused(trainer_of):
    with pytest.raises(
        ValueError, match=r"plain forward pass of bert, got some that differ"
    ):
        trainer_of("bert").train()


def test_one_row_that_is_off_is_seen_beside_exact_ones_in_half_precision(
    trainer_of, monkeypatch
):
    """As left padding without positions: only the padded row is wrong."""
    real = model_inputs

    def counted_from_the_edge(packed, device, **options):
        inputs = real(packed, device, **options)
        width = inputs.arguments["input_ids"].shape[1]
        places = torch.arange(width).expand(len(packed), -1)
        return inputs._replace(arguments={**inputs.arguments, "position_ids": places})

    monkeypatch.setattr(forward_module, "model_inputs", counted_from_the_edge)
    monkeypatch.setattr(mismatch, "may_share_prompts", lambda model: False)
    trainer = trainer_of("gpt2", bf16=True)
    prompts = [list(range(10, 130)), PROMPTS[1]]
    rows = [TrainingRow(p, REPLIES[1], None, 0.0) for p in prompts]
    with pytest.raises(ValueError, match="plain forward pass of gpt2"):
        trainer.forward.mismatch_check.check(rows)


def test_sharing_is_switched_off_where_it_is_not_exact(trainer_of, monkeypatch):
    """A model whose attention looks at the two latest tokens alone, and does not say so."""
    trainer = trainer_of("llama")
    attention = trainer.model.model.layers[0].self_attn
    forward = attention.forward

    def windowed(*args, attention_mask=None, **kwargs):
        width = kwargs["hidden_states"].shape[1]
        near = torch.ones(width, width, dtype=torch.bool).tril().triu(-1)[None, None]
        if attention_mask is not None:
            near = near & attention_mask if attention_mask.dtype == torch.bool else near
            near = near | torch.eye(width, dtype=torch.bool)
        return forward(*args, attention_mask=near, **kwargs)

    monkeypatch.setattr(attention, "forward", windowed)
    rows = [TrainingRow(p, r, None, 0.0) for p, r in zip(PROMPTS, REPLIES, strict=True)]
    (text,) = warned(lambda: trainer.forward.mismatch_check.check(rows))
    assert text.startswith("prompt sharing switched off: with this model its log-prob")
    assert not trainer.forward.mode.shared


def test_an_architecture_beyond_any_list_shares_its_prompts(trainer_of):
    trainer = trainer_of("hunyuan_v1_dense")
    trainer.train()
    assert trainer.forward.mode == (True, True)


def test_the_check_is_made_again_when_rows_have_doubled(trainer_of, monkeypatch):
    trainer = trainer_of()
    lengths = []
    score = trainer.forward.score_rows

    def noted(model, rows, *rest):
        lengths.append(int(rows[1].sum(dim=1).max()))
        return score(model, rows, *rest)

    monkeypatch.setattr(trainer.forward, "score_rows", noted)
    for length in (10, 19, 20, 12, 41):
        trainer.forward.mismatch_check.check(
            [TrainingRow([4] * (length - 2), [5, 6], None, 0.0)]
        )
    assert lengths == [10, 20, 41]


def test_the_check_changes_neither_weights_nor_random_numbers(trainer_of):
    trainer = trainer_of()
    before = {name: x.clone() for name, x in trainer.model.state_dict().items()}
    trainer.model.train()
    state = torch.get_rng_state()
    trainer.forward.mismatch_check.check([TrainingRow([4, 5, 6, 7], [8, 9], None, 0.0)])
    assert torch.equal(torch.get_rng_state(), state)
    assert trainer.model.training
    for name, weight in trainer.model.state_dict().items():
        assert torch.equal(weight, before[name])


@pytest.mark.parametrize("most", [1, 7, 20, 1000])
def test_checked_rows_show_padding_and_a_shared_prompt_that_fits(most):
    rows = [TrainingRow(list(range(length)), [1, 2], None, 0.0) for length in (30, 28)]
    *_, first, second, short = checked_rows(rows, most)
    half = (len(first.prompt_ids) + 1) // 2
    assert first.prompt_ids[:half] == second.prompt_ids
    assert first.completion_ids != second.completion_ids
    packed = len(first.prompt_ids) - 1 + 2 * len(first.completion_ids)
    assert packed <= most or most == 1
    assert len(short.prompt_ids) < len(first.prompt_ids) or most == 1


KEPT = {  # mass that a cut keeps, of probabilities in descending order
    "top_k": lambda p: p[:2].sum(),
    "top_p": lambda p: p[: int((p.cumsum(0) < 0.5).sum()) + 1].sum(),
    "min_p": lambda p: p[p >= 0.3 * p[0]].sum(),
}


@pytest.mark.parametrize(
    "cut",
    [
        pytest.param({"top_k": 2}, marks=pytest.mark.slow),
        {"top_p": 0.5},
        pytest.param({"min_p": 0.3}, marks=pytest.mark.slow),
    ],
)
def test_the_gap_of_a_cut_is_logged_and_said(cut, make_trainer):
    """It is -log of the mass that was kept at each token of the rows that ran."""
    (name,) = cut
    still = {"learning_rate": 0.0, "temperature": 2.0, "episodes_per_step": 16}
    trainer = make_trainer(**cut, **still, logging_steps=1)
    said = warned(trainer.train)
    assert any(f"because {name} changes what is drawn" in text for text in said)
    real = [row for row in trainer._rows if row.advantage is not None]
    live = [(x.prompt_ids, x.completion_ids) for x in real if x.advantage.any()]
    gaps = []
    for row in real:
        if (row.prompt_ids, row.completion_ids) in live:
            for i in range(len(row.completion_ids)):
                ids = torch.tensor([[*row.prompt_ids, *row.completion_ids[:i]]])
                logits = trainer.model(input_ids=ids).logits[0, -1].detach()
                p = (logits / 2.0).softmax(-1)
                gaps.append(-math.log(KEPT[name](p.sort(descending=True).values)))
    logged = trainer.state.log_history[0]
    assert max(gaps) > 0.01
    assert logged["arena/sampling_gap/mean"] == pytest.approx(np.mean(gaps), 1e-3)
    assert logged["arena/sampling_gap/max"] == pytest.approx(max(gaps), 1e-3)


def test_without_a_cut_there_is_no_gap_and_no_warning(trainer_of):
    trainer = trainer_of(max_steps=2, num_iterations=2, logging_steps=1)
    assert not any("log-probabilities" in text for text in warned(trainer.train))
    logged = [x for x in trainer.state.log_history if "loss" in x]
    assert len(logged) == 2
    assert all(x["arena/sampling_gap/max"] < 1e-4 for x in logged)


def test_a_policy_that_plays_with_other_weights_is_noticed(trainer_of, monkeypatch):
    trainer = trainer_of()
    inner = trainer.policy.backend.inner
    generate = inner.generate

    def shifted(*args):
        made = generate(*args)
        return made._replace(logprobs=[[x - 0.5 for x in row] for row in made.logprobs])

    monkeypatch.setattr(inner, "generate", shifted)
    said = warned(trainer.train)
    assert any("differ by 0.5 nats on average and 0.5 at most" in text for text in said)


@pytest.mark.parametrize(
    "rope",
    [
        {"rope_type": "dynamic", "factor": 2.0},
        {
            "rope_type": "longrope",
            "original_max_position_embeddings": 8,
            "short_factor": [1.0] * 4,
            "long_factor": [2.0] * 4,
            "factor": 2.0,
        },
    ],
    ids=lambda rope: rope["rope_type"],
)
def test_rows_beyond_positions_that_move_are_refused(rope, trainer_of):
    positions = {"rope_parameters": {"rope_theta": 1e4, **rope}}
    trainer = trainer_of(config={**positions, "max_position_embeddings": 8})
    trainer.forward.mismatch_check.check([TrainingRow([4] * 6, [5, 6], None, 0.0)])
    with pytest.raises(
        ValueError, match=r"at most 8 tokens together, got 9.*rope_type"
    ):
        trainer.forward.mismatch_check.check([TrainingRow([4] * 7, [5, 6], None, 0.0)])


def test_the_router_loss_of_experts_is_refused(trainer_of):
    with pytest.raises(ValueError, match="give --router_aux_loss_coef 0"):
        trainer_of("mixtral")
