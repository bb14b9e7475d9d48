"""base.optional: what is there is given on, and nothing else."""

import pytest

from symlight.base.optional import present

pytestmark = pytest.mark.timeout(60)


@pytest.mark.parametrize("value", [0, "", [], False])
def test_what_is_there_is_given_on_even_when_it_is_empty(value):
    assert present(value) is value


def test_a_missing_value_is_a_mistake_of_the_program():
    with pytest.raises(AssertionError, match="missing"):
        present(None)
