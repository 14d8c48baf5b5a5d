"""Types that change under the prepared statements of drivers in Python: the drivers come to right values, as directly."""
import pytest

from support import type_changes


@pytest.mark.parametrize("driver", type_changes.IN_PYTHON)
def test_drivers(scene, postgres, authority, driver):
    type_changes.check_all(scene, postgres, authority, type_changes.IN_PYTHON[driver])
