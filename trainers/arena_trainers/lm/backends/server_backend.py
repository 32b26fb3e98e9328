"""`ServerBackend`: tokens by a server of vLLM or SGLang, to which a trainer sends its weights.

A vLLM server is `python -m vllm.entrypoints.openai.api_server` with the options that
`arena serve policy` prints. Weights reach it as files, which it must see, or by its transfer. Whole
weights replace those of the served model; an adapter is loaded beside it. The folder is the
version: the server keeps the folder's name with whole weights, and serves an adapter under it.
"""

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import NoneType
from typing import Any, NamedTuple

from arena_trainers.finite import Diverged
from arena_trainers.lm.backends import Generated, Prompts, Sampling
from arena_trainers.lm.backends.served import ServedModel
from arena_trainers.lm.backends.server import (
    RESTART,
    JSONServer,
    RequestRefused,
    ServerError,
)
from arena_trainers.lm.backends.top_logprobs import NUM_TOP, entropy_estimate
from arena_trainers.lm.backends.vllm import SeedSource

MAX_LOGPROB = 1e-3  # above 0 by rounding


class ReplyFields(NamedTuple):
    """What an answer of a server says, unchecked; None where it lacks a field.

    Attributes:
        model: name of the model that wrote the reply.
        token_ids: of the reply.
        logprobs: of its tokens.
        finish_reason: why it ended.
        top: of each token, the log-probabilities of the likeliest ones by their ids.
    """

    model: Any = None
    token_ids: Any = None
    logprobs: Any = None
    finish_reason: Any = None
    top: Any = None


class ServerBackend:
    """Sends one request per reply, many at a time.

    Log-probabilities are the server's, as those of `VLLMBackend` are the engine's. A server
    on a GPU may round otherwise when other requests share its batch.

    Args:
        server: the server.
        served: what it serves.
        seeds: whether each request has a seed of its own, or the server draws from its own
            random numbers, which is faster.

    Attributes:
        version: folder of the model's weights that the server must have; None before they
            are sent.
        model: name in requests: of the served model, or the folder of an adapter.
        learners: the backends of several learners, by name.
    """

    runs_model = False
    # routes of the server
    path = "/v1/completions"
    version_path = "/weight_info"
    pause_path = "/pause?mode=wait"
    pause_body: Mapping[str, str] | None = None
    resume_path = "/resume"

    def __init__(
        self, server: JSONServer, served: ServedModel, seeds: SeedSource = "request"
    ) -> None:
        self.server, self.served, self.seeds = server, served, seeds
        self._num_asked = 0  # of `generate_one`, without a reply
        self.version: str | None = None
        self.model = served.model
        self.learners: dict[str, ServerBackend] = {}

    def of_learner(self, name: str) -> "ServerBackend":
        """The backend of one of several learners, with an adapter of its own; the first is this."""
        self.learners[name] = copy.copy(self) if self.learners else self
        return self.learners[name]

    def generate(
        self, prompt_ids: Prompts, seeds: Sequence[int], sampling: Sampling
    ) -> Generated:
        """As `Backend.generate`.

        Raises:
            ServerError: the server does not answer, has other weights, or its reply lacks
                token ids or log-probabilities.
        """
        self._check_begun(sampling)
        pairs = zip(prompt_ids, seeds, strict=True)
        bodies = [self._body(list(ids), seed, sampling) for ids, seed in pairs]
        answers = self.server.post_all(self.path, bodies)
        replies = [self._parse_reply(answer) for answer in answers]
        self.check_version()
        return self._generated(replies, sampling)

    async def generate_one(
        self, prompt_ids: Sequence[int], seed: int, sampling: Sampling
    ) -> Generated:
        """As `ContinuousBackend.generate_one`; raises as `generate`.

        The version is compared whenever no other reply is awaited, so also after the last one.
        """
        self._check_begun(sampling)
        body = self._body(list(prompt_ids), seed, sampling)
        self._num_asked += 1
        try:
            reply = self._parse_reply(await self.server.post_async(self.path, body))
        finally:
            self._num_asked -= 1
        if self._num_asked == 0:
            self.check_version()
        return self._generated([reply], sampling)

    def _generated(
        self, replies: Sequence[ReplyFields], sampling: Sampling
    ) -> Generated:
        """Checked replies by token."""
        return Generated(
            token_ids=[reply.token_ids for reply in replies],
            logprobs=[reply.logprobs for reply in replies],
            entropies=[self._entropies(reply) for reply in replies]
            if sampling.with_entropy
            else None,
        )

    def _check_begun(self, sampling: Sampling) -> None:
        """Raises ServerError before training has begun, and as `_check_sampling`."""
        self._check_sampling(sampling)
        if self.version is None:
            raise ServerError(
                f"the server at {self.server.url} has no weights of this run yet; it gets "
                "them when training begins: call train()"
            )

    def _check_sampling(self, sampling: Sampling) -> None:
        """Raises ValueError for what the server cannot give."""

    def _body(self, ids: list[int], seed: int, sampling: Sampling) -> dict[str, Any]:
        """A request; with all settings, as a model's folder may have other defaults."""
        request: dict[str, Any] = {"model": self.model, "prompt": ids}
        if self.seeds == "request":
            request["seed"] = seed % 2**63
        answer_options = {"skip_special_tokens": False, "return_token_ids": True}
        if (
            sampling.with_entropy
        ):  # else two tokens of one text would be one of `top_logprobs`
            answer_options["return_tokens_as_token_ids"] = True
        return request | answer_options | sampling.vllm_options

    def _reply_fields(self, answer: Any) -> ReplyFields:
        """The fields of an answer; raises if there are none."""
        (choice,) = answer["choices"]
        return ReplyFields(
            model=answer["model"],
            token_ids=choice["token_ids"],
            logprobs=choice["logprobs"]["token_logprobs"],
            finish_reason=choice["finish_reason"],
            top=choice["logprobs"].get("top_logprobs"),
        )

    def _entropies(self, reply: ReplyFields) -> list[float]:
        """The `entropy_estimate` at each token of a reply."""
        try:
            tops = [self._top_of_token(top) for top in reply.top]
            triples = zip(reply.token_ids, reply.logprobs, tops, strict=True)
            return [entropy_estimate(*triple) for triple in triples]
        except (LookupError, TypeError, ValueError, AttributeError, OverflowError):
            raise ServerError(
                f"want top log-probabilities for each token of a reply of {self.server.url}, got "
                f"{str(reply.top)[:120]!r}; start the server with at least {NUM_TOP} of them "
                "(--max-logprobs of vLLM), or set credit_args={'surprise': False}"
            ) from None

    def _top_of_token(self, top: Any) -> dict[int, float]:
        """Log-probabilities by token id; raises for what is none."""
        return {
            int(key.removeprefix("token_id:")): checked_logprob(value)
            for key, value in top.items()
        }

    def check_version(self) -> None:
        """Raises ServerError if the server has other weights than it was sent."""
        answer = self.server.get(self.version_path)
        version = answer.get("weight_version") if isinstance(answer, dict) else answer
        if version != self.version:
            raise ServerError(
                f"want weights {self.version!r} on the server at {self.server.url}, got "
                f"{version!r}: it was started anew, or another run sends it weights; "
                "give each run a server of its own, and resume the run"
            )

    def load(
        self,
        folder: Path,
        *,
        is_adapter: bool,
        send: Callable[[], None] | None = None,
    ) -> None:
        """Makes the server load weights; `expect` has to follow, in every process.

        Args:
            folder: where the server finds them. Its name is their version.
            is_adapter: whether they are a LoRA adapter of the served model, which takes the
                place of the adapter before it, or the model's own.
            send: transfers the model's own weights, which then are in no folder.

        Raises:
            ServerError: the server did not load them.
        """
        if is_adapter:
            self._load_adapter(folder)
            return
        self.server.post(self.pause_path, self.pause_body)
        try:
            self._replace_weights(folder, send)
        except BaseException:
            with suppress(ServerError):  # the first error says more
                self.server.post(self.resume_path)
            raise
        self.server.post(self.resume_path)

    def _load_adapter(self, folder: Path) -> None:
        name = {"lora_name": str(folder)}
        # not load_inplace, with which vLLM reads the files again for each generation
        models = self.server.get("/v1/models")["data"]
        is_known = any(model.get("id") == str(folder) for model in models)
        if is_known:  # of a run that was resumed
            self.server.post("/v1/unload_lora_adapter", name)
        self._post_load(
            "/v1/load_lora_adapter", name | {"lora_path": str(folder)}, folder
        )
        if is_known:  # the cache goes by the name
            self._forget_prefixes()
        if self.model not in (self.served.model, str(folder)):
            self.server.post("/v1/unload_lora_adapter", {"lora_name": self.model})

    def expect(self, folder: Path, *, is_adapter: bool) -> None:
        """Takes replies of these weights from now on, and of no others."""
        if is_adapter:
            self.model = str(folder)
        else:
            self.version = str(folder)

    def check_sum(self, expected: int, *, is_adapter: bool) -> None:
        """Raises ServerError if the weights of a worker have another `bit_sum`."""
        call = {"method": "arena_sum", "kwargs": {"is_adapter": is_adapter}}
        sums = self.server.post("/collective_rpc", call)["results"]
        if wrong_sums := [bits for bits in sums if bits != str(expected)]:
            raise ServerError(
                f"want the trainer's weights on the server at {self.server.url}, got others: "
                f"their bits add up to {wrong_sums[0]}, the trainer's to {expected}; {RESTART}, "
                "and resume the run"
            )

    def _replace_weights(self, folder: Path, send: Callable[[], None] | None) -> None:
        server, arguments = self.server, {"weights_path": str(folder)}
        reload = {"method": "reload_weights", "kwargs": arguments}
        if send is None:
            self._post_load("/collective_rpc", reload, folder)
        else:
            send()
        self._forget_prefixes()
        server.post("/update_weight_version", {"new_version": str(folder)})

    def _forget_prefixes(self) -> None:
        answer = self.server.post("/reset_prefix_cache")
        if not isinstance(answer, dict) or not answer.get("success"):
            raise ServerError(
                f"the server at {self.server.url} keeps its prefix cache, which is of other "
                "weights; give each run a server of its own"
            )

    def _post_load(self, path: str, body: Any, folder: Path) -> None:
        try:
            self.server.post(path, body)
        except RequestRefused as error:
            raise ServerError(
                f"the server at {self.server.url} cannot load {str(folder)!r}: it does not "
                "see this folder, has no --enable-lora of this rank, or serves another base "
                f"model than {self.served.folder!r} with these layers; {RESTART} ({error})"
            ) from error

    def _parse_reply(self, answer: Any) -> ReplyFields:
        """A reply whose token ids and log-probabilities are checked."""
        url = self.server.url
        try:
            reply = self._reply_fields(answer)
        except (LookupError, TypeError, ValueError):
            reply = ReplyFields()
        token_ids, logprobs = reply.token_ids, reply.logprobs
        has_lists = _is_list_of(token_ids, int) and _is_list_of(
            logprobs, int, float, NoneType
        )
        if not has_lists or len(token_ids) != len(logprobs):
            raise ServerError(
                f"want token_ids and as many token_logprobs in a reply of {url}, got "
                f"{str(answer)[:120]!r}; want a server of vLLM 0.31 to 0.33, or of SGLang"
            )
        if reply.model != self.model:
            raise ServerError(
                f"want replies of the model {self.model!r} from {url}, got one of "
                f"{reply.model!r}; give each run a server of its own"
            )
        if reply.finish_reason not in ("stop", "length"):
            raise ServerError(
                f"the server at {url} ended a reply with {reply.finish_reason!r}: somebody "
                "else paused it; give each run a server of its own"
            )
        are_finite = [x is not None and math.isfinite(x) for x in logprobs]
        if not all(are_finite):
            raise Diverged(
                f"want finite log-probabilities from {url}, got some that are not: the "
                "weights have diverged; train with a lower learning_rate or max_grad_norm"
            )
        return reply


def checked_logprob(value: Any) -> float:
    """A log-probability of an answer; raises ValueError if it is none."""
    if type(value) not in (int, float) or not value <= MAX_LOGPROB:
        raise ValueError(f"want a log-probability, got {value!r}; check the server")
    return float(value)


def _is_list_of(values: Any, *kinds: type) -> bool:
    """True if an answer has a list there, with something in it, all of these types."""
    is_list = isinstance(values, list) and len(values) > 0
    return is_list and all(type(value) in kinds for value in values)
