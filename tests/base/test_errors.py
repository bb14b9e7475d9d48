"""base.errors: a sentence about a file steers no terminal."""

from symlight.base.errors import UserError


def test_names_out_of_files_are_escaped():
    error = UserError("a\x1b[31m\x9b\u202e\ud800 is wrong\nin two lines\tof ü")
    assert str(error) == "a\\x1b[31m\\x9b\\u202e\\ud800 is wrong\nin two lines\tof ü"
