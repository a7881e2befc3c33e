"""The corpus: broken programs with their fixed twins, and correct programs that look broken."""

from __future__ import annotations

from typing import Final

from tests.diagnosis.cases_data import DATA
from tests.diagnosis.cases_limits import LIMITS
from tests.diagnosis.cases_modes import MODES
from tests.diagnosis.cases_numbers import NUMBERS
from tests.diagnosis.cases_outcomes import OUTCOMES
from tests.diagnosis.cases_right import RIGHT
from tests.diagnosis.cases_structure import STRUCTURE
from tests.diagnosis.cases_training import TRAINING

BROKEN: Final = (*TRAINING, *NUMBERS, *DATA, *OUTCOMES, *STRUCTURE, *LIMITS, *MODES)

__all__ = ["BROKEN", "RIGHT"]
