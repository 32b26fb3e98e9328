"""Terms of the loss: values and gradients, weights, teachers."""

import dataclasses
import math
from functools import partial
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import arena_envs  # noqa: E402
from arena_envs.registry import BrokenPromise  # noqa: E402
from arena_trainers import losses  # noqa: E402
from arena_trainers.losses import Choice, LossInputs, terms_of  # noqa: E402
from arena_trainers.train.losses import teacher as teacher_module  # noqa: E402
from arena_trainers.train.losses.terms import LossTerms  # noqa: E402
from arena_trainers.train.rows import TrainingRow  # noqa: E402
from arena_trainers.train.score.mismatch import plain_logprobs  # noqa: E402
from arena_trainers.train.score.scores import TokenScores  # noqa: E402
from arena_trainers.weight import Weight  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::arena_credit.FlatPoolWarning")
LOGPS, OLD, REFERENCE = [-1.0, -0.5, -2.0], [-1.3, -0.4, -2.0], [-0.8, -0.9, -1.0]
ADVANTAGES, ENTROPY = [1.0, -2.0, 0.5], [0.2, 0.4, 0.9]


def row(values, **options):
    return torch.tensor([values], dtype=torch.float64, **options)


def inputs_of(**others):
    known = {
        "mask": torch.ones(1, 3, dtype=torch.bool),
        "advantages": row(ADVANTAGES),
        "clip": (0.2, 0.28),
        "old": row(OLD),
        "reference": row(REFERENCE),
        "entropy": row(ENTROPY),
        "invalid": torch.tensor([True]),
    }
    return LossInputs(**{**known, **others})


def gradient(term, **others):
    """The derivative of the sum of a term by the log-probability of each token."""
    logps = row(LOGPS, requires_grad=True)
    term(logps, inputs_of(**others)).sum().backward()
    return logps.grad[0].tolist()


RATIOS = [math.exp(a - b) for a, b in zip(LOGPS, OLD, strict=True)]  # 1.35, 0.905, 1


def test_the_gradient_of_the_kl_term_is_one_less_the_ratio():
    by_hand_d = [x - r for r, x in zip(REFERENCE, LOGPS, strict=True)]
    by_hand = [1 - math.exp(r - x) for r, x in zip(REFERENCE, LOGPS, strict=True)]
    assert gradient(partial(losses.kl_to, corrected=False)) == pytest.approx(by_hand)
    kl = [math.exp(-x) + x - 1 for x in by_hand_d]
    times = [r * (g + k) for r, g, k in zip(RATIOS, by_hand, kl, strict=True)]
    assert gradient(losses.kl_to) == pytest.approx(times)


def test_the_gradient_of_the_entropy_term_is_that_of_the_entropy_with_its_sign():
    entropy = row(ENTROPY, requires_grad=True)
    losses.entropy(row(LOGPS), inputs_of(entropy=entropy)).sum().backward()
    assert entropy.grad[0].tolist() == [-1, -1, -1]


def test_kickstart_is_the_cross_entropy_spread_over_the_tokens():
    """Its derivative by the log-probability of an action is the teacher's probability."""
    learner = row([-0.5, -1.5], requires_grad=True)
    choice = Choice(row([0.25, 0.75]), learner)
    term = losses.kickstart(row(LOGPS), inputs_of(teacher=choice))
    assert term[0].tolist() == pytest.approx([(0.25 * 0.5 + 0.75 * 1.5) / 3] * 3)
    term.sum().backward()
    assert learner.grad[0].tolist() == pytest.approx([-0.25, -0.75])


def test_down_push_fades_below_the_reference_and_spares_valid_replies():
    """The value is -log sigmoid(-d), d = log π - log π_ref: its derivative is sigmoid(d)."""
    d = row(LOGPS) - row(REFERENCE)
    found = losses.down_push(row(LOGPS), inputs_of())
    assert torch.allclose(found, -torch.nn.functional.logsigmoid(-d))
    pushed = d.sigmoid()[0].tolist()
    assert gradient(losses.down_push) == pytest.approx(pushed)
    assert gradient(losses.down_push, invalid=torch.tensor([False])) == [0, 0, 0]
    losing = gradient(partial(losses.down_push, of="losing"))
    assert losing == pytest.approx([0, pushed[1], 0])


def test_hapo_clips_by_the_entropy_of_the_token():
    """The quantile is token 1: h = -1, 0, 1, so the ranges are .4/.28, .2/.28, .2/.56."""
    term = partial(losses.hapo_clip, quantile=0.5, redistribute=False)
    wanted = [0.0, 2 * RATIOS[1], -0.5]  # 1.35 is above 1.28
    assert gradient(term) == pytest.approx(wanted)
    wide = gradient(term, clip=(0.2, 0.4))
    assert wide == pytest.approx([-RATIOS[0], 2 * RATIOS[1], -0.5])


def test_hapo_redistributes_advantages_by_entropy():
    """Token 1, h = 0, keeps A; token 2, h = 1, is inside and keeps A; token 0 is clipped."""
    term = partial(losses.hapo_clip, quantile=0.5)
    assert gradient(term, old=row(LOGPS)) == pytest.approx([0, 2, -0.5])
    assert gradient(term, old=row([-1.0, -0.5, -2.3])) == pytest.approx(
        [0, 2, -0.5 * 2 * math.exp(0.3)]
    )


def test_aepo_keeps_the_gradient_of_the_upper_clip():
    term = partial(losses.aepo_clip, alpha=0.0)
    value = term(row(LOGPS), inputs_of())[0].tolist()
    assert value == pytest.approx([-1.28, 2 * RATIOS[1], -0.5])
    assert gradient(term) == pytest.approx([-1.28, 2 * RATIOS[1], -0.5])


def test_aepo_scales_advantages_by_standardised_entropy():
    mean, std = 0.5, math.sqrt((0.09 + 0.01 + 0.16) / 3)
    scale = [1 + 0.2 * (h - mean) / std for h in ENTROPY]
    found = losses.aepo_clip(row(LOGPS), inputs_of(old=row(LOGPS)))[0].tolist()
    assert found == pytest.approx(
        [-a * s for a, s in zip(ADVANTAGES, scale, strict=True)]
    )


def test_the_gradient_of_dpo_drift():
    """-ρA + drift'; drift' = ρA tanh²((ρ-1)A/α), or A tanh²(A log ρ/β), where it is positive."""
    up = RATIOS[0] * math.tanh((RATIOS[0] - 1) / 2) ** 2
    down = -2 * math.tanh(-2 * -0.1 / 0.6) ** 2
    wanted = [-RATIOS[0] + up, 2 * RATIOS[1] + down, -0.5]
    assert gradient(losses.dpo_drift) == pytest.approx(wanted)


@pytest.fixture
def by_trl(make_trainer, monkeypatch):
    """The loss of one row of three tokens, its gradient, with what the trainer sets."""

    def loss(given=None, old=OLD, entropy=ENTROPY, advantages=ADVANTAGES, **options):
        trainer = make_trainer(losses=given or {}, epsilon_high=0.28, **options)
        logps = row(LOGPS, requires_grad=True)
        scores = losses_scores(logps, row(entropy))

        def scored(*_, **__):
            trainer.forward.latest = scores
            return scores[:3]

        monkeypatch.setattr(trainer, "_get_per_token_logps_and_entropies", scored)
        ids = torch.ones(1, 3, dtype=torch.long)
        inputs = {
            **dict.fromkeys(("prompt_ids", "prompt_mask", "completion_ids"), ids),
            "completion_mask": torch.tensor([[1, 1, 1]]),
            "advantages": row(advantages),
            "old_per_token_logps": row(old),
            "ref_per_token_logps": row(REFERENCE),
            "num_items_in_batch": torch.tensor(3.0),
            "num_rows_in_batch": torch.tensor(trainer.args.steps_per_generation),
        }
        trainer.current_gradient_accumulation_steps = 1
        value = trainer._compute_loss(trainer.model, inputs)
        value.backward()
        return float(value.detach()), logps.grad[0].tolist()

    return loss


def losses_scores(logps, entropy):
    return TokenScores(logps, entropy)


def test_the_kl_term_is_that_of_beta(by_trl):
    wanted, grad = by_trl(beta=0.3)
    found, own = by_trl({"kl_to": {"weight": 0.3}})
    assert found == pytest.approx(wanted, abs=1e-6)
    assert own == pytest.approx(grad, abs=1e-6)


@pytest.mark.parametrize(
    ("term", "options"), [("hapo_clip", {}), ("aepo_clip", {"alpha": 0.0})]
)
def test_surrogates_are_that_of_trl_where_they_coincide(by_trl, term, options):
    """At equal entropies, and below the upper clip."""
    given = {"old": [-1.1, -0.2, -2.0], "entropy": [0.5] * 3}
    wanted, grad = by_trl(**given)
    found, own = by_trl({term: options}, **given)
    assert found == pytest.approx(wanted, abs=1e-6)
    assert own == pytest.approx(grad, abs=1e-6)


def less_advantage(logps, inputs):
    """A surrogate at ratio 1; a test names it as a plug-in."""
    return -inputs.advantages + 0 * logps


@pytest.mark.parametrize(
    "loss_type", ["grpo", "bnpo", "dr_grpo", "dapo", "cispo", "luspo"]
)
def test_terms_are_averaged_as_trl_averages(by_trl, loss_type, monkeypatch):
    """cispo's loss of a token is -.28 A log π; sapo and vespo scale theirs."""
    advantages = [
        a / x / 0.28 if loss_type == "cispo" else a
        for a, x in zip(ADVANTAGES, LOGPS, strict=True)
    ]
    wanted, _ = by_trl(old=LOGPS, advantages=advantages, loss_type=loss_type)
    function = losses.needs(surrogate=True)(less_advantage)
    monkeypatch.setitem(losses.losses.built_in, "less", function)
    found, _ = by_trl({"less": {}}, old=LOGPS, loss_type=loss_type)
    assert found == pytest.approx(wanted, abs=1e-6)


def weights_after(trainer):
    trainer.train()
    return [p.detach().clone() for p in trainer.model.parameters()]


ENDED = {"entropy": {"weight": 0}, "hapo_clip": {"weight": 0}, "kl_to": {"weight": 0.0}}


@pytest.mark.slow
def test_weights_of_zero_train_as_without_terms(make_trainer):
    plain = weights_after(make_trainer(max_steps=2))
    zero = weights_after(make_trainer(max_steps=2, losses=ENDED))
    some = weights_after(make_trainer(max_steps=2, losses={"entropy": {"weight": 0.1}}))
    assert all(torch.equal(a, b) for a, b in zip(plain, zero, strict=True))
    assert not all(torch.equal(a, b) for a, b in zip(plain, some, strict=True))


FINITE = {
    "kl_to": {},
    "entropy": {},
    "kickstart": {"teacher": "cfr"},
    "down_push": {"of": "losing"},
    "hapo_clip": {"redistribute": False},
    "aepo_clip": {"alpha": 0.0},
    "dpo_drift": {},
}


def test_gradients_are_those_of_finite_differences_in_kuhn_poker(
    make_trainer, generated
):
    """Along the gradient; the loss of a batch, by the whole trainer."""
    asked = {
        "kl_to": {},
        "kickstart": {"teacher": "cfr"},
        "down_push": {"of": "losing"},
    }
    trainer = make_trainer(losses=asked)
    inputs = generated(trainer)
    model = trainer.model
    inputs["old_per_token_logps"] = inputs["sampling_per_token_logps"]
    trainer.current_gradient_accumulation_steps = 1
    parameters = [p for p in model.parameters() if p.requires_grad]
    with torch.no_grad():  # away from the reference, where the KL term is flat
        for i, p in enumerate(parameters):
            p += 0.01 * torch.randn(p.shape, generator=torch.Generator().manual_seed(i))
    for name, options in FINITE.items():
        trainer.terms = LossTerms(trainer, terms_of({name: options}))

        total = partial(trainer._compute_loss, model, inputs)
        grads = torch.autograd.grad(total(), parameters, allow_unused=True)
        grads = [
            torch.zeros_like(p) if g is None else g
            for g, p in zip(grads, parameters, strict=True)
        ]
        size = sum(float((g**2).sum()) for g in grads) ** 0.5
        assert size > 1e-4, name
        ends = []
        for sign in (1, -1):
            with torch.no_grad():
                for p, g in zip(parameters, grads, strict=True):
                    p += sign * 1e-3 * g / size
                ends.append(float(total()))
                for p, g in zip(parameters, grads, strict=True):
                    p -= sign * 1e-3 * g / size
        assert (ends[0] - ends[1]) / 2e-3 == pytest.approx(size, rel=0.02), name


def test_kickstart_learns_the_teacher_without_rewards(make_trainer):
    """The exact KL divergence from the teacher falls, in the mean over information states."""
    from arena_eval.exploit import tabular
    from arena_wrappers import make_policy

    trainer = make_trainer(
        losses={"kickstart": {"teacher": "cfr"}},
        part_weights={"game": 0.0, "format": 0.0},
        max_steps=8,
        episodes_per_step=32,
        learning_rate=1e-2,
        lr_scheduler_type="constant",
    )
    game = arena_envs.make_game("kuhn_poker")
    teacher, _ = tabular(make_policy("cfr"), game)

    def divergence():
        table, _ = tabular(trainer.policy, game)
        pairs = [
            (p, q) for k in table for p, q in zip(teacher[k], table[k], strict=True)
        ]
        return sum(p * math.log(p / q) for p, q in pairs if p) / len(table)

    before = divergence()
    trainer.train()
    assert divergence() < before


def peek(game, state, rng):
    """Bets as the other's card says."""
    return game.legal_actions(state)[state.cards[1 - game.current_player(state)] == 0]


def test_a_teacher_that_sees_hidden_cards_is_refused_unless_asked_for(
    make_trainer, monkeypatch
):
    from arena_wrappers import BotPolicy

    monkeypatch.setattr(
        teacher_module, "make_policy", lambda *_: BotPolicy(peek, "peek")
    )
    with pytest.raises(ValueError, match=r"reads what seat \d.*sees_hidden: true"):
        make_trainer(losses={"kickstart": {"teacher": "peek"}})
    make_trainer(losses={"kickstart": {"teacher": "peek", "sees_hidden": True}})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"entrpy": {}}, "did you mean 'entropy'"),
        ({"entropy": 0.1}, "want a mapping"),
        ({"entropy": {"wait": 1}}, "no option 'wait'"),
        ({"entropy": {"weigth": 1}}, "did you mean 'weight'"),
        ({"entropy": {"weight": [1, 0]}}, "want over"),
        ({"entropy": {"weight": "high"}}, "want a number or"),
        ({"entropy": {"until": 0}}, "want until"),
        ({"kickstart": {}}, "want a policy as teacher"),
        ({"kickstart": {"teacher": 3}}, "want a policy as teacher .* got 3"),
        ({"entropy": {"teacher": "cfr"}}, "want no teacher"),
        ({"hapo_clip": {}, "dpo_drift": {}}, "want one surrogate"),
        ({"hapo_clip": {"weight": -1}}, "its weight above 0, got {'hapo_clip'"),
        ({"entropy": {"until": True}}, "want until .* got True"),
        (
            {"kickstart": {"teacher": "cfr", "sees_hidden": "no"}},
            "true or false, got 'no'",
        ),
    ],
)
def test_wrong_terms_are_refused(given, message):
    with pytest.raises(ValueError, match=message):
        terms_of(given)


def test_terms_of_turns_refuse_rows_of_trajectories():
    with pytest.raises(ValueError, match="layout='turn'"):
        terms_of({"kickstart": {"teacher": "cfr"}}, "trajectory")


def test_a_weight_is_linear_and_ends():
    weight = Weight.of("x", {"weight": [2, 1], "over": 10, "until": 20})
    assert [weight.at(step) for step in (0, 5, 10, 19, 20)] == [2, 1.5, 1, 1, 0]


@pytest.mark.parametrize("name", losses.losses.names())
def test_the_terms_keep_their_promises(name):
    losses.losses.check(losses.losses.find(name))


@pytest.mark.parametrize(
    ("term", "promise"),
    [
        (lambda logps, inputs: logps - inputs.old, "needs"),
        (lambda logps, inputs: logps.sum(), "per token"),
        (lambda logps, inputs: (logps * 0).log(), "finite"),
        (lambda logps, inputs: logps.detach(), "gradient"),
    ],
)
def test_a_term_that_breaks_a_promise_is_found(term, promise):
    with pytest.raises(BrokenPromise, match=promise):
        losses.check_term(term)


def scored_after(model, options, trainer):
    """What a model gives each reply of the batch after the prompts of these options."""
    from arena_wrappers.prompts import messages

    found = []
    for record in trainer.last_selected.records:
        turn = trainer.last_episodes[record.episode].turns[record.place]
        told = messages(KUHN, turn.state, turn.seat, options)
        given = TrainingRow(trainer.policy.encode(told), turn.token_ids, None, 0.0)
        found.append(plain_logprobs(model, given, 1.0))
    return found


KUHN = arena_envs.make_game("kuhn_poker")
OTHER = [
    ({"instruction": "bet."}, {"persona": "bet."}),
    ({"prompt": {"show_legal_actions": False}}, {"show_legal_actions": False}),
]


@pytest.mark.parametrize(("reference", "options"), OTHER)
def test_the_reference_reads_a_prompt_of_its_own_in_one_pass(
    make_trainer, generated, reference, options
):
    trainer = make_trainer(losses={"kl_to": {}}, reference=reference)
    calls = []
    trainer.ref_model.register_forward_hook(lambda *_: calls.append(1))
    output = generated(trainer)
    assert len(calls) == 1
    prompt = dataclasses.replace(trainer.args.prompt, **options)
    wanted = scored_after(trainer.ref_model.eval(), prompt, trainer)
    for own, found in zip(wanted, output["ref_per_token_logps"], strict=False):
        assert found[: len(own)].tolist() == pytest.approx(own.tolist(), abs=1e-5)
    trainer.current_gradient_accumulation_steps = 1
    assert trainer._compute_loss(trainer.model, output).requires_grad


def test_the_reference_may_be_another_model(
    make_trainer, generated, tokenizer, tmp_path
):
    from arena_trainers.lm import LMPolicy
    from arena_trainers.runs import tiny_model

    model = tiny_model(tokenizer, hidden_size=8, num_layers=1, seed=9)
    LMPolicy(model, tokenizer).save_pretrained(tmp_path / "other")
    trainer = make_trainer(beta=0.1, reference={"model": str(tmp_path / "other")})
    output = generated(trainer)
    wanted = scored_after(model.eval(), trainer.args.prompt, trainer)
    for own, found in zip(wanted, output["ref_per_token_logps"], strict=False):
        assert found[: len(own)].tolist() == pytest.approx(own.tolist(), abs=1e-5)


@pytest.mark.slow
def test_a_reference_of_another_model_is_as_trl_makes_one(make_trainer, model_folder):
    """Of the learner's own folder, it trains the same, also if it follows the learner."""
    options = {"beta": 0.1, "max_steps": 3, "sync_ref_model": True}
    options |= {"ref_model_sync_steps": 2, "disable_dropout": True}
    by_trl = make_trainer(**options)
    other = {"model": str(model_folder)}
    named = make_trainer(reference=other, **options)
    expected, weights = weights_after(by_trl), weights_after(named)
    expected += by_trl.ref_model.parameters()
    weights += named.ref_model.parameters()
    for one, other in zip(expected, weights, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-6)


def test_a_reference_that_reads_other_tokens_is_refused(make_trainer, tmp_path):
    from arena_trainers.lm import LMPolicy
    from arena_trainers.runs import tiny_model, tiny_tokenizer

    other = tiny_tokenizer(["other words"])
    model = tiny_model(other, hidden_size=8, num_layers=1, seed=0)
    LMPolicy(model, other).save_pretrained(tmp_path / "other")
    with pytest.raises(ValueError, match="with the tokenizer of the model"):
        make_trainer(beta=0.1, reference={"model": str(tmp_path / "other")})


def lora():
    from peft import LoraConfig

    return LoraConfig(r=2, target_modules="all-linear", task_type="CAUSAL_LM")


def test_the_reference_of_an_adapter_is_its_base_after_the_prompt_of_its_own(
    make_trainer, generated
):
    options = {"losses": {"kl_to": {}}, "reference": {"instruction": "bet."}}
    trainer = make_trainer(peft_config=lora(), **options)
    model = trainer.model
    for name, weights in model.named_parameters():
        if "lora_B" in name:  # 0 at the start: the adapter would be as its base
            torch.nn.init.normal_(weights, generator=torch.Generator().manual_seed(0))
    output = generated(trainer)
    prompt = dataclasses.replace(trainer.args.prompt, persona="bet.")
    with model.eval().disable_adapter():
        wanted = scored_after(model, prompt, trainer)
    for own, found in zip(wanted, output["ref_per_token_logps"], strict=False):
        assert found[: len(own)].tolist() == pytest.approx(own.tolist(), abs=1e-5)


@pytest.mark.slow
def test_the_kl_term_of_several_learners_is_that_of_beta(make_trainer):
    """The gradient of the first step is 0, since all adapters begin as their base."""
    options = {"peft_config": lora(), "roles": {0: {}, 1: {}}, "max_steps": 2}
    options["learning_rate"] = 1e-2
    plain = weights_after(make_trainer(**options))
    wanted = weights_after(make_trainer(beta=3.0, **options))
    found = weights_after(make_trainer(losses={"kl_to": {"weight": 3}}, **options))
    pairs = [*zip(plain, wanted, found, strict=True)]
    assert all(torch.allclose(b, c, atol=1e-6) for _, b, c in pairs)
    assert not all(torch.allclose(a, c, atol=1e-4) for a, _, c in pairs)


def test_each_learner_is_taught_in_the_states_of_its_seat(make_trainer, generated):
    roles, teach = {0: {}, 1: {}}, {"kickstart": {"teacher": "cfr"}}
    trainer = make_trainer(peft_config=lora(), roles=roles, losses=teach)
    output = generated(trainer)
    output["advantages"] = torch.zeros_like(output["advantages"])
    output["tool_mask"] = output["completion_mask"] * (output["learner"] == 1)[:, None]
    trainer.current_gradient_accumulation_steps = 1
    trainer._compute_loss(trainer.model, output).backward()
    first, second = (
        sum(float(p.grad.abs().sum()) for p in own if p.grad is not None)
        for own in trainer.learners.weights
    )
    assert first == 0
    assert second > 0


def test_another_model_as_the_reference_of_an_adapter_is_refused(
    make_trainer, model_folder
):
    other = {"model": str(model_folder)}
    with pytest.raises(ValueError, match="leave model or the adapter out"):
        make_trainer(peft_config=lora(), beta=0.1, reference=other)


@pytest.mark.parametrize("options", [{"quantile": 7}, {"quantile": "x"}], ids=str)
def test_options_that_a_term_cannot_take_are_refused_before_play(make_trainer, options):
    with pytest.raises((ValueError, RuntimeError, BrokenPromise), match="quantile"):
        make_trainer(losses={"hapo_clip": options})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"reference": {"modle": "x"}, "beta": 0.1}, "want reference as"),
        ({"reference": {"model": 3}, "beta": 0.1}, "want reference as"),
        ({"reference": {"prompt": {"rulez": 1}}, "beta": 0.1}, "no option 'rulez'"),
        ({"reference": {"instruction": "bet"}}, "nothing reads the reference"),
        (
            {"reference": {"instruction": "bet"}, "beta": 0.1, "on_invalid": "retry"},
            "no retries",
        ),
    ],
)
def test_a_reference_that_cannot_be_is_refused(settings, options, message):
    from arena_trainers import TurnGRPOConfig

    with pytest.raises(ValueError, match=message):
        TurnGRPOConfig(**settings, **options)


TOLD: dict[str, Any] = {}


@losses.needs("values", "invalid")
def told(logps, inputs):
    """What a term was told of the turns."""
    TOLD.update(values=inputs.values, invalid=inputs.invalid, mask=inputs.mask)
    return logps * 0


def test_a_term_reads_the_critics_values_and_invalid_replies(
    make_trainer, generated, monkeypatch
):
    monkeypatch.setitem(losses.losses.built_in, "told", told)
    trainer = make_trainer(losses={"told": {}}, credit="gae", critic="exact")
    inputs = generated(trainer)
    trainer.current_gradient_accumulation_steps = 1
    trainer._compute_loss(trainer.model, inputs)
    records, values = trainer.last_selected.records, trainer.last_turns.value
    num = len(records)
    assert TOLD["values"][:num, 0].tolist() == pytest.approx(values.tolist())
    assert TOLD["invalid"][:num].tolist() == [r.is_invalid for r in records]
    assert not TOLD["mask"][num:].any()


def test_options_of_trls_surrogate_are_refused_where_it_is_left_out(settings):
    from arena_trainers import TurnGRPOConfig

    with pytest.raises(ValueError, match="delta is of TRL's surrogate"):
        TurnGRPOConfig(**settings, losses={"hapo_clip": {}}, delta=1.4)
