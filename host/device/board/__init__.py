"""A board on a serial line: frames, and the card that the driver sees."""
