"""Text that is held back while it may be the beginning of a stop text."""

from collections.abc import Sequence


class HeldText:
    """Gives out a growing text, but never a character of a stop text.

    Parameters
    ----------
    stops : sequence of str
        Empty ones are ignored.
    """

    def __init__(self, stops: Sequence[str] = ()):
        self._stops = tuple(stop for stop in stops if stop)
        self._held = ""
        self.stopped = False

    def push(self, piece: str) -> str:
        """What may be shown once `piece` has come; nothing after a stop text."""
        if self.stopped:
            return ""
        self._held += piece
        places = [place for stop in self._stops if (place := self._held.find(stop)) >= 0]
        if places:
            self.stopped = True
            shown, self._held = self._held[: min(places)], ""
            return shown
        safe = len(self._held) - self._open_end()
        shown, self._held = self._held[:safe], self._held[safe:]
        return shown

    def rest(self) -> str:
        """What is still held back when the text ends without a stop text."""
        shown, self._held = self._held, ""
        return shown

    def _open_end(self) -> int:
        """Length of the longest end of the held text that begins a stop text."""
        longest = min(len(self._held), max(map(len, self._stops), default=1) - 1)
        for length in range(longest, 0, -1):
            if any(stop.startswith(self._held[-length:]) for stop in self._stops):
                return length
        return 0
