"""Values of texts in YAML, which strangers may have written."""

from typing import Any, NamedTuple

# characters of a value whose aliases are written out; a text without aliases may be longer
MAX_WRITTEN_OUT = 1_000_000
MAX_DEPTH = 100  # of nested lists and mappings, with aliases written out
MAX_DIGITS = 1_000  # of an integer; Python writes none of more than 4,300


def read(text: str) -> Any:
    """The value of a text in YAML.

    Raises:
        ValueError: it is not YAML, a value does not exist, such as the date 2026-99-99, an
            integer is very long, lists are nested very deep, or aliases stand for a value that
            contains itself or is very long.

    >>> read("{a: &x [1, 2], b: *x}")
    {'a': [1, 2], 'b': [1, 2]}
    """
    import yaml  # importing it takes as long as all of `arena_envs`

    try:
        loader = yaml.SafeLoader(text)
        node = loader.get_single_node()
        if node is None:
            return None
        # without aliases, n characters count at most 2 n + 1, as "?": a mapping and two nulls
        if _size_of(node, {}).length > max(MAX_WRITTEN_OUT, 2 * len(text) + 1):
            raise ValueError(
                f"its aliases stand for more than {MAX_WRITTEN_OUT:,} characters"
            )
        return loader.construct_document(node)
    except (yaml.YAMLError, ValueError) as error:
        raise ValueError(f"{' '.join(str(error).split()):.300}") from error
    except (LookupError, TypeError, AttributeError, ArithmeticError) as error:
        raise ValueError("a value is not of its type, such as !!bool maybe") from error
    except RecursionError:
        raise ValueError(
            f"it has lists or mappings nested more than {MAX_DEPTH} deep"
        ) from None


class _Size(NamedTuple):
    """The characters of a node's values, and one for each, with aliases written out; its depth."""

    length: int
    depth: int


def _size_of(node: Any, sizes: dict[int, _Size | None]) -> _Size:
    """The size of a node.

    Args:
        node: of `yaml.compose`; aliases of one anchor are one object.
        sizes: by identity, of nodes seen before; None while a node's parts are summed.
    """
    is_text = isinstance(node.value, str)
    if node.tag == "tag:yaml.org,2002:int" and not (
        is_text and len(node.value) <= MAX_DIGITS
    ):
        raise ValueError(f"an integer has more than {MAX_DIGITS:,} digits")
    if is_text:
        return _Size(len(node.value) + 1, 0)
    if id(node) not in sizes:
        sizes[id(node)] = None
        length, depth = 1, 0
        for part in node.value:  # of a mapping: a key and a value
            for inner in part if isinstance(part, tuple) else (part,):
                size = _size_of(inner, sizes)
                length, depth = length + size.length, max(depth, size.depth)
        if depth >= MAX_DEPTH:
            raise RecursionError
        sizes[id(node)] = _Size(length, depth + 1)
    known = sizes[id(node)]
    if known is None:
        raise ValueError("an alias stands for a value that contains it")
    return known
