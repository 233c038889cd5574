import pytest

from tune_media import selection
from tune_media.recording.choosing import RESERVED
from tune_media.recording.plan import Plan


@pytest.mark.parametrize("name", sorted(RESERVED))
def test_a_selector_cannot_have_a_name_that_the_result_needs(name):
    with pytest.raises(ValueError, match=f"a selector cannot be named '{name}'"):
        Plan("episodes", (selection.best(name=name),))
