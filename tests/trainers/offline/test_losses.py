"""The losses and gradients of the trainers, compared with log-probabilities worked by hand."""

import pytest
import torch
from datasets import Dataset
from torch.nn.functional import logsigmoid

from arena_trainers.offline.kto import MAX_REPETITIONS, _repeated
from arena_trainers.offline.protocol import Given, row_trainer
from arena_trainers.offline.settings import trainer_args

# prompts and completions of uneven lengths; masks have holes, as multi-turn rows have
PROMPTS = [[6, 7, 8], [9]]
FIRST = [([10, 2, 7, 9, 11, 2], [1, 1, 0, 0, 1, 1]), ([12, 2], [0, 1])]
SECOND = [([11, 2], [1, 1]), ([10, 2, 7, 8], [1, 1, 0, 1])]


def rows_of(kind):
    names = {"pairs": ("chosen", "rejected")}.get(kind, ("completion",))
    rows = []
    for i, prompt in enumerate(PROMPTS):
        row = {"prompt_ids": prompt, "weight": 0.5 + i, "label": i == 0, "margin": 1.0}
        for name, texts in zip(names, (FIRST, SECOND), strict=False):
            row[f"{name}_ids"], row[f"{name}_mask"] = texts[i]
        rows.append(row)
    return rows


@pytest.fixture
def made(model_folder, tokenizer, tmp_path):
    def make(name, **settings):
        kind = row_trainer(name)
        settings |= {"trainer": name, "data": "rows.parquet"}
        args = trainer_args(kind.config, settings, tmp_path, is_tiny=True)
        args.per_device_train_batch_size = 2
        rows = rows_of(kind.rows)
        given = Given(
            str(model_folder),
            args,
            Dataset.from_list(rows),
            tokenizer,
            tokenizer.pad_token_id,
            None,
        )
        trainer = kind.make(given)
        with torch.random.fork_rng():
            torch.manual_seed(0)
            for parameter in trainer.model.parameters():
                parameter.data += 0.1 * torch.randn_like(parameter)
        return trainer, rows

    return make


def logp(model, prompt, ids, mask):
    """The log-probability of a completion without its masked tokens; one row, no padding."""
    logits = model(torch.tensor([prompt + ids])).logits[0, len(prompt) - 1 : -1]
    each = logits.log_softmax(-1).gather(1, torch.tensor(ids)[:, None])[:, 0]
    return (each * torch.tensor(mask)).sum()


def logps(model, texts):
    return torch.stack(
        [
            logp(model, prompt, *text)
            for prompt, text in zip(PROMPTS, texts, strict=True)
        ]
    )


def by_hand(trainer, name):
    model = trainer.model
    if name == "sft":
        weights = torch.tensor([row["weight"] for row in rows_of("completions")])
        return -(weights * logps(model, FIRST)).sum() / 5  # trained tokens
    old = trainer.ref_model
    if name == "dpo":
        chosen = logps(model, FIRST) - logps(old, FIRST)
        rejected = logps(model, SECOND) - logps(old, SECOND)
        return -logsigmoid(trainer.args.beta * (chosen - rejected)).mean()
    ratio = logps(model, FIRST) - logps(old, FIRST)
    crossed = logps(model, FIRST[::-1]) - logps(old, FIRST[::-1])
    kl = crossed.mean().detach().clamp(min=0)
    signs = torch.tensor([1.0, -1.0])  # good, bad
    return (1 - torch.sigmoid(trainer.args.beta * signs * (ratio - kl))).mean()


@pytest.mark.parametrize("name", ["sft", "dpo", "kto"])
def test_loss_and_gradient_are_those_of_the_tokens_that_count(made, name):
    """So that the gradient of a masked token is zero."""
    trainer, rows = made(name)
    trainer.model.train()
    found = trainer.compute_loss(trainer.model, trainer.data_collator(rows))
    trainer.model.zero_grad()
    found.backward()
    gradients = [p.grad.clone() for p in trainer.model.parameters()]
    trainer.model.zero_grad()
    wanted = by_hand(trainer, name)
    wanted.backward()
    assert found.item() == pytest.approx(wanted.item(), abs=1e-5)
    assert wanted.item() > 0.1
    same = [p.grad for p in trainer.model.parameters()]
    torch.testing.assert_close(gradients, same, atol=1e-5, rtol=1e-4)
    assert max(float(g.abs().max()) for g in same) > 1e-3


def test_a_reward_model_reads_the_last_token_of_each_text(made):
    trainer, rows = made("reward")
    found = trainer.compute_loss(trainer.model, trainer.data_collator(rows))
    scores = [
        [
            trainer.model(torch.tensor([p + t[0]])).logits.item()
            for p, t in zip(PROMPTS, given, strict=True)
        ]
        for given in (FIRST, SECOND)
    ]
    better, worse = map(torch.tensor, scores)
    wanted = -logsigmoid(better - worse).mean()
    assert found.item() == pytest.approx(wanted.item(), abs=1e-5)


def test_equal_tokens_with_other_masks_are_other_rows(made):
    trainer, rows = made("sft")
    rows = [rows[0], {**rows[0], "completion_mask": [0, 0, 0, 0, 1, 1]}]
    batch = trainer.data_collator(rows)
    found = trainer.compute_loss(trainer.model, batch)
    parts = [logp(trainer.model, PROMPTS[0], *FIRST[0])]
    parts.append(logp(trainer.model, PROMPTS[0], FIRST[0][0], [0, 0, 0, 0, 1, 1]))
    assert found.item() == pytest.approx((-0.5 * sum(parts) / 6).item(), abs=1e-5)


def test_kto_repeats_rows_by_their_weights(made):
    trainer, _ = made("kto")  # weights 0.5 and 1.5
    assert sorted(trainer.train_dataset["label"]) == [False, False, False, True]


def test_kto_refuses_weights_that_repeat_a_row_too_often():
    times = MAX_REPETITIONS + 1
    rows = Dataset.from_dict({"weight": [1e-6, times * 1e-6]})
    with pytest.raises(
        ValueError, match=r"at most 1,000 times .* got 0.001001; choose"
    ):
        _repeated(rows, 0)
    rows = rows.select([0, 0])
    assert len(_repeated(rows, 0)) == 2


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("sft", {"packing": True, "max_length": 99}, "want packing off with rows"),
        ("sft", {"loss_type": "dft"}, "want loss_type nll for rows of different"),
        ("dpo", {"precompute_ref_log_probs": True}, "precompute_ref_log_probs off"),
        ("kto", {"precompute_ref_log_probs": True}, "precompute_ref_log_probs off"),
    ],
)
def test_options_that_do_not_fit_tokens_are_refused(made, name, options, message):
    with pytest.raises(ValueError, match=message):
        made(name, **options)
