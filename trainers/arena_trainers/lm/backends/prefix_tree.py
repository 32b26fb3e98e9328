"""`PrefixTree`: a radix tree of the slots of tokens, in which texts share common prefixes."""

import heapq
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

Tokens = NDArray[np.int64]
Slots = NDArray[np.int64]


class PrefixNode:
    """A run of tokens that all texts through this node share.

    Attributes:
        tokens: int64[n].
        slots: int64[n], the slot of each token.
        parent: the node of the tokens before; None at the root, which has no tokens.
        children: nodes of the tokens after, by their first token.
        last_use: number of `begin_use` calls of the tree when the node was last used.
    """

    __slots__ = ("children", "last_use", "parent", "slots", "tokens")

    def __init__(
        self, tokens: Tokens, slots: Slots, parent: "PrefixNode | None", last_use: int
    ) -> None:
        self.tokens, self.slots, self.parent = tokens, slots, parent
        self.children: dict[int, PrefixNode] = {}
        self.last_use = last_use


class PrefixTree:
    """A radix tree of token ids.

    >>> tree = PrefixTree()
    >>> tree.add(np.array([5, 6, 7]), 0, np.array([1, 2, 3]))
    >>> tree.find(np.array([5, 6, 8]))[1].tolist()
    [1, 2]
    """

    def __init__(self) -> None:
        empty = np.zeros(0, np.int64)
        self.root = PrefixNode(empty, empty, None, 0)
        self._use = 0

    def begin_use(self) -> None:
        """Starts a period of use; nodes used in it count as more recent than all others."""
        self._use += 1

    def find(self, tokens: Tokens) -> tuple[PrefixNode, Slots]:
        """The node at the end of the longest known prefix of a text, and the slots of the prefix."""
        node, known, parts = self.root, 0, [self.root.slots]
        while known < len(tokens):
            child = node.children.get(int(tokens[known]))
            if child is None:
                break
            child.last_use = self._use
            num_equal = common_length(child.tokens, tokens[known:])
            if num_equal < len(child.tokens):
                child = self._split(child, num_equal)
            parts.append(child.slots)
            node, known = child, known + num_equal
        return node, np.concatenate(parts)

    def add(self, tokens: Tokens, num_known: int, slots: Slots) -> None:
        """Adds a text of which exactly the first `num_known` tokens are known.

        Args:
            tokens: of the text.
            num_known: number of slots that `find` returns.
            slots: of the other tokens.
        """
        if num_known == len(tokens):
            return
        node, _ = self.find(tokens[:num_known])
        first = int(tokens[num_known])
        node.children[first] = PrefixNode(tokens[num_known:], slots, node, self._use)

    def evict(self, num: int) -> Iterator[Slots]:
        """Removes least recently used ends of texts, and yields their slots, until `num` are free.

        Nodes that were used since the last `begin_use` stay.
        """
        leaves = [
            (node.last_use, id(node), node)
            for node in self._nodes()
            if not node.children and node.last_use < self._use
        ]
        heapq.heapify(leaves)
        while num > 0 and leaves:
            _, _, leaf = heapq.heappop(leaves)
            parent = leaf.parent
            if parent is None:
                break
            del parent.children[int(leaf.tokens[0])]
            num -= len(leaf.slots)
            yield leaf.slots
            is_leaf = not parent.children and parent.parent is not None
            if is_leaf and parent.last_use < self._use:
                heapq.heappush(leaves, (parent.last_use, id(parent), parent))

    def _split(self, node: PrefixNode, num: int) -> PrefixNode:
        """Splits a node after `num` tokens; returns the new node of the first ones."""
        first = PrefixNode(
            node.tokens[:num], node.slots[:num], node.parent, node.last_use
        )
        first.parent.children[int(node.tokens[0])] = first  # type: ignore[union-attr]
        node.tokens, node.slots, node.parent = (
            node.tokens[num:],
            node.slots[num:],
            first,
        )
        first.children[int(node.tokens[0])] = node
        return first

    def _nodes(self) -> Iterator[PrefixNode]:
        open_nodes = [self.root]
        while open_nodes:
            node = open_nodes.pop()
            yield node
            open_nodes += node.children.values()


def common_length(first: Tokens, second: Tokens) -> int:
    """The length of the longest common prefix of two texts."""
    num = min(len(first), len(second))
    differs = first[:num] != second[:num]
    place = int(differs.argmax()) if num else 0
    return place if num and differs[place] else num
