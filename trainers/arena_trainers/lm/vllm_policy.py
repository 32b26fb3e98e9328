"""The policy of the string `vllm:URL`: the model of a running vLLM server."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from arena_envs.extras import import_extra
from arena_trainers.lm.backends import Sampling
from arena_trainers.lm.prompt_file import read_prompt_file
from arena_wrappers.policies import Reply
from arena_wrappers.policies.api import ChatAPIPolicy
from arena_wrappers.policies.client import Client
from arena_wrappers.policies.endpoints import read_endpoint
from arena_wrappers.policies.network import ThreadCall
from arena_wrappers.prompts import PromptOptions

if TYPE_CHECKING:
    from arena_trainers.lm.chat import Chat


class VLLMPolicy(ChatAPIPolicy):
    """A served model whose tokenizer is on this machine.

    The text of a reply is read from its tokens. So reasoning is found whether the prompt has
    opened it, and whatever reasoning parser the server has.

    Args:
        model: name of the model.
        url: of the server.
        chat: of the model's tokenizer.
        **options: arguments of `ChatAPIPolicy`.
    """

    def __init__(self, model: str, url: str, chat: "Chat", **options: Any) -> None:
        super().__init__(model, url, **options)
        self.chat = chat

    def _reply_of(self, call: ThreadCall[Any], timeout: float | None) -> Reply:
        reply = super()._reply_of(call, timeout)
        if reply.prompt_ids is None or reply.token_ids is None:
            return reply
        return replace(
            reply, text=self.chat.reply_text(reply.prompt_ids, reply.token_ids)
        )


def load(argument: str, **options: Any) -> ChatAPIPolicy:
    """The policy of the string `vllm:URL`, such as `vllm:http://localhost:8000`.

    It asks the server which model it has. If the model's folder is on this machine and has
    an `arena_prompt.json`, the model is prompted and sampled by this file, as `lm:PATH` would
    be. Options of the string override the file. Replies have token ids. If the folder has the
    tokenizer, its chat template says what is reasoning; else start the server with a
    `--reasoning-parser` where the template opens the reasoning in the prompt.

    Args:
        argument: what follows `vllm:`. `#model=NAME` chooses among several models.
        **options: arguments of `ChatAPIPolicy`; they override those of the string.

    Raises:
        ValueError: the string has another form, the server has no such model, or the file is
            broken.
        ConnectionError: the server cannot be reached, or gives no list of models.
    """
    endpoint = read_endpoint(argument)
    if endpoint.base_url is None or endpoint.model:
        raise ValueError(
            f"want a URL, as in 'vllm:http://localhost:8000', got 'vllm:{argument}'"
        )
    base = endpoint.base_url.rstrip("/")
    url = base if base.endswith("/v1") else f"{base}/v1"
    settings = {"name": f"vllm:{argument}", **endpoint.options, **options}
    models = served_models(url)
    model = _model_to_play(url, models, settings.pop("model", None))
    folder = models[model]
    saved = read_prompt_file(folder)
    marks = saved.pop("reasoning_marks", None)
    prompt, changes = saved.pop("prompt", None), settings.pop("prompt", None)
    if changes:
        prompt = replace(prompt or PromptOptions(), **changes)
    settings = {**_with_saved_sampling(settings, saved), "prompt": prompt}
    if not (Path(folder) / "tokenizer_config.json").is_file():
        return ChatAPIPolicy(model, url, **settings)
    chats = import_extra("arena_trainers.lm.chat", "train")  # which needs transformers
    tokenizer = import_extra("transformers", "train").AutoTokenizer
    chat = chats.Chat(tokenizer.from_pretrained(folder), reasoning_marks=marks)
    return VLLMPolicy(model, url, chat, **settings)


def _model_to_play(url: str, models: Mapping[str, str], name: str | None) -> str:
    """The model of a server that a name chooses; without a name the only one."""
    if name is not None and name in models:
        return name
    if name is None and len(models) == 1:
        return next(iter(models))
    names = ", ".join(models) or "none"
    raise ValueError(
        f"want one of the models of {url}, which are {names}, got {name or 'none'}; add "
        "#model=NAME"
    )


def _with_saved_sampling(
    settings: Mapping[str, Any], saved: Mapping[str, Any]
) -> dict[str, Any]:
    """Arguments of `ChatAPIPolicy`; where they say nothing, a prompt file's sampling holds.

    Args:
        settings: the arguments.
        saved: sampling and the options of the chat template, as the file has them.
    """
    fields: dict[str, Any] = {"return_token_ids": True}
    defaults: dict[str, Any] = {}
    if saved:
        sampling_options = dict(saved)
        if kwargs := sampling_options.pop("chat_template_kwargs", None):
            fields["chat_template_kwargs"] = kwargs
        sampling = dict(Sampling(**sampling_options).options)
        defaults["max_tokens"] = sampling.pop("max_new_tokens")
        defaults["temperature"] = sampling.pop("temperature")
        fields |= sampling
    fields |= settings.get("fields", {})
    return {**defaults, **settings, "fields": fields}


def served_models(url: str) -> dict[str, str]:
    """The models of an OpenAI-compatible server by name, each with the folder or id it is of.

    Raises:
        ConnectionError: it cannot be reached, or gives no list of models; names it.
    """
    client = Client(url, timeout=10.0, max_retries=1, model="models")
    try:
        answer = client.ask("GET", "/models").future.result()
        return {
            str(model["id"]): str(model.get("root") or model["id"])
            for model in answer["data"]
        }
    except Exception as error:  # a server may send anything
        raise ConnectionError(client.reason(error)) from error
