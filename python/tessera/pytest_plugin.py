# SPDX-License-Identifier: Apache-2.0
"""Fixtures for tests of programs' communication."""
import pytest

from .explain import comm_budget as _comm_budget


@pytest.fixture
def comm_budget():
    """`with comm_budget("1 MB"): step(x)` fails the test where a program moves more."""
    return _comm_budget
