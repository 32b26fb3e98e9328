"""Registries: every kind of plug-in by name, in one grammar of strings.

```
expression := NAME[:ARGUMENT][(inner, ..., key=value, ...)]
```

| Part | Example | Meaning |
|---|---|---|
| NAME | `minimax` | built in, or of the registry's entry-point group; a built-in hides a plug-in |
| `module:name` | `my_bots:Careful` | a class or function that can be imported, without an entry point |
| ARGUMENT | `mcts:100` | the first argument |
| inner | `noisy:0.2(minimax)` | expressions, the further arguments |
| key=value | `wins(top=0.2)` | options by name; a value is YAML, such as `[4, 8, null]` |

`module:name` is for operators; `arena_envs.trust` says what text of others may name.
A built-in name wins over a module of that name. Quotes at the start of a part protect commas, colons and
parentheses: `lm:"runs/a (2)/model"`. In YAML, `{NAME: {key: value}}` says the same.
"""

import functools
import importlib
import importlib.util
import inspect
import math
import os
import re
import sys
import traceback
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from importlib.metadata import EntryPoint, EntryPoints, entry_points
from itertools import pairwise
from typing import Any, Generic, NoReturn, TypeVar

from arena_envs import yaml_text
from arena_envs.checks import did_you_mean, install_advice
from arena_envs.trust import require_operator, require_operator_of_code

T = TypeVar("T")
Maker = Callable[..., T]

MAX_DEPTH = 20  # of parentheses; deeper strings would exhaust Python's stack
_PATH = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
_OPENING, _CLOSING = "([{", ")]}"


class BrokenPromise(AssertionError):
    """An object breaks a promise of its protocol; the message says which."""


def broken(promise: str, reason: str) -> NoReturn:
    """Raises `BrokenPromise` of a promise, as the tables of the checks name it."""
    raise BrokenPromise(f"broken promise {promise!r}: {reason}")


@dataclass(frozen=True)
class Expression:
    """A string of the grammar, taken apart.

    Attributes:
        name: NAME, or `module:name`.
        argument: ARGUMENT, or None.
        inner: expressions in parentheses.
        options: values in parentheses, by key.
    """

    name: str
    argument: str | None = None
    inner: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)


def expression(text: str | Mapping[str, Any]) -> Expression:
    """Takes a string of the grammar apart, or `{NAME: {key: value}}`.

    Raises:
        ValueError: another form, or parentheses that are not balanced.

    >>> expression("best_of:4(lm:a, temperature=0.5)")
    Expression(name='best_of', argument='4', inner=('lm:a',), options={'temperature': 0.5})
    >>> expression({"wins": {"top": 0.2}}).options
    {'top': 0.2}
    """
    if isinstance(text, Mapping):
        return _of_mapping(text)
    if not isinstance(text, str) or not text.strip():
        raise ValueError(f"want a name, got {text!r:.80}")
    if text.isidentifier():
        return Expression(text)
    head, inside = _apart(text.strip())
    name, colon, argument = head.partition(":")
    inner, options = [], {}
    for part in split(inside):
        key, equals, value = part.partition("=")
        if equals and re.fullmatch(r"[A-Za-z_]\w*", key.strip()):
            options[key.strip()] = value_of(value)
        else:
            inner.append(part)
    argument = argument.strip()
    if len(argument) > 1 and argument[0] == argument[-1] and argument[0] in "\"'":
        argument = argument[1:-1]
    return Expression(name.strip(), argument if colon else None, tuple(inner), options)


def _of_mapping(mapping: Mapping[str, Any]) -> Expression:
    (first, options), *more = mapping.items() or [("", None)]
    if more or not isinstance(first, str) or not isinstance(options, Mapping | None):
        raise ValueError(
            f"want one name with its options, got {dict(mapping)!r:.200}; write "
            "NAME(key=value) or {NAME: {key: value}}"
        )
    head = expression(first)
    return replace(head, options={**head.options, **(options or {})})


def _apart(text: str) -> tuple[str, str]:
    """The text before the parentheses at the end, and the text in them."""
    start = next((at for at, depth in _depths(text) if depth and text[at] == "("), None)
    if start is None:
        return text, ""
    end = next(at for at, depth in _depths(text) if at > start and not depth)
    if end != len(text) - 1:
        raise ValueError(
            f"want closed parentheses, and nothing after them, got {text!r:.200}; put a name or "
            "path with parentheses into quotes"
        )
    return text[:start], text[start + 1 : -1]


def split(text: str) -> list[str]:
    """The parts between the commas that neither brackets nor quotes protect.

    >>> split("mcts:5, noisy:0.1(first), wins(above=[1, 2])")
    ['mcts:5', 'noisy:0.1(first)', 'wins(above=[1, 2])']
    """
    ends = [at for at, depth in _depths(text) if text[at] == "," and not depth]
    edges = [-1, *ends, len(text)]
    parts = [text[a + 1 : b].strip() for a, b in pairwise(edges)]
    return parts if any(parts) else []


def _depths(text: str) -> Iterator[tuple[int, int]]:
    """Each place outside quotes, with the number of brackets that are open after it."""
    quote, before, depth = "", "(", 0
    for at, char in enumerate(text):
        if quote:
            quote = "" if char == quote else quote
            before = char
            continue
        if char in "\"'" and before in ":=,([{":
            quote = char
            continue
        depth += (char in _OPENING) - (char in _CLOSING)
        if not 0 <= depth <= MAX_DEPTH:
            break
        yield at, depth
        before = before if char.isspace() else char
    if depth or quote:
        raise ValueError(
            f"want closed parentheses and quotes, at most {MAX_DEPTH} deep, got {text!r:.200}"
        )


def value_of(text: str) -> Any:
    """The value that a text stands for: YAML, and every number that Python reads.

    >>> value_of("1e-6"), value_of("[4, null]"), value_of("wins")
    (1e-06, [4, None], 'wins')
    """
    is_short = len(text) <= yaml_text.MAX_DIGITS
    for kind in (int, float):
        if is_short and re.fullmatch(
            r"[-+]?[\d.]+(e[-+]?\d+)?", text.strip(), re.IGNORECASE
        ):
            try:
                return kind(text)
            except ValueError:
                continue
    try:
        return yaml_text.read(text)
    except ValueError as error:
        raise ValueError(
            f"want a value such as 3, true, text or [1, 2], got {text!r:.200}: {error}"
        ) from None


def imported(path: str, requirement: str, kind: str = "function") -> Any:
    """The object that `module:name` names; modules of the working directory count.

    Args:
        path: `module:name`.
        requirement: what it should be, for messages.
        kind: what is named, see `arena_envs.trust`.

    Raises:
        ValueError: another form, or no such module or name.
        NotTrusted: the path is a stranger's.
        ImportError: the module fails; names the exception and its place.
    """
    if not isinstance(path, str) or not _PATH.fullmatch(path):
        raise ValueError(f"want {requirement}, got {path!r:.200}")
    require_operator_of_code(kind, path)
    find_modules_here()
    return _imported(path, requirement)


def _imported(path: str, requirement: str) -> Any:
    module, _, name = path.partition(":")
    try:
        imported_module = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name and f"{module}.".startswith(f"{error.name}."):
            raise ValueError(
                f"want {requirement}, got {path!r}: there is no module {error.name!r} in the "
                "working directory or among the installed packages"
            ) from error
        raise ImportError(f"{path!r} cannot be loaded: {error}") from error
    except Exception as error:  # a stranger's module may raise anything at import
        problem = f"{type(error).__name__}: {error}{place_of(error)}"
        raise ImportError(f"{path!r} cannot be loaded: {problem}") from error
    if not hasattr(imported_module, name):
        public_names = [key for key in vars(imported_module) if not key.startswith("_")]
        hint = f"; {did_you_mean(name, public_names)}" if public_names else ""
        raise ValueError(
            f"want {requirement}, got {path!r}: the module has nothing of that name{hint}"
        )
    return getattr(imported_module, name)


_working_directories: set[str] = set()  # that this module put into the path


def find_modules_here() -> None:
    """Makes modules of the working directory importable, as `python -m` does.

    The directory is last in the path, so its files hide no installed package. What looks like an
    installed package in it is none, see `installed`.
    """
    if (here := os.getcwd()) not in sys.path:
        sys.path.append(here)
        _working_directories.add(here)


def place_of(error: BaseException) -> str:
    """The place where an exception was raised, such as `" (pig.py:98)"`; "" if it is unknown.

    >>> place_of(ValueError())
    ''
    """
    frames = traceback.extract_tb(error.__traceback__)
    if isinstance(error, SyntaxError) or not frames:
        return ""  # the message of a SyntaxError names its line
    return f" ({os.path.basename(frames[-1].filename)}:{frames[-1].lineno})"


def missing_extra(
    error: ModuleNotFoundError, extra: str = "train"
) -> ModuleNotFoundError:
    """The error for a missing package; it names the extra to install."""
    return ModuleNotFoundError(
        f"this needs the package {error.name!r}; {install_advice(extra)}",
        name=error.name,
    )


def import_extra(module: str, extra: str) -> Any:
    """A module of a package that an extra installs.

    Raises:
        ModuleNotFoundError: it is missing; names the extra to install.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise missing_extra(error, extra) from error


@functools.cache
def installed(group: str, path: tuple[str, ...]) -> EntryPoints:
    """The entry points of a group, read once for each `sys.path`: reading takes 10 ms.

    Those of the working directory do not count: its files may be a stranger's.
    """
    return EntryPoints(
        point
        for point in entry_points(group=group)
        if point.dist is None
        or str(point.dist.locate_file("")) not in _working_directories
    )


@dataclass(frozen=True)
class Registry(Generic[T]):
    """All objects of one kind: those of this project, plug-ins, and `module:name`.

    Attributes:
        kind: what is made, for messages.
        group: of the entry points; "" for none.
        built_in: functions or classes by name, or `module:name` of one, which is imported when
            it is first used.
        reserved: names of arguments that the program supplies, and no user.
        aliases: second names of built-in objects.
        kit: `module:function` that checks an object; raises `BrokenPromise`.
        extra: what to install if a built-in cannot be imported.
        noun: what an option is called in messages.
        trusted: names that open files or connections, start programs or call others by name,
            and what they would do, such as "open a file"; only operators may use them.
        max_number: the largest number in arguments and options of the text of strangers.
    """

    kind: str
    group: str
    built_in: Mapping[str, Maker[T] | str]
    reserved: Collection[str] = ()
    aliases: Mapping[str, str] = field(default_factory=dict)
    kit: str | None = None
    extra: str = "train"
    noun: str = "option"
    trusted: Mapping[str, str] = field(default_factory=dict)
    max_number: float = math.inf

    def names(self) -> list[str]:
        """All names, sorted, without aliases."""
        return sorted({*self.built_in, *(point.name for point in self._points())})

    def knows(self, spec: str | Mapping[str, Any]) -> bool:
        """Whether a string or a mapping names an object; imports nothing."""
        try:
            return self._is_name(expression(spec).name)
        except ValueError:
            return False

    def read(self, spec: str | Mapping[str, Any]) -> Expression:
        """Takes a string or mapping apart; an alias becomes the name that it stands for.

        Raises:
            ValueError: another form than the grammar's, or an unknown name.
            NotTrusted: a stranger's text names more than it may, see `arena_envs.trust`.
        """
        parts = expression(spec)
        name = self.aliases.get(parts.name, parts.name)
        if self._is_name(name):
            registered = Expression(name, parts.argument, parts.inner, parts.options)
            self._require_operator(registered)
            return registered
        path = f"{parts.name}:{parts.argument}"
        if parts.argument is None or not _PATH.fullmatch(path):
            raise ValueError(self._unknown(parts.name))
        require_operator_of_code(self.kind, path)
        if "." not in name and name not in sys.modules:
            find_modules_here()
            if importlib.util.find_spec(name) is None:
                unknown = self._unknown(parts.name)
                nor = " Nor" if unknown.endswith("?") else "; nor"
                raise ValueError(f"{unknown}{nor} is there a module {name!r}")
        return Expression(path, None, parts.inner, parts.options)

    def find(self, name: str) -> Maker[T]:
        """The function or class of a name, or of `module:name`.

        Raises:
            ValueError: there is none.
            NotTrusted: `module:name` is a stranger's.
            ImportError: it cannot be imported; says what to install or to mend.
        """
        name = self.aliases.get(name, name)
        if name in self.built_in:
            maker = self.built_in[name]
            if not isinstance(maker, str):
                return maker
            module, _, attribute = maker.partition(":")
            built_in: Maker[T] = getattr(import_extra(module, self.extra), attribute)
            return built_in
        for point in self._points():
            if point.name == name:
                plug_in: Maker[T] = _loaded(point, self.kind)
                return plug_in
        if ":" not in name:
            raise ValueError(self._unknown(name))
        imported_object: Maker[T] = imported(
            name, f"{self._phrase} as module:name", self.kind
        )
        if not callable(imported_object):
            raise ValueError(
                f"want {self._phrase} as module:name of a function or class, got {name!r}, "
                f"which is {imported_object!r:.60}"
            )
        return imported_object

    def make(self, spec: str | Mapping[str, Any], /, **program_arguments: Any) -> T:
        """Calls the function or class of a string or mapping.

        Args:
            spec: an expression of the grammar, or `{NAME: {key: value}}`.
            **program_arguments: arguments that the program gives; a function gets those that it
                takes.

        Raises:
            ValueError: an unknown name or option, or an argument that is missing or does not
                fit.
            ImportError: it cannot be imported; says what to install or to mend.
        """
        parts = self.read(spec)
        maker = self.find(parts.name)
        parameters = inspect.signature(maker).parameters
        program_arguments = {
            name: value
            for name, value in program_arguments.items()
            if name in parameters
        }
        arguments = _positional(
            self.kind, parts, parameters, {*program_arguments, *self.reserved}
        )
        program_names = {*self.reserved, *program_arguments}
        subject = f"{self.kind} {parts.name!r}"
        check_options(
            subject, maker, parts.options, program_names, arguments, self.noun
        )
        return maker(*arguments, **parts.options, **program_arguments)

    def check(self, thing: T, *args: Any, **options: Any) -> None:
        """Checks an object by the kit of this registry, which gets the further arguments.

        Raises:
            BrokenPromise: names the first promise that the object breaks.
            TypeError: this kind has no kit.
        """
        if self.kit is None:
            raise TypeError(f"there is no check of {self._phrase}")
        _imported(self.kit, "a check")(thing, *args, **options)

    def _points(self) -> EntryPoints:
        return installed(self.group, tuple(sys.path))

    def _is_name(self, name: str) -> bool:
        return name in self.built_in or name in {p.name for p in self._points()}

    @property
    def _phrase(self) -> str:
        return f"{'an' if self.kind[0] in 'aeiou' else 'a'} {self.kind}"

    def _require_operator(self, spec: Expression) -> None:
        """Refuses a registered name, or a number, that a stranger's text may not have."""
        values = spec.argument, spec.inner, spec.options
        text = spec.name if spec.argument is None else f"{spec.name}:{spec.argument}"
        if spec.name in self.trusted:
            require_operator(self.kind, text, self.trusted[spec.name], *values)
        for value in (spec.argument, *spec.options.values()):
            if (
                isinstance(number := _number(value), int | float)
                and not abs(number) <= self.max_number
            ):
                would = f"compute for long (the largest number is {self.max_number:,})"
                require_operator(self.kind, text, would, *values)

    def _unknown(self, name: str) -> str:
        all_names = [*self.names(), *self.aliases]
        return f"no {self.kind} {name!r}; {did_you_mean(name, all_names)}"


def _number(value: str | float | None) -> Any:
    """The number that an argument or an option stands for; None if it is no number."""
    if not isinstance(value, str):
        return value
    try:
        return float(value)
    except ValueError:
        return None


def signature_of(maker: Callable[..., Any]) -> inspect.Signature:
    """The signature of a function or class; those of functions are cached, as they take long."""
    if inspect.isfunction(maker):
        return _cached_signature(maker)
    return inspect.signature(maker)


_cached_signature = functools.lru_cache(maxsize=256)(inspect.signature)


def check_options(
    subject: str,
    maker: Callable[..., Any],
    options: Collection[str],
    program_names: Collection[str] = (),
    arguments: Collection[Any] = (),
    noun: str = "option",
    others: Collection[str] = (),
) -> None:
    """Checks that a function or class has these options, and that it needs no others.

    Args:
        subject: what is called, for messages.
        maker: the function or class.
        options: names of options.
        program_names: names that are no options of a user.
        arguments: what its first parameters get.
        noun: what an option is called in messages.
        others: names that may stand beside the options; messages list them, too.

    Raises:
        ValueError: an unknown option, or one that is missing.
    """
    parameters = [*signature_of(maker).parameters.values()][len(arguments) :]
    variadic = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    option_names = [
        p.name
        for p in parameters
        if p.name not in program_names and p.kind not in variadic
    ] + [*others]
    takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters)
    for option in options:
        if option in program_names or (option not in option_names and not takes_any):
            hint = "it has none"
            if option_names:
                hint = did_you_mean(str(option), option_names)
            if hint.startswith("did you mean"):
                hint += f" {noun.capitalize()}s are {', '.join(option_names)}"
            raise ValueError(f"{subject} has no {noun} {option!r}; {hint}")
    for parameter in parameters:
        lacks = parameter.default is parameter.empty and parameter.kind not in variadic
        if lacks and parameter.name not in {*options, *program_names}:
            raise ValueError(f"{subject} needs the {noun} {parameter.name!r}; give it")


def _positional(
    kind: str,
    parts: Expression,
    parameters: Mapping[str, inspect.Parameter],
    program_names: Collection[str],
) -> list[Any]:
    """The argument, as the type of the first parameter says, and the inner expressions."""
    open_parameters = [p for p in parameters.values() if p.name not in program_names]
    takes = [
        p
        for p in open_parameters
        if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
    ]
    num, has_argument = len(parts.inner), parts.argument is not None
    if any(p.kind is p.VAR_POSITIONAL for p in open_parameters):
        return [*([parts.argument] if has_argument else []), *parts.inner]
    if has_argument and not takes:
        raise ValueError(
            f"{kind} {parts.name!r} takes no argument, got '{parts.name}:{parts.argument}'"
        )
    needs = [
        p.name for p in takes if p.default is p.empty and p.name not in parts.options
    ]
    lacks = bool(needs[has_argument + num :])
    if lacks or num > max(len(takes) - has_argument, 0):
        if lacks:
            takes = takes[: [p.name for p in takes].index(needs[-1]) + 1]
        usage = parts.name + (f":{takes[0].name.upper()}" if takes else "")
        if further := ", ".join(p.name.upper() for p in takes[1:]):
            usage += f"({further})"
        got = parts.name + (f":{parts.argument}" if has_argument else "")
        hint = ""
        if num:
            got += f"({', '.join(parts.inner)})"
            hint = "; put a path with parentheses or commas into quotes"
        raise ValueError(f"want a {kind} as {usage}, got {got!r:.200}{hint}")
    first = [_converted(parts, takes[0].annotation)] if has_argument else []
    return [*first, *parts.inner]


def _converted(parts: Expression, annotation: type | str) -> Any:
    type_name = str(getattr(annotation, "__name__", annotation))
    kinds = {"int": (int, "an integer"), "float": (float, "a number")}
    if type_name == "int | str":
        return (
            value
            if type(value := value_of(parts.argument or "")) is int
            else parts.argument
        )
    convert, words = kinds.get(type_name.removesuffix(" | None"), (str, ""))
    try:
        return convert(parts.argument or "")
    except ValueError:
        got = f"{parts.name}:{parts.argument}"
        raise ValueError(f"want {words} after '{parts.name}:', got {got!r}") from None


def _loaded(point: EntryPoint, kind: str) -> Any:
    """The object that an entry point names."""
    plugin = point.dist.name if point.dist else "?"
    try:
        return point.load()
    except Exception as error:  # a plug-in may raise anything
        if plugin == "arena-envs" and isinstance(error, ModuleNotFoundError):
            raise missing_extra(error) from error
        raise ImportError(
            f"{kind} {point.name!r} of plug-in {plugin!r} cannot be loaded from "
            f"{point.value!r}: {error!r}"
        ) from error
