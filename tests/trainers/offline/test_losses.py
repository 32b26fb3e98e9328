"""The losses and gradients of the trainers, compared with log-probabilities worked by hand."""

import pytest
import torch
from datasets import Dataset
from torch.nn.functional import logsigmoid
from transformers import TrainerCallback

from arena_trainers.offline.kto import MAX_REPETITIONS, _repeated
from arena_trainers.offline.protocol import Cut, TrainerParts, row_trainer
from arena_trainers.runs.row_settings import trainer_args

# prompts and completions of uneven lengths; masks have holes, as multi-turn rows have
PROMPTS = [[6, 7, 8], [9]]
FIRST = [([10, 2, 7, 9, 11, 2], [1, 1, 0, 0, 1, 1]), ([12, 2], [0, 1])]
SECOND = [([11, 2], [1, 1]), ([10, 2, 7, 8], [1, 1, 0, 1])]


def rows_of(kind, num=2):
    """The rows above, and further ones with other tokens and weights."""
    names = {"pairs": ("chosen", "rejected")}.get(kind, ("completion",))
    rows = []
    for n in range(num):
        i = n % 2
        prompt = [*PROMPTS[i], *range(5, 5 + n // 2)]
        row = {"prompt_ids": prompt, "weight": 0.5 + i, "label": i == 0, "margin": n}
        for name, texts in zip(names, (FIRST, SECOND), strict=False):
            row[f"{name}_ids"], row[f"{name}_mask"] = texts[i]
        rows.append(row)
    return rows


@pytest.fixture
def made(model_folder, tokenizer, tmp_path):
    def make(name, num=2, batch_size=2, at_once=2, **settings):
        kind = row_trainer(name)
        settings |= {"trainer": name, "data": "rows.parquet"}
        args = trainer_args(kind.config, settings, tmp_path, is_tiny=True)
        args.per_device_train_batch_size = 2
        rows = rows_of(kind.rows, num)
        given = TrainerParts(
            str(model_folder),
            args,
            Dataset.from_list(rows),
            tokenizer,
            tokenizer.pad_token_id,
            Cut(batch_size, at_once),
            None,
        )
        with torch.random.fork_rng():
            torch.manual_seed(1)  # of a reward model's last layer
            trainer = kind.make(given)
            torch.manual_seed(0)
            for parameter in trainer.model.parameters():
                parameter.data += 0.1 * torch.randn_like(parameter)
        return trainer, rows

    return make


def step(trainer, rows):
    """The loss of a step of these rows; its gradient is then in the parameters."""
    trainer.model.zero_grad()
    parts = trainer._parts(rows)
    num_items = trainer._get_num_items_in_batch([parts], "cpu")
    return trainer.training_step(trainer.model, parts, num_items).item()


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
    found = step(trainer, rows)
    gradients = [p.grad.clone() for p in trainer.model.parameters()]
    trainer.model.zero_grad()
    wanted = by_hand(trainer, name)
    wanted.backward()
    assert found == pytest.approx(wanted.item(), abs=1e-5)
    assert wanted.item() > 0.1
    same = [p.grad for p in trainer.model.parameters()]
    torch.testing.assert_close(gradients, same, atol=1e-5, rtol=1e-4)
    assert max(float(g.abs().max()) for g in same) > 1e-3


class Gradients(TrainerCallback):
    """Keeps the gradient of each step."""

    def __init__(self):
        self.found = []

    def on_pre_optimizer_step(self, args, state, control, model=None, **_):
        parts = [p.grad.flatten().clone() for p in model.parameters()]
        self.found.append(torch.cat(parts))


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "sft",
        *(pytest.param(n, marks=pytest.mark.slow) for n in ("kto", "dpo", "reward")),
    ],
)
def test_gradients_do_not_depend_on_the_cut(made, name):
    """Steps of 9 rows and then of those that are left, run whole or 8 or 1 at once."""
    gradients = []
    for at_once in (9, 8, 1):
        options = {"max_grad_norm": 0, "num_train_epochs": 1, "optim": "sgd"}
        trainer, _ = made(name, 11, 9, at_once, **options)
        kept = Gradients()
        trainer.add_callback(kept)
        trainer.train()
        gradients.append(torch.stack(kept.found))
    whole, *others = gradients
    assert len(whole) == (3 if name == "kto" else 2)  # kto repeats rows
    assert float(whole.norm(dim=1).min()) > 0.01
    for other in others:
        torch.testing.assert_close(other, whole, atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("name", ["sft", "dpo", "kto", "reward"])
def test_a_step_reads_as_many_rows_as_batch_size_says(made, name):
    trainer, _ = made(name, 25, batch_size=10, at_once=3)
    sizes = [
        sum(len(part["input_ids"]) for part in batch["parts"])
        for batch in trainer.get_train_dataloader()
    ]
    texts = 2 if name in {"dpo", "reward"} else 1
    assert sizes[:2] == [10 * texts] * 2


def test_processes_share_the_rows_of_a_step(made, monkeypatch):
    trainer, rows = made("kto", 11, 11, at_once=2)
    sizes, factors = [], 0.0
    for rank in range(3):
        world = type("Args", (), {"world_size": 3, "process_index": rank})
        monkeypatch.setattr(trainer, "args", world)
        batch = trainer._parts(rows)
        sizes.append([len(part["input_ids"]) for part in batch["parts"]])
        factors += sum(batch["factors"])
    assert sizes == [[1, 2, 1]] * 3
    assert factors == pytest.approx(3)  # of the mean over processes
    assert batch["factors"][-1] == 0  # the last process has a filler


def test_a_process_without_rows_of_its_own_runs_a_filler_alone(made):
    """The last step of an epoch may have fewer rows than processes."""
    trainer, rows = made("dpo")
    found = trainer._parts(rows)
    found = {"parts": found["parts"][:1], "factors": [0.0]}
    assert trainer.training_step(trainer.model, found) == 0
    assert all(not p.grad.any() for p in trainer.model.parameters())


def test_dpo_losses_that_compare_rows_are_refused_in_micro_batches(made):
    with pytest.raises(ValueError, match=r"want all 4 rows .* \['aot'\]"):
        made("dpo", 4, 4, 2, loss_type="aot")
    made("dpo", 4, 4, 4, loss_type="aot")


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
