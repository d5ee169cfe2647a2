"""Lists of experiments on settings, from ``configs/experiment_lists.toml``, and the part that can run here."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, NamedTuple

from sight.apps.bench.experiment_files import check_name
from sight.apps.bench.experiments import CONFIGS, load_experiment, narrow, split_names
from sight.apps.bench.preflight import check
from sight.apps.bench.settings import load_setting, setting_group
from sight.apps.bench.trials import Experiment, Setting


@dataclass(frozen=True, kw_only=True)
class ExperimentList:
    """Experiments with the settings that each runs on."""

    name: str
    title: str
    runs: tuple[tuple[str, str], ...]  # names of experiment and setting
    replacements: Mapping[str, str]  # setting without data to the setting that takes its place

    @property
    def settings(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(setting for _, setting in self.runs))


class PlannedRun(NamedTuple):
    """An experiment on a setting whose data are available."""

    experiment: Experiment
    setting: Setting


@dataclass(kw_only=True)
class Selection:
    """Runs of a list that are possible with the data at hand."""

    runs: list[PlannedRun] = field(default_factory=list)
    #: Setting, and what is missing and how to get it, to the experiments that are left out.
    missing: dict[tuple[str, str], list[str]] = field(default_factory=dict)
    replaced: dict[str, str] = field(default_factory=dict)  # setting to the one that takes its place


@cache
def _tables() -> dict[str, Any]:
    return tomllib.loads((CONFIGS / "experiment_lists.toml").read_text("utf-8"))


def experiment_lists() -> tuple[str, ...]:
    return tuple(_tables())


def load_list(name: str) -> ExperimentList:
    check_name(name, experiment_lists(), "list of experiments")
    table = _tables()[name]
    runs = tuple(
        (experiment, setting)
        for experiment, names in table["runs"].items()
        for name in names
        for setting in (setting_group(name) or (name,))
    )
    return ExperimentList(name=name, title=table["title"], runs=runs, replacements=table.get("replacements", {}))


def select(
    listed: ExperimentList,
    *,
    setting: str | None = None,
    methods: str | None = None,
    seeds: list[int] | None = None,
    limit: int | None = None,
) -> Selection:
    """Return the runs of a list for which there are data, and which settings lack them.

    `setting` keeps the runs on one setting. `methods` keeps some methods of each experiment, and leaves out experiments
    with none of them; `seeds` and `limit` are as for one experiment.
    """
    if setting is not None:
        check_name(setting, listed.settings, f"setting of {listed.name}")
    plans = _experiments(listed, methods, seeds)
    found = Selection()
    for experiment, name in listed.runs:
        if experiment in plans and setting in (None, name):
            _add(found, plans[experiment], name, listed.replacements.get(name), limit)
    return found


def _experiments(listed: ExperimentList, methods: str | None, seeds: list[int] | None) -> dict[str, Experiment]:
    """Return the experiments of a list by name; those without any of the methods are left out."""
    plans = {name: load_experiment(name) for name in dict.fromkeys(experiment for experiment, _ in listed.runs)}
    if methods is None:
        return {name: narrow(plan, None, seeds) for name, plan in plans.items()}
    every = tuple(variant for plan in plans.values() for variant in plan.variants)
    asked = split_names(methods, replace(next(iter(plans.values())), variants=every))
    for name in asked:
        check_name(name, tuple(dict.fromkeys(text for v in every for text in (v.method, v.label))), "method")
    names = {name: {text for v in plan.variants for text in (v.method, v.label)} for name, plan in plans.items()}
    kept = {name: [text for text in asked if text in names[name]] for name in plans}
    return {name: narrow(plan, kept[name], seeds) for name, plan in plans.items() if kept[name]}


def _add(found: Selection, plan: Experiment, name: str, replacement: str | None, limit: int | None) -> None:
    """Add a run to a selection: on the setting, else on its replacement; else add what is missing."""
    reasons = []
    for candidate in filter(None, (name, replacement)):
        try:
            setting = load_setting(candidate, pairs=plan.pairs, limit=limit)
            check(plan, setting)
        except ValueError as error:
            reasons.append(str(error))
            continue
        if candidate != name:
            found.replaced[name] = candidate
        found.runs.append(PlannedRun(plan, setting))
        return
    found.missing.setdefault((name, reasons[0]), []).append(plan.name)
