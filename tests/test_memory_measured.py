"""The account against the real engine: bytes of all live tensors, and the peak of every phase."""

from __future__ import annotations

import pytest

from proof.engine import Engine
from proof.memory import Case, case, disagreements

CASES = [
    case(0, precision="fp32", ranks=2),
    case(0, frozen="half", ranks=2),
    case(0, optimizer="SGD"),
    case(1, ranks=2),
    case(1, ranks=2, data_types={"grad_accum_dtype": "fp32"}),
    case(1, "cpu", optimizer="Lion", frozen="half", ranks=2),
    case(2, ranks=2, frozen="most"),
    case(2, precision="fp32", optimizer="SGD", ranks=2),
    case(2, optimizer="Adagrad", ranks=2),
    case(2, "cpu", ranks=2),
    case(3, ranks=2),
    case(3, precision="fp32"),
    case(3, frozen="most", ranks=2),
    case(3, "cpu", ranks=2),
    case(3, "both", optimizer="Adagrad", ranks=2),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_engine_holds_what_the_account_says(case: Case, engine: Engine) -> None:
    assert list(disagreements(case, engine)) == []
