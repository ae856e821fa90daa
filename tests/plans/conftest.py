"""Asking the planner as the service and the command line do, without either."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from tonnage.catalog.release import Release
from tonnage.plans.answers import FitInferenceAnswer
from tonnage.plans.fit import answer_fit
from tonnage.plans.requests import FitInferenceRequest

Ask = Callable[[dict[str, Any]], FitInferenceAnswer]


@pytest.fixture
def ask(seed: Release) -> Ask:
    """The answer of the seed catalog to a request in plain JSON values."""

    def answered(request: dict[str, Any]) -> FitInferenceAnswer:
        body = msgspec.json.encode(request)
        return answer_fit(msgspec.json.decode(body, type=FitInferenceRequest, strict=True), seed)

    return answered
