"""The one line with which a call is refused."""

import pytest

from simlab.errors import InputError


def refusal(call, *arguments, **named):
    """The one line with which a call is refused."""
    with pytest.raises(InputError) as error:
        call(*arguments, **named)
    assert "\n" not in str(error.value)
    return str(error.value)
