"""`ServerBackend`: tokens by a server of vLLM or SGLang, to which a trainer sends its weights.

A vLLM server is `python -m vllm.entrypoints.openai.api_server` with the options that
`arena serve policy` prints. Weights reach it as files, which it must see, or by its transfer. Whole
weights replace those of the served model; an adapter is loaded beside it. The folder is the
version: the server keeps the folder's name with whole weights, and serves an adapter under it.
"""

import copy
import http.client
import json
import math
import selectors
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, wait
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import NoneType
from typing import Any

from arena_trainers.finite import Diverged
from arena_trainers.lm.backends import Generated, Prompts, Sampling
from arena_trainers.lm.backends.vllm import refuse_entropies
from arena_wrappers.policies.endpoints import host_of
from arena_wrappers.policies.network import Connection, Threads, Unreachable, message_of

# must be equal for weights of one model to fit another
SHAPES = (
    *("model_type", "vocab_size", "hidden_size", "intermediate_size"),
    *("num_hidden_layers", "num_attention_heads", "num_key_value_heads"),
)
RESTART = (
    "start it again with the command that `arena serve policy MODEL` prints, or for SGLang "
    "with that of docs/scaling.md"
)


class ServerError(ValueError):
    """A server cannot be used. The message names it and says what to do."""


class Refused(ServerError):
    """A server answered with an error.

    Attributes:
        status: of HTTP.
    """

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class Server:
    """A server that takes and gives JSON.

    Args:
        url: `"http://HOST:PORT"`; a path after it, such as that of a proxy, is kept.
        timeout: longest silence in seconds, between the last answer to any request and
            the next.
        in_flight: most requests at the same time.

    Raises:
        ServerError: the URL is of another form.
    """

    def __init__(self, url: str, timeout: float = 240.0, in_flight: int = 256) -> None:
        self.url, self.timeout = url.rstrip("/"), timeout
        try:
            host_of(self.url)
        except ValueError as error:
            raise ServerError(f"vllm_server_base_url: {error}") from None
        self._threads = Threads(self.url, in_flight)
        self._heard = time.monotonic()

    def own_address(self) -> str:
        """The address of this machine in the server's network; nothing is sent."""
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as own:
            own.connect(host_of(self.url))
            return str(own.getsockname()[0])

    def get(self, path: str) -> Any:
        """The answer to a GET request; raises as `post_all`."""
        return self.post_all(path, [None], "GET")[0]

    def post(self, path: str, body: Any = None) -> Any:
        """The answer to a POST request; raises as `post_all`."""
        return self.post_all(path, [body])[0]

    def post_all(
        self, path: str, bodies: Sequence[Any], method: str = "POST"
    ) -> list[Any]:
        """The answers to many POST requests, in their order: JSON, else text.

        After a failure no further request is sent, and the failure is raised.

        Raises:
            ServerError: the server does not answer, or refuses a request.
        """
        self._heard = time.monotonic()
        calls = [
            self._threads.submit(partial(self._ask, method, path, body))
            for body in bodies
        ]
        try:
            done, _ = wait((call.future for call in calls), return_when=FIRST_EXCEPTION)
            failures = (future.exception() for future in done)
            if (failure := next(filter(None, failures), None)) is not None:
                raise failure
        finally:
            for call in calls:
                call.cancel()
        return [call.future.result() for call in calls]

    def _ask(self, method: str, path: str, body: Any, line: Connection) -> Any:
        sent = b"" if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"} if sent else {}
        try:
            answer = line.ask(
                method, path, sent, headers, self.timeout, wait=self._wait
            )
        except Unreachable as error:
            raise ServerError(
                f"no server answers at {self.url} ({error}); start one with "
                "`arena serve policy MODEL --start`, or give another URL as "
                "vllm_server_base_url"
            ) from error
        except TimeoutError:
            raise ServerError(
                f"the server at {self.url} has answered nothing for {self.timeout:g} "
                "seconds; look into its log, or allow more with vllm_server_timeout"
            ) from None
        except (OSError, http.client.HTTPException) as error:
            raise ServerError(
                f"the server at {self.url} broke off the connection "
                f"({type(error).__name__}): it was stopped or has crashed; look into its "
                "log and start it again"
            ) from error
        self._heard = time.monotonic()
        return self._read(path, answer.status, answer.content)

    def _wait(self, sock: socket.socket) -> None:
        """Returns when an answer begins; answers to others show that the server lives."""
        with selectors.DefaultSelector() as ready:
            ready.register(sock, selectors.EVENT_READ)
            while (left := self._heard + self.timeout - time.monotonic()) > 0:
                if ready.select(left):
                    return
        raise TimeoutError

    def _read(self, path: str, status: int, content: bytes) -> Any:
        if status >= 300:  # no redirects, which lead to another server
            raise Refused(
                f"the server at {self.url} refuses {path} with status {status}: "
                f"{message_of(content)}",
                status,
            )
        try:
            return json.loads(content) if content.strip() else None
        except ValueError:  # some of vLLM's answers are a sentence
            return content.decode(errors="replace")


@dataclass(frozen=True)
class Served:
    """The facts that a server tells of itself.

    Attributes:
        model: name of the served model, for requests.
        folder: folder or id of the model that the server was started with.
        dtype: of its weights, as torch calls it.
        max_lora_rank: largest rank of an adapter; None if it takes none.
        transfer: backend of vLLM's weight transfer; None if it reads files.
        sums: the kinds of weights whose sums it tells (`WeightSums`): "adapter", "model".
        kind: its name in `SERVERS`.
    """

    model: str
    folder: str
    dtype: str
    max_lora_rank: int | None
    transfer: str | None = None
    sums: tuple[str, ...] = ()
    kind: str = "vllm"


def served_by(server: Server) -> Served:
    """The model and the limits of a server.

    Raises:
        ServerError: it cannot be reached, is another server, or lacks an option.
    """
    try:
        info = server.get("/server_info?config_format=json")
        if "enable_deterministic_inference" in info:
            return _served_by_sglang(server, info)
        config = info["vllm_config"]
        models = server.get("/v1/models")["data"]
        base = next(model for model in models if not model.get("parent"))
        server.get("/weight_info")["weight_version"]
        mode = config["model_config"]["logprobs_mode"]
        lora = config.get("lora_config")
        found = Served(
            str(base["id"]),
            str(base["root"]),
            str(config["model_config"]["dtype"]).removeprefix("torch."),
            None if lora is None else int(lora["max_lora_rank"]),
            (config.get("weight_transfer_config") or {}).get("backend"),
            _sums_of(config),
        )
    except (Refused, LookupError, TypeError, AttributeError, StopIteration) as error:
        raise ServerError(
            "want a server of SGLang, or of vLLM 0.31 to 0.33 with VLLM_SERVER_DEV_MODE=1 at "
            f"{server.url}, got another, which cannot take weights ({error}); {RESTART}"
        ) from error
    if mode != "processed_logprobs":
        raise ServerError(
            f"want --logprobs-mode processed_logprobs of the server at {server.url}, got "
            f"{mode}; {RESTART}"
        )
    return found


def _served_by_sglang(server: Server, info: Mapping[str, Any]) -> Served:
    """`Served` of an SGLang server, by its documented `server_info`."""
    if not info["enable_deterministic_inference"] or info["dtype"] == "auto":
        raise ServerError(
            f"want --enable-deterministic-inference and a --dtype other than auto of the "
            f"server at {server.url}, got enable_deterministic_inference "
            f"{info['enable_deterministic_inference']} and dtype {info['dtype']!r}; {RESTART}"
        )
    rank = int(info["max_lora_rank"] or 0) if info["enable_lora"] else None
    folder = str(info["model_path"])
    return Served(folder, folder, str(info["dtype"]), rank, kind="sglang")


def _sums_of(config: Any) -> tuple[str, ...]:
    """`Served.sums`: workers that share the model's weights hold some of them twice."""
    parallel = config.get("parallel_config") or {}
    if not str(parallel.get("worker_extension_cls")).endswith("WeightSums"):
        return ()
    is_whole = parallel["world_size"] == 1
    is_plain = config["model_config"].get("quantization") is None
    return ("adapter", "model") if is_whole and is_plain else ("adapter",)


def check_shapes(server: Server, served: Served, config: Any) -> None:
    """Refuses a server whose model cannot hold the weights of another.

    vLLM finds out while it loads them, and then serves neither model. A model that this
    machine does not have in a folder is not compared.

    Args:
        server: the server.
        served: what it serves.
        config: the configuration of the model whose weights it gets.

    Raises:
        ServerError: names the number that differs.
    """
    file = Path(served.folder) / "config.json"
    if not file.is_file():
        return
    told = json.loads(file.read_text(encoding="utf-8"))
    for name in SHAPES:
        own = getattr(config, name, None)
        if name in told and own is not None and told[name] != own:
            raise ServerError(
                f"the server at {server.url} serves the model in {served.folder!r} with "
                f"{name} {told[name]}, and the run trains one with {name} {own}; start it "
                "with the model that the run starts from"
            )


class ServerBackend:
    """Sends one request per reply, each with its own seed, many at a time.

    Log-probabilities are the server's, as those of `VLLMBackend` are the engine's. A server
    on a GPU may round otherwise when other requests share its batch.

    Args:
        server: the server.
        served: what it serves.

    Attributes:
        version: folder of the model's weights that the server must have; None before they
            are sent.
        model: name in requests: of the served model, or the folder of an adapter.
        learners: the backends of several learners, by name.
    """

    runs_model = False
    path, version_path = "/v1/completions", "/weight_info"  # of requests
    pauses: tuple[tuple[Any, ...], str] = ("/pause?mode=wait",), "/resume"

    def __init__(self, server: Server, served: Served) -> None:
        self.server, self.served = server, served
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
            ValueError: entropies are asked for.
        """
        self._check(sampling)
        if self.version is None:
            raise ServerError(
                f"the server at {self.server.url} has no weights of this run yet; it gets "
                "them when training begins: call train()"
            )
        pairs = zip(prompt_ids, seeds, strict=True)
        bodies = [self._body(list(ids), seed, sampling) for ids, seed in pairs]
        answers = self.server.post_all(self.path, bodies)
        replies = [self._read(answer) for answer in answers]
        self.check_version()
        return Generated([ids for ids, _ in replies], [x for _, x in replies])

    def _check(self, sampling: Sampling) -> None:
        """Raises ValueError for what the server cannot give."""
        refuse_entropies(sampling)

    def _body(self, ids: list[int], seed: int, sampling: Sampling) -> dict[str, Any]:
        """A request; with all settings, as a model's folder may have other defaults."""
        own = {"model": self.model, "prompt": ids, "seed": seed % 2**63}
        told = {"skip_special_tokens": False, "return_token_ids": True}
        return own | told | sampling.of_vllm

    def _parts(self, answer: Any) -> tuple[Any, Any, Any, Any]:
        """Of a reply: model, token ids, log-probabilities, and why it ended."""
        (choice,) = answer["choices"]
        logprobs = choice["logprobs"]["token_logprobs"]
        return answer["model"], choice["token_ids"], logprobs, choice["finish_reason"]

    def check_version(self) -> None:
        """Raises ServerError if the server has other weights than it was sent."""
        told = self.server.get(self.version_path)
        found = told.get("weight_version") if isinstance(told, dict) else told
        if found != self.version:
            raise ServerError(
                f"want weights {self.version!r} on the server at {self.server.url}, got "
                f"{found!r}: it was started anew, or another run sends it weights; "
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
        pause, resume = self.pauses
        self.server.post(*pause)
        try:
            self._replace_weights(folder, send)
        except BaseException:
            with suppress(ServerError):  # the first error says more
                self.server.post(resume)
            raise
        self.server.post(resume)

    def _load_adapter(self, folder: Path) -> None:
        name = {"lora_name": str(folder)}
        # not load_inplace, with which vLLM reads the files again for each generation
        models = self.server.get("/v1/models")["data"]
        is_known = any(model.get("id") == str(folder) for model in models)
        if is_known:  # of a run that was resumed
            self.server.post("/v1/unload_lora_adapter", name)
        self._load("/v1/load_lora_adapter", name | {"lora_path": str(folder)}, folder)
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
        found = self.server.post("/collective_rpc", call)["results"]
        if others := [x for x in found if x != str(expected)]:
            raise ServerError(
                f"want the trainer's weights on the server at {self.server.url}, got others: "
                f"their bits add up to {others[0]}, the trainer's to {expected}; {RESTART}, "
                "and resume the run"
            )

    def _replace_weights(self, folder: Path, send: Callable[[], None] | None) -> None:
        server, arguments = self.server, {"weights_path": str(folder)}
        reload = {"method": "reload_weights", "kwargs": arguments}
        if send is None:
            self._load("/collective_rpc", reload, folder)
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

    def _load(self, path: str, body: Any, folder: Path) -> None:
        try:
            self.server.post(path, body)
        except Refused as error:
            raise ServerError(
                f"the server at {self.server.url} cannot load {str(folder)!r}: it does not "
                "see this folder, has no --enable-lora of this rank, or serves another base "
                f"model than {self.served.folder!r} with these layers; {RESTART} ({error})"
            ) from error

    def _read(self, answer: Any) -> tuple[list[int], list[float]]:
        """Token ids and log-probabilities of a reply."""
        url = self.server.url
        try:
            model, ids, logprobs, why = self._parts(answer)
        except (LookupError, TypeError, ValueError):
            ids = model = why = logprobs = None
        known = _are(ids, int) and _are(logprobs, int, float, NoneType)
        if not known or len(ids) != len(logprobs):
            raise ServerError(
                f"want token_ids and as many token_logprobs in a reply of {url}, got "
                f"{str(answer)[:120]!r}; want a server of vLLM 0.31 to 0.33, or of SGLang"
            )
        if model != self.model:
            raise ServerError(
                f"want replies of the model {self.model!r} from {url}, got one of "
                f"{model!r}; give each run a server of its own"
            )
        if why not in ("stop", "length"):
            raise ServerError(
                f"the server at {url} ended a reply with {why!r}: somebody else paused it; "
                "give each run a server of its own"
            )
        if not all(x is not None and math.isfinite(x) for x in logprobs):
            raise Diverged(
                f"want finite log-probabilities from {url}, got some that are not: the "
                "weights have diverged; train with a lower learning_rate or max_grad_norm"
            )
        return ids, logprobs


class SGLangBackend(ServerBackend):
    """As `ServerBackend`, by the routes that SGLang documents. No SGLang server was tried.

    Weights are files. There is no mode of its pause that waits, so that what is in flight while
    whole weights are loaded ends the run.
    """

    path, version_path = "/generate", "/get_model_info"
    pauses = ("/pause_generation", {"mode": "abort"}), "/continue_generation"

    def _check(self, sampling: Sampling) -> None:
        super()._check(sampling)
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
        body = {"input_ids": ids, "sampling_params": params, "return_logprob": True}
        is_base = self.model == self.served.model
        return body if is_base else {**body, "lora_path": self.model}

    def _parts(self, answer: Any) -> tuple[Any, Any, Any, Any]:
        told = answer["meta_info"]
        logprobs, ids = zip(
            *(x[:2] for x in told["output_token_logprobs"]), strict=True
        )
        return self.model, list(ids), list(logprobs), told["finish_reason"]["type"]

    def _load_adapter(self, folder: Path) -> None:
        name = {"lora_name": str(folder)}
        with suppress(Refused):  # it knows the adapter only in a run that was resumed
            self.server.post("/unload_lora_adapter", name)
        self._load("/load_lora_adapter", name | {"lora_path": str(folder)}, folder)
        if self.model not in (self.served.model, str(folder)):
            self.server.post("/unload_lora_adapter", {"lora_name": self.model})

    def _replace_weights(self, folder: Path, send: Callable[[], None] | None) -> None:
        told = {"model_path": str(folder), "weight_version": str(folder)}
        self._load("/update_weights_from_disk", told | {"flush_cache": True}, folder)


SERVERS = {"vllm": ServerBackend, "sglang": SGLangBackend}


def _are(values: Any, *kinds: type) -> bool:
    """True if an answer has a list there, with something in it, all of these types."""
    is_list = isinstance(values, list) and len(values) > 0
    return is_list and all(type(value) in kinds for value in values)
