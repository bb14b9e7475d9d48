"""A console that shows strings as they are."""

import errno
import os

from rich.console import Console
from rich.text import Text

from symlight.base.printable import printable

KEPT = "\n\t"


class PlainConsole(Console):
    """A console on which a string is no markup, has no emoji names and steers nothing.

    What symlight itself wants styled is given as `Text`, or with `style`. A reader that has gone is left to
    base.program.
    """

    def __init__(self, **options):
        super().__init__(markup=False, emoji=False, highlight=False, **options)

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))

    def render_str(self, text: str, **options) -> Text:
        return super().render_str(printable(text, KEPT), **options)

    def say(self, sentence: str) -> None:
        """Something that a person should know, in one line however long it is."""
        self.print(f"symlight: {sentence}", soft_wrap=True)
