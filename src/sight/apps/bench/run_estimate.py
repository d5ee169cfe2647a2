"""Estimate of runs before they start: source models, rows and hours of computing.

The windows of all subjects are counted, which also stores them for the runs; seconds per window are measured on this
machine (`sight.apps.bench.run_timing`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from sight._util.parallel import map_unordered
from sight.apps.bench.experiment_lists import PlannedRun
from sight.apps.bench.run_timing import Network, Seconds, measure
from sight.apps.bench.settings import make_dataset
from sight.apps.bench.trial_rows import canonical_json
from sight.apps.bench.trials import Setting, Trial, Variant, model_identity, setting_of, trials

OnDone: TypeAlias = Callable[[int, str], None]


class SubjectSize(NamedTuple):
    """Windows of a subject, and their shape; an `error` if the subject cannot be read."""

    windows: int = 0
    labelled: int = 0
    channels: int = 0
    length: int = 0
    error: str = ""


#: Sizes by the data of a setting (`_data_key`) and subject.
Sizes: TypeAlias = dict[tuple[str, str], SubjectSize]


@dataclass(frozen=True, kw_only=True)
class RunCost:
    """Work of an experiment on a setting, without what an earlier run of the plan computes too."""

    experiment: str
    setting: str
    models: int
    rows: int
    training_s: float  # of one process
    methods_s: float


class Work(NamedTuple):
    """New work of a run: a trial for each source model, and the trials with their methods."""

    run: PlannedRun
    models: list[Trial]
    trials: list[tuple[Trial, list[Variant]]]


def processes(engine: str, jobs: int | None) -> int:
    """Return the number of processes of an engine; 1 for a cluster, whose size is not known here."""
    if engine == "loky":
        import joblib

        return jobs or int(joblib.cpu_count())
    count = engine.removeprefix("dask:local:")
    return max(1, int(count)) if count.isdigit() else 1


def subjects_to_read(runs: Sequence[PlannedRun]) -> list[tuple[Setting, str]]:
    """Return each subject of the runs once, with a setting that has its data."""
    found: dict[tuple[str, str], tuple[Setting, str]] = {}
    for _, setting in runs:
        for sources, target in setting.pairs:
            for subject in (*(() if setting.model else sources), target):
                found.setdefault((_data_key(setting), subject), (setting, subject))
    return list(found.values())


def count_windows(
    runs: Sequence[PlannedRun], *, engine: str = "loky", jobs: int | None = None, on_done: OnDone | None = None
) -> Sizes:
    """Count the windows of all subjects of the runs; they are stored, so that the runs do not read them again.

    Raises ValueError if no subject of a dataset can be read.
    """
    wanted, found = subjects_to_read(runs), {}
    for done, (at, size) in enumerate(map_unordered(_subject_size, wanted, engine, jobs), start=1):
        setting, subject = wanted[at]
        found[_data_key(setting), subject] = size
        if on_done:
            on_done(done, setting.dataset)
    for data in {data for data, _ in found}:
        own = [size for (key, _), size in found.items() if key == data]
        if all(size.error for size in own):
            raise ValueError(own[0].error)
    return found


def estimate(
    runs: Sequence[PlannedRun], sizes: Sizes, *, device: str = "cpu", on_done: OnDone | None = None
) -> list[RunCost]:
    """Return the work of each run; `on_done` is called with the number of networks measured."""
    works = _new_work(runs)
    methods: dict[Network, dict[str, Variant]] = {}
    for work in works:
        for trial, variants in work.trials:
            network = _network(work.run.setting, trial, sizes)
            methods.setdefault(network, {}).update((variant.method, variant) for variant in variants)
    seconds = {}
    for done, (network, named) in enumerate(methods.items(), start=1):
        seconds[network] = measure(network, named.values(), device=device)
        if on_done:
            on_done(done, network.encoder)
    return [_cost(work, sizes, seconds) for work in works]


def _data_key(setting: Setting) -> str:
    return canonical_json((setting.dataset, setting.options, setting.windowing))


def _subject_size(setting: Setting, subject: str) -> SubjectSize:
    from sight.datasets import load, windows_of

    try:
        windows = windows_of(load(setting.dataset, **setting.options), subject, **setting.windowing)
    except Exception as error:  # such as a damaged file: its rows fail, the others are computed
        return SubjectSize(error=f"{setting.dataset} {subject}: {' '.join(str(error).split())}")
    return SubjectSize(len(windows), int((windows.label >= 0).sum()), *windows.x.shape[1:])


def _new_work(runs: Sequence[PlannedRun]) -> list[Work]:
    """Return the work of each run that no earlier run has: runs share source models and rows."""
    models: set[str] = set()
    rows: set[str] = set()

    def is_new(seen: set[str], *parts: object) -> bool:
        key = canonical_json(parts)
        return not (key in seen or seen.add(key))  # type: ignore[func-returns-value]

    works = []
    for run in runs:
        experiment, setting = run
        work = Work(run, [], [])
        data = (_data_key(setting), setting.batch, setting.model)
        for trial in trials(experiment, setting):
            model = model_identity(trial, experiment, setting)
            if not setting.model and is_new(models, data, model):
                work.models.append(trial)
            row = (data, model, trial, experiment.kind)
            own = [v for v in experiment.variants if is_new(rows, row, *_identity(v))]
            if own:
                work.trials.append((trial, own))
        works.append(work)
    return works


def _identity(variant: Variant) -> tuple[object, ...]:
    return variant.method, variant.adapter().params(), variant.lag


def _network(setting: Setting, trial: Trial, sizes: Sizes) -> Network:
    data = _data_key(setting)
    size = next(size for (key, _), size in sizes.items() if key == data and not size.error)
    classes = len(make_dataset(setting.dataset, setting.options, setting.name).classes)
    encoder = setting.encoder if setting.model else trial.encoder
    return Network(encoder=encoder, channels=size.channels, length=size.length, classes=classes)


def _cost(work: Work, sizes: Sizes, seconds: dict[Network, Seconds]) -> RunCost:
    (experiment, setting), data = work.run, _data_key(work.run.setting)
    training_s = methods_s = 0.0
    for trial in work.models:
        labelled = sum(sizes[data, subject].labelled for subject in trial.sources)
        training_s += (
            setting_of(trial, experiment, setting).epochs * labelled * seconds[_network(setting, trial, sizes)].epoch
        )
    for trial, variants in work.trials:
        each = seconds[_network(setting, trial, sizes)]
        window_s = each.encode + sum(each.methods[variant.method] for variant in variants)
        methods_s += sizes[data, trial.target].windows * window_s
    return RunCost(
        experiment=experiment.name,
        setting=setting.name,
        models=len(work.models),
        rows=sum(len(variants) for _, variants in work.trials),
        training_s=training_s,
        methods_s=methods_s,
    )
