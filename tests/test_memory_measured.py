"""The account against the real engine: bytes of all live tensors, the peak of each phase, and the files on a drive."""

from __future__ import annotations

import pytest

from proof.engine import Engine, async_io_available
from proof.memory import Case, case, disagreements

WIDE = {"data_types": {"grad_accum_dtype": "fp32"}}
CASES = [
    case(0, precision="fp32", ranks=2),
    case(0, optimizer="SGD", frozen="half"),
    case(1, ranks=2),
    case(1, ranks=2, **WIDE),
    case(1, "cpu", optimizer="Lion", frozen="half", ranks=2),
    case(2, precision="fp32", optimizer="SGD", frozen="most", ranks=2),
    case(2, optimizer="Adagrad", ranks=2),
    case(2, "cpu", ranks=2, gradient_accumulation_steps=2),
    case(3, ranks=2, stage3_gather_16bit_weights_on_model_save=True),
    case(3, precision="fp32", frozen="most"),
    case(3, "cpu", ranks=2, **WIDE),
    case(3, "both", optimizer="Adagrad", frozen="half", ranks=2),
    *([case(3, "drives", ranks=2)] if async_io_available() else []),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_engine_holds_what_the_account_says(case: Case, engine: Engine) -> None:
    assert list(disagreements(case, engine)) == []
