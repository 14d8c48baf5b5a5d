"""Every test here wants the optimised binary."""
import os
import pathlib

import pytest

HERE = pathlib.Path(__file__).parent


def pytest_collection_modifyitems(items):
    if os.environ.get("PGWEIR_FAST"):
        return
    skip = pytest.mark.skip(reason="PGWEIR_FAST names no optimised binary without sanitizers (test/run.sh builds one)")
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(skip)
