"""The schedule to try next, from how those tried so far fared: a tree-structured Parzen estimator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from iree.winograd.errors import InvalidOptionError
from iree.winograd.pipelines.backends.schedules import schedule_record
from iree.winograd.pipelines.selection.implementation import Implementation


def sample_schedules(
    choices: Sequence[Implementation], seconds: Mapping[Implementation, float], count: int
) -> list[Implementation]:
    """Up to `count` of `choices`, all of one algorithm, that aren't in `seconds`, what others took.

    The estimator knows fields of schedules one by one; of what it asks for the most similar choice is taken.
    """
    optuna = require_optuna()
    records = {choice: schedule_record(choice.schedule) for choice in [*choices, *seconds]}
    # A field is absent where it has no value.
    names = sorted({name for record in records.values() for name in record})
    values = {
        name: sorted({record.get(name) for record in records.values()}, key=_sort_key) for name in names
    }
    varied = [name for name in names if len(values[name]) > 1]
    distributions = {name: optuna.distributions.CategoricalDistribution(values[name]) for name in varied}
    sampler = optuna.samplers.TPESampler(seed=len(seconds), n_startup_trials=0, multivariate=True)
    study = optuna.create_study(sampler=sampler)
    for implementation, time in seconds.items():
        parameters = {name: records[implementation].get(name) for name in varied}
        study.add_trial(optuna.trial.create_trial(params=parameters, distributions=distributions, value=time))
    untried = [choice for choice in choices if choice not in seconds]
    sampled: list[Implementation] = []
    while untried and len(sampled) < count:
        wanted = study.ask(fixed_distributions=distributions).params
        nearest = max(
            untried, key=lambda choice: sum(records[choice].get(name) == wanted[name] for name in varied)
        )
        sampled.append(nearest)
        untried.remove(nearest)
    return sampled


def require_optuna() -> Any:
    """Optuna, told to be quiet. Raises `InvalidOptionError` where it isn't installed."""
    try:
        import optuna
    except ImportError as error:
        raise InvalidOptionError(
            f"tuning needs more packages (`pip install iree-winograd[tune]`): {error}"
        ) from None
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna


def _sort_key(value: object) -> tuple[bool, str, int]:
    return (
        value is None,
        str(value) if isinstance(value, str) else "",
        value if isinstance(value, int) else 0,
    )
