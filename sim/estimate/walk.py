"""How long attention walks over its staged slots: the rule of hw.channel.walk, a read at a time."""

from collections import deque
from functools import cache


@cache
def walk_cycles(heads: int, head_words: int, weight_latency: int, ahead: int) -> int:
    """Cycles from the first read to the last, both counted, of `heads` heads (slots times heads of the
    channel).

    In each cycle the next v beat is read if its head's weight is known, and the next k beat if k is less than
    `ahead` heads in front.
    """
    known: deque[int] = deque()  # when the weights of read k become known
    key = value = cycle = 0  # beats read
    total = heads * head_words
    while value < total:
        weighs = known and known[0] <= cycle
        compares = key < total and (key % head_words or key // head_words - value // head_words < ahead)
        if weighs:
            value += 1
            if value % head_words == 0:
                known.popleft()
        if compares:
            key += 1
            if key % head_words == 0:
                known.append(cycle + weight_latency)
        cycle = cycle + 1 if weighs or compares else known[0]
    return cycle
