"""`VLLMBackend`: tokens by a vLLM engine in this process, and the LoRA adapters that it plays.

vLLM tells adapters apart by number, and its cache of prompts tells them apart by name. So
each set of weights gets a number of its own, which is part of its name.
"""

import asyncio
import itertools
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from arena_envs.extras import import_extra
from arena_trainers.lm.backends import Generated, Prompts, Sampling
from arena_trainers.lm.backends.top_logprobs import entropy_estimate

if TYPE_CHECKING:
    import torch
    from peft import LoraConfig, PeftModel
    from vllm import LLM
    from vllm.logprobs import Logprob
    from vllm.lora.request import LoRARequest
    from vllm.outputs import RequestOutput

SeedSource = Literal["request", "engine"]  # whose seed a reply is drawn from
RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)  # that vLLM takes as a maximum

# what an adapter may choose: vLLM reads the first three, and the others leave its layers alone
_ADAPTER_OPTIONS = (
    "r",
    "lora_alpha",
    "use_rslora",
    "target_modules",
    "exclude_modules",
    "layers_to_transform",
    "layers_pattern",
    "lora_dropout",
    "init_lora_weights",
    "base_model_name_or_path",
    "inference_mode",
    "revision",
    "task_type",
    "auto_mapping",
    "peft_version",
)
_PLAIN_INITS = (True, False, "gaussian")  # of weights; others change the base model


def check_vllm_adapter(config: "LoraConfig") -> None:
    """Raises ValueError for an adapter that vLLM would not play as peft does."""
    defaults = import_extra("peft", "train").LoraConfig().to_dict()
    options = config.to_dict()
    names = [
        name
        for name, value in options.items()
        if name not in _ADAPTER_OPTIONS and value != defaults.get(name)
    ]
    if options.get("init_lora_weights", True) not in _PLAIN_INITS:
        names.append("init_lora_weights")
    if names:
        raise ValueError(
            f"want a plain LoRA adapter for vLLM, got {names[0]} = {options[names[0]]!r}, "
            "which vLLM does not play; leave it out, or leave use_vllm out"
        )
    engine_rank(config.r)


def engine_rank(r: int) -> int:
    """The smallest `max_lora_rank` of vLLM for adapters of rank `r`.

    Raises:
        ValueError: vLLM takes no such rank.
    """
    if not 1 <= r <= RANKS[-1]:
        raise ValueError(f"want a LoRA rank from 1 to {RANKS[-1]} for vLLM, got {r}")
    return next(rank for rank in RANKS if rank >= r)


class EngineAdapters:
    """The adapters that an engine holds, by name.

    Args:
        requests: of a `vllm.LLM` with `enable_lora`, and `max_loras` of at least the most
            adapters that it holds at a time.
        model: a `peft.PeftModel` with the adapters whose weights change.
    """

    def __init__(self, requests: "EngineRequests", model: "PeftModel") -> None:
        self.requests, self.model = requests, model
        self._numbers = itertools.count(1)
        self._requests: dict[str, LoRARequest] = {}

    def get(self, name: str) -> "LoRARequest | None":
        """The `LoRARequest` of an adapter; None if the engine does not hold it."""
        return self._requests.get(name)

    def put(self, name: str, weights: "Mapping[str, torch.Tensor]") -> "LoRARequest":
        """Loads an adapter in place of the one of this name, and gives its `LoRARequest`.

        Args:
            name: of one of the model's adapters; another name is a snapshot of its one adapter.
            weights: of the adapter, by the names of the model's parameters; those of other
                adapters are left out.

        Raises:
            RuntimeError: the engine does not take the adapter.
        """
        self.remove(name)
        number = next(self._numbers)
        with tempfile.TemporaryDirectory(prefix="arena-adapter-") as folder:
            path = str(Path(folder) / str(number))
            adapter = name if name in self.model.peft_config else "default"
            self.model.save_pretrained(
                path,
                selected_adapters=[adapter],
                state_dict=dict(weights),
                save_embedding_layers=False,
            )
            if adapter != "default":
                path = str(Path(path) / adapter)  # where peft writes it
            requests = import_extra("vllm.lora.request", "vllm")
            request: LoRARequest = requests.LoRARequest(
                f"{name}#{number}", number, path
            )
            is_loaded = self.requests.llm.llm_engine.add_lora(
                request
            )  # which reads the folder
        if not is_loaded:
            raise RuntimeError(
                f"want an engine that loads the LoRA adapter {name!r}, vLLM refused it "
                f"while it held {sorted(self._requests)}; build the engine with a larger "
                "max_loras, or leave use_vllm out"
            )
        self._requests[name] = request
        return request

    def remove(self, name: str) -> None:
        """Takes an adapter out of the engine, if it is there."""
        request = self._requests.pop(name, None)
        if request is not None:
            self.requests.finish(request)
            self.requests.llm.llm_engine.remove_lora(request.lora_int_id)


class WeightSums:
    """Lets a vLLM server tell the sum of its weights, as its `--worker-extension-cls`."""

    model_runner: Any  # of the worker

    def arena_sum(self, is_adapter: bool) -> str:
        """`bit_sum` of the newest adapter, or of the model's own weights."""
        runner = self.model_runner
        weights = runner.get_model().parameters()
        if is_adapter:
            adapters = runner.lora_manager._adapter_manager.list_adapters()
            weights = _adapter_matrices(adapters[max(adapters)].loras.values())
        return str(bit_sum(weights, str(runner.model_config.dtype)))


def _adapter_matrices(layers: Iterable[Any]) -> "Iterator[torch.Tensor]":
    """The matrices A and B of an adapter's layers in vLLM."""
    for layer in layers:
        for matrices in (layer.lora_a, layer.lora_b):
            # a list for layers that the engine merges, with None where it has no adapter
            for matrix in matrices if isinstance(matrices, list) else [matrices]:
                if matrix is not None:
                    yield matrix


def bit_sum(weights: "Iterable[torch.Tensor]", dtype: str) -> int:
    """The sum of the bits of weights, read as integers, in a precision of torch.

    The sum stays the same when weights are merged, reordered or padded with zeros.
    """
    torch = import_extra("torch", "train")
    precision = getattr(torch, dtype.removeprefix("torch."))
    bits = getattr(torch, f"int{8 * precision.itemsize}")
    sums = (
        weight.detach().to(precision).contiguous().view(bits).sum()
        for weight in weights
    )
    return sum(int(weight_sum) for weight_sum in sums)


class EngineRequest(NamedTuple):
    """A request in progress: what takes its output, and the adapter that it reads."""

    take: "Callable[[RequestOutput], None]"
    adapter: "LoRARequest | None"


class EngineRequests:
    """The requests that an engine works on; each reply is there as soon as it is written.

    One thread asks and steps the engine: the episodes that get a reply ask again before the next step.

    Args:
        llm: a `vllm.LLM` with `logprobs_mode="processed_logprobs"`.
        seeds: whether each request has a seed of its own, or the engine draws from its own
            random numbers, which is faster.
    """

    def __init__(self, llm: "LLM", seeds: SeedSource = "request") -> None:
        self.llm, self.seeds = llm, seeds
        self._numbers = itertools.count()
        self._in_progress: dict[str, EngineRequest] = {}
        self._futures: set[asyncio.Future[RequestOutput]] = set()
        self._steps: asyncio.Task[None] | None = None

    def add(
        self,
        prompt_ids: Sequence[int],
        seed: int,
        sampling: Sampling,
        adapter: "LoRARequest | None",
        take: "Callable[[RequestOutput], None]",
    ) -> str:
        """Begins a request, whose output `take` gets at the end; returns its id."""
        params = import_extra("vllm.sampling_params", "vllm")
        request_id = f"arena-{next(self._numbers)}"
        self._in_progress[request_id] = EngineRequest(take, adapter)
        self.llm.llm_engine.add_request(
            request_id,
            {"prompt_token_ids": list(prompt_ids)},
            params.SamplingParams(
                seed=seed % 2**63 if self.seeds == "request" else None,
                detokenize=False,
                output_kind=params.RequestOutputKind.FINAL_ONLY,
                **sampling.vllm_options,
            ),
            lora_request=adapter,
        )
        return request_id

    def abort(self, request_ids: Sequence[str]) -> None:
        """Ends the requests among these that are in progress, without a reply."""
        in_progress = [n for n in request_ids if self._in_progress.pop(n, None)]
        if in_progress:
            self.llm.llm_engine.abort_request(in_progress)

    def step(self) -> None:
        """One more token of each request that the engine has room for."""
        for output in self.llm.llm_engine.step():
            if output.finished and output.request_id in self._in_progress:
                self._in_progress.pop(output.request_id).take(output)

    def finish(self, adapter: "LoRARequest") -> None:
        """Steps the engine until no request in progress reads this adapter."""
        while any(request.adapter is adapter for request in self._in_progress.values()):
            self.step()

    async def wait(self, future: "asyncio.Future[RequestOutput]") -> "RequestOutput":
        """The output that a future of the running event loop gets, which steps the engine."""
        self._futures.add(future)
        if self._steps is None:
            self._steps = asyncio.create_task(self._step_until_done())
        try:
            return await future
        finally:
            self._futures.discard(future)

    async def _step_until_done(self) -> None:
        try:
            while self._in_progress:
                await asyncio.sleep(0)  # episodes take their replies, and ask again
                self.step()
        except Exception as error:  # raised in the episodes that wait
            for future in self._futures:
                if not future.done():
                    future.set_exception(error)
        finally:
            self._steps = None


class VLLMBackend:
    """Replies of an engine in this process, each drawn from its own seed.

    Where this departs from `Backend`: log-probabilities are the engine's, only as exact as its
    precision. At temperature 0 they are vLLM's. On a GPU the batch may change the last bits of a logit, and so a draw.

    Args:
        requests: of the engine.
        refresh: called before the engine is asked; loads the weights if they have changed.
            Gives the `LoRARequest` of the adapter that generates, or None if the engine's
            own weights do. Takes the name of an adapter where there are several learners.
        adapters: the engine's adapters; None if it was built for none.
    """

    runs_model = False

    def __init__(
        self,
        requests: EngineRequests,
        refresh: "Callable[..., LoRARequest | None]",
        adapters: EngineAdapters | None = None,
    ) -> None:
        self.requests, self.refresh, self.adapters = requests, refresh, adapters

    def of_learner(self, name: str) -> "VLLMBackend":
        """The backend of one of several learners."""
        return VLLMBackend(self.requests, partial(self.refresh, name), self.adapters)

    def generate(
        self, prompt_ids: Prompts, seeds: Sequence[int], sampling: Sampling
    ) -> Generated:
        adapter = self.refresh()
        outputs: dict[int, RequestOutput] = {}
        request_ids: list[str] = []
        try:
            for place, (ids, seed) in enumerate(zip(prompt_ids, seeds, strict=True)):
                take = partial(outputs.__setitem__, place)
                add = self.requests.add
                request_ids.append(add(ids, seed, sampling, adapter, take))
            while len(outputs) < len(request_ids):
                self.requests.step()
        finally:
            self.requests.abort(request_ids)
        replies = [outputs[place] for place in range(len(request_ids))]
        return _generated(replies, sampling.with_entropy)

    async def generate_one(
        self, prompt_ids: Sequence[int], seed: int, sampling: Sampling
    ) -> Generated:
        """As `ContinuousBackend.generate_one`."""
        requests, adapter = self.requests, self.refresh()
        future = asyncio.get_running_loop().create_future()
        request_id = requests.add(
            prompt_ids, seed, sampling, adapter, future.set_result
        )
        try:
            output = await requests.wait(future)
        finally:
            requests.abort([request_id])  # if the episode is cancelled
        return _generated([output], sampling.with_entropy)


def _generated(outputs: "Sequence[RequestOutput]", with_entropy: bool) -> Generated:
    """The replies in outputs of the engine."""
    token_ids: list[list[int]] = []
    logprobs: list[list[float]] = []
    entropies: list[list[float]] = []
    for output in outputs:
        reply = output.outputs[0]
        pairs = list(zip(reply.logprobs or (), reply.token_ids, strict=True))
        token_ids.append(list(reply.token_ids))
        logprobs.append([float(step[token].logprob) for step, token in pairs])
        if with_entropy:
            entropies.append([_entropy(step, token) for step, token in pairs])
    return Generated(token_ids, logprobs, entropies if with_entropy else None)


def _entropy(step: "Mapping[int, Logprob]", token: int) -> float:
    """The `entropy_estimate` at a token."""
    top = {number: float(entry.logprob) for number, entry in step.items()}
    return entropy_estimate(token, top[token], top)
