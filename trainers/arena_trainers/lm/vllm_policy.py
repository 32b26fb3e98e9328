"""The policy of the string `vllm:URL`: the model of a running vLLM server."""

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
from arena_wrappers.policies.network import Call
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

    def _reply_of(self, call: Call[Any], timeout: float | None) -> Reply:
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
    found = read_endpoint(argument)
    if found.base_url is None or found.model:
        raise ValueError(
            f"want a URL, as in 'vllm:http://localhost:8000', got 'vllm:{argument}'"
        )
    base = found.base_url.rstrip("/")
    url = base if base.endswith("/v1") else f"{base}/v1"
    given = {**found.options, **options}
    models, named = served_models(url), given.pop("model", None)
    chosen = [name for name in models if named in (None, name)]
    if not chosen or (named is None and len(chosen) > 1):
        names = ", ".join(models) or "none"
        raise ValueError(
            f"want one of the models of {url}, which are {names}, got {named or 'none'}; add "
            "#model=NAME"
        )
    model = chosen[0]
    own = read_prompt_file(models[model])
    marks = own.pop("reasoning_marks", None)
    prompt, changes = own.pop("prompt", None), given.pop("prompt", None)
    if changes:
        prompt = replace(prompt or PromptOptions(), **changes)
    fields: dict[str, Any] = {"return_token_ids": True}
    if own:
        if kwargs := own.pop("chat_template_kwargs", None):
            fields["chat_template_kwargs"] = kwargs
        sampling = dict(Sampling(**own).options)
        limits = {"max_tokens": sampling.pop("max_new_tokens")}
        given = limits | {"temperature": sampling.pop("temperature")} | given
        fields |= sampling
    given["fields"] = {**fields, **given.get("fields", {})}
    given = {"name": f"vllm:{argument}", "prompt": prompt, **given}
    if not (Path(models[model]) / "tokenizer_config.json").is_file():
        return ChatAPIPolicy(model, url, **given)
    chats = import_extra("arena_trainers.lm.chat", "train")  # which needs transformers
    tokenizer = import_extra("transformers", "train").AutoTokenizer
    chat = chats.Chat(tokenizer.from_pretrained(models[model]), reasoning_marks=marks)
    return VLLMPolicy(model, url, chat, **given)


def served_models(url: str) -> dict[str, str]:
    """The models of an OpenAI-compatible server by name, each with the folder or id it is of.

    Raises:
        ConnectionError: it cannot be reached, or gives no list of models; names it.
    """
    client = Client(url, timeout=10.0, max_retries=1, model="models")
    try:
        answer = client.ask("GET", "/models").future.result()
        return {
            str(one["id"]): str(one.get("root") or one["id"]) for one in answer["data"]
        }
    except Exception as error:  # a server may send anything
        raise ConnectionError(client.reason(error)) from error
