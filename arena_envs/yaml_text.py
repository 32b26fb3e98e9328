"""Values of texts in YAML, which strangers may have written."""

from typing import Any

# characters of a value whose aliases are written out; a text without aliases may be longer
MAX_WRITTEN_OUT = 1_000_000
MAX_DIGITS = 1_000  # of an integer; Python writes none of more than 4,300


def read(text: str) -> Any:
    """The value of a text in YAML.

    Raises:
        ValueError: it is not YAML, a value does not exist, such as the date 2026-99-99, an
            integer is very long, or aliases stand for a value that contains itself or is very long.

    >>> read("{a: &x [1, 2], b: *x}")
    {'a': [1, 2], 'b': [1, 2]}
    """
    import yaml  # importing it takes as long as all of `arena_envs`

    broken = (yaml.YAMLError, ValueError, LookupError, TypeError, AttributeError)
    try:
        loader = yaml.SafeLoader(text)
        node = loader.get_single_node()
        if node is None:
            return None
        # without aliases a part has at least half its length in the text
        if _written_out(node, {}) > max(MAX_WRITTEN_OUT, 2 * len(text) + 1):
            raise ValueError(
                f"its aliases stand for more than {MAX_WRITTEN_OUT:,} characters"
            )
        return loader.construct_document(node)
    except (*broken, RecursionError) as error:
        raise ValueError(" ".join(str(error).split())) from error


def _written_out(node: Any, lengths: dict[int, int | None]) -> int:
    """The characters of a node's values, and one for each, with aliases written out.

    Args:
        node: of `yaml.compose`; aliases of one anchor are one object.
        lengths: by identity, of nodes seen before; None while a node's parts are summed.
    """
    if isinstance(node.value, str):
        if node.tag == "tag:yaml.org,2002:int" and len(node.value) > MAX_DIGITS:
            raise ValueError(f"an integer has more than {MAX_DIGITS:,} digits")
        return len(node.value) + 1
    if id(node) not in lengths:
        lengths[id(node)] = None
        total = 1
        for part in node.value:  # of a mapping: a key and a value
            for inner in part if isinstance(part, tuple) else (part,):
                total += _written_out(inner, lengths)
        lengths[id(node)] = total
    length = lengths[id(node)]
    if length is None:
        raise ValueError("an alias stands for a value that contains it")
    return length
