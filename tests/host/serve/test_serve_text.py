"""host.serve.held_text, prefix_cache, settings: pieces without their HTTP."""

import socket

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from symlight.base.errors import UserError
from symlight.host.serve import run
from symlight.host.serve.held_text import HeldText
from symlight.host.serve.prefix_cache import PrefixCache
from symlight.host.serve.settings import ServerSettings, client_name, is_loopback, read_keys
from symlight.model.config import preset
from symlight.model.state import State

pytestmark = pytest.mark.timeout(60)
SHAPE = preset("tiny")


@given(
    st.lists(st.text("abc", max_size=4), max_size=12),
    st.lists(st.text("abc", min_size=1, max_size=4), max_size=3),
)
def test_held_text_is_the_text_before_the_first_stop(pieces, stops):
    held, shown = HeldText(stops), ""
    for piece in pieces:
        shown += held.push(piece)
        assert not any(stop in shown for stop in stops)
        if held.stopped:
            break
    if not held.stopped:
        shown += held.rest()
    text = "".join(pieces)
    places = [text.find(stop) for stop in stops if stop in text]
    if places:
        # The earliest stop to be complete ends the text, at its own beginning.
        ends = min(text.find(stop) + len(stop) for stop in stops if stop in text)
        cut = text[: max(ends, len(shown))]
        assert held.stopped and text.startswith(shown) and any(stop in cut for stop in stops)
        assert not any(stop in shown for stop in stops)
    else:
        assert shown == text and not held.stopped


def test_nothing_is_held_back_without_need():
    held = HeldText(["the end"])
    assert held.push("at the ") == "at " and held.push("stark") == "the stark" and held.rest() == ""


def state_of(tokens) -> State:
    state = State.new(SHAPE)
    state.position = len(tokens)
    state.membrane[:] = np.arange(SHAPE.width) + sum(tokens)
    return state


def test_the_longest_beginning_is_found_and_copied():
    cache = PrefixCache(1 << 30)
    for tokens in ([1], [1, 2, 3], [1, 2, 3, 4, 5], [2]):
        cache.keep(tokens, state_of(tokens))
    assert cache.longest([1, 2, 3, 4, 5])[0] == 3  # a whole text has nothing left to feed
    count, state = cache.longest([1, 2, 3, 4, 5, 6])
    assert count == 5 and state == state_of([1, 2, 3, 4, 5])
    state.membrane[:] = 0
    assert cache.longest([1, 2, 3, 4, 5, 6])[1] == state_of([1, 2, 3, 4, 5])
    assert cache.longest([3, 1]) is None and cache.longest([]) is None


def test_memory_is_bounded_and_the_oldest_goes_first():
    size = State.new(SHAPE).nbytes
    cache = PrefixCache(3 * size)
    for first in (1, 2, 3):
        cache.keep([first, 9], state_of([first, 9]))
    assert cache.longest([1, 9, 9])  # used again
    cache.keep([4, 9], state_of([4, 9]))
    assert cache.used == 3 * size and len(cache) == 3
    assert cache.longest([2, 9, 9]) is None and cache.longest([1, 9, 9]) and cache.longest([4, 9, 9])
    none = PrefixCache(size - 1)
    none.keep([1], state_of([1]))
    assert len(none) == 0


def test_a_look_up_compares_no_texts():
    """Its work is that of one hash of the text, whatever is kept."""

    class Counted(list):
        """Tokens that count how often one of them is looked at."""

        looks = 0

        def __iter__(self):
            for token in super().__iter__():
                Counted.looks += 1
                yield token

        def __getitem__(self, place):
            found = super().__getitem__(place)
            Counted.looks += len(found) if isinstance(place, slice) else 1
            return found

    text = Counted(range(200))
    looks = []
    for kept in (1, 60):
        cache = PrefixCache(1 << 30)
        for first in range(kept):
            cache.keep([*range(100), 500 + first], state_of([*range(100), 500 + first]))
        cache.keep(list(range(100)), state_of(range(100)))
        Counted.looks = 0
        assert cache.longest(text)[0] == 100
        looks.append(Counted.looks)
    assert looks[0] == looks[1] <= 2 * len(text)


@given(
    st.lists(st.lists(st.integers(0, 2), max_size=5), max_size=12), st.lists(st.integers(0, 2), max_size=6)
)
def test_the_longest_beginning_is_that_of_a_search(kept, wanted):
    cache = PrefixCache(1 << 30)
    for tokens in kept:
        cache.keep(tokens, state_of(tokens))
    fitting = [tokens for tokens in kept if 0 < len(tokens) < len(wanted) and wanted[: len(tokens)] == tokens]
    found = cache.longest(wanted)
    assert (found is None) == (not fitting)
    if found:
        best = max(fitting, key=len)
        assert found == (len(best), state_of(best))


def test_only_loopback_is_open():
    for host in ("127.0.0.1", "localhost", "::1", "127.8.8.8"):
        assert is_loopback(host)
        ServerSettings(host=host).check()
    for host in ("0.0.0.0", "::", "192.168.1.2", "example.org"):
        assert not is_loopback(host)
        with pytest.raises(UserError, match="api-key-file"):
            ServerSettings(host=host).check()
        ServerSettings(host=host, keys=("x" * 16,)).check()


def test_keys(tmp_path):
    file = tmp_path / "keys"
    file.write_text("# of the team\nabcdefghijklmnop\n\n  qrstuvwxyzabcdef \n")
    keys = read_keys(file)
    assert keys == ("abcdefghijklmnop", "qrstuvwxyzabcdef")
    settings = ServerSettings(keys=keys)
    assert settings.admits(keys[1]) and not settings.admits("abc") and not settings.admits(None)
    assert client_name(keys[1], "10.0.0.1", keys) == "key 1"
    assert client_name(None, "10.0.0.1", keys) == "10.0.0.1"
    for text in ("", "short\n", "# only\n", "ä" * 20):
        file.write_text(text)
        with pytest.raises(UserError, match="16 ASCII"):
            read_keys(file)
    with pytest.raises(UserError, match="cannot be read"):
        read_keys(tmp_path / "none")


def test_connections_send_at_once():
    """Otherwise an answer waits for the acknowledgement of its headers, some 40 ms."""
    with run.bound_socket(ServerSettings(port=0)) as listening:
        with socket.create_connection(listening.getsockname()):
            accepted, _ = listening.accept()
            with accepted:
                assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
