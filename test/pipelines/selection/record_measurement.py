"""Records one measurement, for lit: FILE PROBLEM KEY IMPLEMENTATION SECONDS, the implementation as JSON."""

from __future__ import annotations

import json
import sys

from iree.winograd.passes.match.problem import ConvolutionProblem
from iree.winograd.pipelines.selection.implementation import implementation_from_record
from iree.winograd.pipelines.selection.tuning_database import Measurement, TuningDatabase

path, problem, key, implementation, seconds = sys.argv[1:]
measurement = Measurement(implementation_from_record(json.loads(implementation)), float(seconds), 0.0, 1)
with TuningDatabase(path, report=sys.exit) as database:
    database.record(ConvolutionProblem.parse(problem), key, [measurement])
