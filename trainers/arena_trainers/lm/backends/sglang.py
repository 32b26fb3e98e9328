"""`SGLangBackend`: tokens by a server of SGLang, and the backends by kind of server."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from arena_trainers.lm.backends import Sampling
from arena_trainers.lm.backends.server import RequestRefused
from arena_trainers.lm.backends.server_backend import (
    ReplyFields,
    ServerBackend,
    checked_logprob,
)
from arena_trainers.lm.backends.top_logprobs import NUM_TOP


class SGLangBackend(ServerBackend):
    """As `ServerBackend`, by the routes that SGLang documents. No SGLang server was tried.

    Weights are files. There is no mode of its pause that waits, so that what is in flight while
    whole weights are loaded ends the run.
    """

    path = "/generate"
    version_path = "/get_model_info"
    pause_path = "/pause_generation"
    pause_body: Mapping[str, str] | None = {"mode": "abort"}  # never changed
    resume_path = "/continue_generation"

    def _check_sampling(self, sampling: Sampling) -> None:
        super()._check_sampling(sampling)
        if self.seeds == "engine":
            raise ValueError(
                "want seeds 'request' with SGLang, which otherwise draws equal replies to equal "
                "prompts, got 'engine'; leave it out"
            )
        if not replace(sampling, temperature=1.0).draws_from_all:
            raise ValueError(
                "want top_k 0, top_p 1, min_p 0 and repetition_penalty 1 with SGLang, whose "
                f"log-probabilities are those before them, got {dict(sampling.options)}; "
                "leave them out"
            )

    def _body(self, ids: list[int], seed: int, sampling: Sampling) -> dict[str, Any]:
        params = {**sampling.options, "top_k": -1, "sampling_seed": seed % 2**31}
        params |= {
            "stop_token_ids": list(sampling.end_ids),
            "skip_special_tokens": False,
        }
        body: dict[str, Any] = {
            "input_ids": ids,
            "sampling_params": params,
            "return_logprob": True,
        }
        if sampling.with_entropy:
            body["top_logprobs_num"] = NUM_TOP
        is_base = self.model == self.served.model
        return body if is_base else {**body, "lora_path": self.model}

    def _reply_fields(self, answer: Any) -> ReplyFields:
        meta = answer["meta_info"]
        tokens = meta["output_token_logprobs"]  # log-probability, token id, and text
        return ReplyFields(
            model=self.model,
            token_ids=[token[1] for token in tokens],
            logprobs=[token[0] for token in tokens],
            finish_reason=meta["finish_reason"]["type"],
            top=meta.get("output_top_logprobs"),
        )

    def _top_of_token(self, top: Any) -> dict[int, float]:
        return {int(entry[1]): checked_logprob(entry[0]) for entry in top}

    def _load_adapter(self, folder: Path) -> None:
        name = {"lora_name": str(folder)}
        # it knows the adapter only in a run that was resumed
        with suppress(RequestRefused):
            self.server.post("/unload_lora_adapter", name)
        self._post_load("/load_lora_adapter", name | {"lora_path": str(folder)}, folder)
        if self.model not in (self.served.model, str(folder)):
            self.server.post("/unload_lora_adapter", {"lora_name": self.model})

    def _replace_weights(self, folder: Path, send: Callable[[], None] | None) -> None:
        body = {"model_path": str(folder), "weight_version": str(folder)}
        self._post_load(
            "/update_weights_from_disk", body | {"flush_cache": True}, folder
        )


SERVERS = {"vllm": ServerBackend, "sglang": SGLangBackend}
