"""The one exception type whose message is written for the person at the terminal."""


class UserError(Exception):
    """Bad input or surroundings: the message names the file or value and says what to do.

    The command line prints it as one sentence and exits with a non-zero code; everything else that
    escapes is a defect of symlight.
    """
