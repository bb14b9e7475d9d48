"""How long attention walks over its staged slots: a read at a time, by hw.channel.ring.read_scheduler."""

from collections import deque
from functools import cache


@cache
def walk_cycles(
    heads: int, head_words: int, weight_latency: int, ahead: int, held: int | None = None, until: int = 0
) -> int:
    """Cycles from the first read to the last, both counted, of `heads` heads (slots times heads of the
    channel).

    In each cycle the next v beat is read if its head's weight is known, and the next k beat if k is less than
    `ahead` heads in front. The k of head `held` (of the current token's slot) is not there before cycle
    `until`.
    """
    known: deque[int] = deque()  # when the weights of read k become known
    key = value = cycle = 0  # beats read
    total = heads * head_words
    first_held = total if held is None else held * head_words
    while value < total:
        weighs = known and known[0] <= cycle
        compares = key < total and (key % head_words or key // head_words - value // head_words < ahead)
        late = compares and key == first_held and cycle < until
        compares = compares and not late
        if weighs:
            value += 1
            if value % head_words == 0:
                known.popleft()
        if compares:
            key += 1
            if key % head_words == 0:
                known.append(cycle + weight_latency)
        if weighs or compares:
            cycle += 1
        else:
            cycle = min([*list(known)[:1], *([until] if late else [])])  # what comes next
    return cycle
