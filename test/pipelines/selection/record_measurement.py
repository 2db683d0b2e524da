"""Records measurements, for lit: FILE, then PROBLEM KEY IMPLEMENTATION SECONDS, IMPLEMENTATION as JSON."""

from __future__ import annotations

import json
import sys

from iree.winograd.passes.match.convolutions.problem import ConvolutionProblem
from iree.winograd.pipelines.selection.implementation import implementation_from_record
from iree.winograd.pipelines.selection.tuning_database import Measurement, TuningDatabase

path, *fields = sys.argv[1:]
with TuningDatabase(path, report=sys.exit) as database:
    for problem, key, implementation, seconds in zip(*[iter(fields)] * 4, strict=True):
        measured = implementation_from_record(json.loads(implementation))
        measurement = Measurement(measured, float(seconds), 0.0, 1)
        database.record(ConvolutionProblem.parse(problem), key, [measurement])
