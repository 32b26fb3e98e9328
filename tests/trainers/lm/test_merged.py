"""`arena data export`: an adapter and its base become one model that plays alike."""

import json
from typing import Any

import pytest
import torch
from huggingface_hub import ModelCard
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import AutoModelForCausalLM

from arena_trainers.cli import main as cli
from arena_trainers.lm import LMPolicy, write_merged
from arena_trainers.lm.merge import _check_merged, _merge_adapter

# of peft, of adapters on embeddings
pytestmark = [
    pytest.mark.filterwarnings("ignore:Setting `save_embedding_layers`"),
    pytest.mark.filterwarnings("ignore:Model has `tie_word_embeddings=True`"),
]


def run_with_adapter(folder, model_folder, **options):
    """A run folder whose model is an adapter with weights other than 0."""
    policy: Any = LMPolicy.from_pretrained(model_folder, device="cpu")
    config = LoraConfig(r=2, task_type="CAUSAL_LM", **options)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = get_peft_model(policy.model, config)
        for name, weights in model.named_parameters():
            if "lora" in name or "modules_to_save" in name:
                torch.nn.init.normal_(weights.data, std=0.5)
    policy.model = model
    policy.save_pretrained(folder / "model")
    return folder


@pytest.fixture
def adapter(tmp_path, model_folder):
    return run_with_adapter(tmp_path / "run", model_folder, target_modules="all-linear")


def run(monkeypatch, *arguments):
    monkeypatch.setattr("sys.argv", ["arena", "data", "export", *map(str, arguments)])
    with pytest.raises(SystemExit) as done:
        cli.main()
    return done.value.code or 0


def test_the_merged_model_is_the_adapter_on_its_base(
    adapter, model_folder, monkeypatch
):
    assert run(monkeypatch, adapter, "--merged") == 0
    ids = torch.tensor([[3, 7, 9, 11]])
    merged = LMPolicy.from_pretrained(adapter / "merged", device="cpu")
    base = AutoModelForCausalLM.from_pretrained(model_folder)
    plain = base(ids).logits
    wanted = PeftModel.from_pretrained(base, adapter / "model")(ids).logits
    torch.testing.assert_close(merged.model(ids).logits, wanted, atol=1e-4, rtol=1e-4)
    assert (plain - wanted).abs().max() > 0.1
    assert merged.prompt is not None
    assert not (adapter / "merged" / "adapter_config.json").exists()
    before, card = (
        ModelCard.load(adapter / name / "README.md") for name in ("model", "merged")
    )
    assert (before.data.library_name, card.data.library_name) == (
        "peft",
        "transformers",
    )
    assert "lora" in before.data.tags
    assert "lora" not in card.data.tags
    assert card.text == before.text


@pytest.mark.parametrize(
    "options",
    [
        {"target_modules": ["q_proj", "embed_tokens"]},
        {"target_modules": ["q_proj"], "modules_to_save": ["lm_head"]},
    ],
)
def test_an_adapter_on_one_of_two_tied_matrices_is_exported_untied(
    options, tmp_path, model_folder
):
    folder = run_with_adapter(tmp_path / "run", model_folder, **options)
    write_merged(folder / "model", tmp_path / "merged")
    models = [
        LMPolicy.from_pretrained(path, device="cpu").model
        for path in (folder / "model", tmp_path / "merged", model_folder)
    ]
    ids = torch.tensor([[3, 7, 9, 11]])
    wanted, merged, plain = (model(ids).logits.log_softmax(-1) for model in models)
    torch.testing.assert_close(merged, wanted, atol=1e-4, rtol=1e-4)
    assert (plain - wanted).abs().max() > 0.1
    assert models[2].config.tie_word_embeddings
    assert not models[1].config.tie_word_embeddings


def test_a_written_model_that_plays_otherwise_than_the_runs_is_refused(
    adapter, model_folder
):
    source = adapter / "model"
    _, wanted = _merge_adapter(model_folder, source, [[3, 7, 9]])
    with pytest.raises(ValueError, match=r"that differ by \S+ nats on 1 prompts"):
        _check_merged(model_folder, source, [[3, 7, 9]], wanted)


def test_an_adapter_without_a_tokenizer_has_that_of_its_base(adapter, monkeypatch):
    for file in (adapter / "model").glob("*token*"):
        file.unlink()
    assert run(monkeypatch, adapter, "--merged") == 0
    assert LMPolicy.from_pretrained(adapter / "merged", device="cpu").tokenizer


def test_an_existing_folder_is_left_alone(adapter, monkeypatch, capsys):
    (adapter / "merged").mkdir()
    assert run(monkeypatch, adapter, "--merged") == 2
    assert "want a new folder" in capsys.readouterr().err
    assert not list((adapter / "merged").iterdir())


def test_an_adapter_without_its_base_is_refused(adapter, monkeypatch, capsys):
    path = adapter / "model" / "adapter_config.json"
    config = json.loads(path.read_text()) | {"base_model_name_or_path": "/no/such/base"}
    path.write_text(json.dumps(config))
    assert run(monkeypatch, adapter, "--merged") == 2
    assert "trained on the model in '/no/such/base'" in capsys.readouterr().err
    assert not list(adapter.glob("merged*"))


def test_without_merged_it_says_what_the_folder_has(
    adapter, model_folder, monkeypatch, capsys
):
    assert run(monkeypatch, adapter) == 2
    assert f"{adapter / 'model'} holds the adapter alone" in capsys.readouterr().err
    assert run(monkeypatch, model_folder) == 2
    assert f"{model_folder} is the whole model already" in capsys.readouterr().err
    assert run(monkeypatch, model_folder.parent) == 2
    assert "want a folder with a saved model" in capsys.readouterr().err


def test_a_folder_that_does_not_exist_is_named(tmp_path, monkeypatch, capsys):
    assert run(monkeypatch, tmp_path / "none", "--merged") == 2
    assert "found none at" in capsys.readouterr().err
