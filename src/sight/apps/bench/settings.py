"""Settings (datasets with source and target subjects) from TOML files: those of the package, and users' own."""

import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

from sight import registry
from sight.apps.bench import experiment_files
from sight.apps.bench.experiment_files import check_keys, check_name
from sight.apps.bench.trials import Pair, Setting
from sight.models.card import require_card
from sight.models.load import load

#: Group of settings that tables over several settings report.
MAIN_GROUP = "main"
KEYS = (
    *("short_name", "group", "dataset", "options", "windowing", "pairs", "detailed", "sources", "encoder"),
    *("model", "epochs", "batch", "use_gaps", "orders", "sedentary", "standing", "free_living"),
    *("paper", "paper_subject"),
)


@cache
def _tables() -> dict[str, Any]:
    return tomllib.loads((resources.files("sight.apps.bench") / "configs" / "settings.toml").read_text("utf-8"))


def settings() -> tuple[str, ...]:
    return tuple(_tables())


def setting_group(name: str = MAIN_GROUP) -> dict[str, str]:
    return {setting: table["short_name"] for setting, table in _tables().items() if table.get("group") == name}


def short_name(name: str) -> str:
    """Return the short name of a setting; the name itself for a user's own."""
    return str(_tables().get(name, {}).get("short_name", name))


def load_setting(
    name: str, *, pairs: str = "main", limit: int | None = None, model: str | Path | None = None
) -> Setting:
    """Read a setting by name, or from a user's TOML file.

    A setting lists ``pairs`` such as "1+2->5", or ``sources``, each of which is paired with every other subject: "3" is
    one subject, "1+2+5" are three, "3..7" is a range in the dataset's order. `pairs` "detailed" selects the detailed
    pairs of a setting that has them; `limit` is the number of pairs to keep. A trained `model` replaces training, and
    the key ``model`` of a TOML file; targets are those of the pairs that its card does not list as training subjects.
    """
    path = Path(name)
    if path.suffix == ".toml":
        name, table = path.stem, experiment_files.read(path)
    else:
        check_name(name, settings(), "setting")
        table = dict(_tables()[name])
    where = f"Setting {name}"
    check_keys(table, KEYS, where)
    dataset, options = experiment_files.require(table, "dataset", where), table.get("options", {})
    made = make_dataset(dataset, options, where)
    main, detailed, sources = (experiment_files.get_list(table, key, where) for key in ("pairs", "detailed", "sources"))
    listed = detailed if detailed and pairs == "detailed" else main
    if not listed and not sources:
        raise ValueError(f'{where}: no subjects; add pairs = ["1->2"] or sources = ["1"].')
    found = [_pair(text, where) for text in listed] or list(_all_pairs(sources, subjects_of(made)))
    own = str(model or (path.parent / table["model"] if table.get("model") else ""))
    if own:
        found = list(_own_pairs(own, dataset, dict.fromkeys(target for _, target in found)))
    kept = (
        *("windowing", "encoder", "epochs", "batch", "use_gaps", "orders", "standing", "free_living"),
        *("paper", "paper_subject"),
    )
    return Setting(
        name=name,
        dataset=dataset,
        options=options,
        pairs=tuple(found[:limit]),
        crossed=not listed,
        model=str(Path(own).resolve()) if own else "",
        sedentary=tuple(experiment_files.get_list(table, "sedentary", where)),
        **{key: table[key] for key in kept if key in table},
    )


def count_pairs(name: str, pairs: str = "main") -> int | None:
    """Return the number of pairs that a setting of the package lists; None if they depend on the data."""
    table = _tables().get(name, {})
    listed = (table.get("detailed") if pairs == "detailed" else None) or table.get("pairs")
    return len(listed) if listed else None


def make_dataset(name: str, options: Mapping[str, Any], where: str) -> Any:
    """Create a dataset without looking for its files; raise ValueError for unknown options."""
    cls: Any = registry.get("datasets", name)
    try:
        if hasattr(cls, "__dataclass_fields__"):
            experiment_files.check_fields(cls, options)
        return cls(**options)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{where}: {error}") from None


def subjects_of(dataset: Any) -> tuple[str, ...]:
    """Return the subjects of a dataset; raise ValueError, with how to get its files, if they are missing."""
    try:
        return tuple(dataset.subjects())
    except ValueError as error:
        fetch = f" Or download it: sight data fetch {dataset.name}" if getattr(dataset, "downloads", ()) else ""
        raise ValueError(f"{error}{fetch}") from None


class SettingSummary(NamedTuple):
    """A setting as ``sight bench list`` prints it."""

    dataset: str
    pairs: str
    paper: str
    subjects: str


def describe(name: str) -> SettingSummary:
    """Return dataset, pairs, the paper's dataset, and the number of subjects on this machine."""
    table = _tables()[name]
    options = table.get("options", {})
    with_options = f" ({', '.join(f'{key} {value}' for key, value in options.items())})" if options else ""
    try:
        subjects = str(len(subjects_of(make_dataset(table["dataset"], options, name))))
    except ValueError:
        subjects = "-"
    return SettingSummary(f"{table['dataset']}{with_options}", _describe_pairs(table), table.get("paper", ""), subjects)


def _describe_pairs(table: Mapping[str, Any]) -> str:
    if "sources" not in table:
        more = f", {len(table['detailed'])} detailed" if "detailed" in table else ""
        return f"{len(table['pairs'])} pairs{more}"
    pooled = any(sign in text for text in table["sources"] for sign in ("+", ".."))
    return f"{len(table['sources'])} {'pooled' if pooled else 'single'} sources, all other subjects"


def _pair(text: str, where: str) -> Pair:
    sources, arrow, target = text.partition("->")
    if not arrow or not sources or not target:
        raise ValueError(f"{where}: expected a pair such as '1+2->5', got {text!r}; write sources, an arrow, a target.")
    if target in sources.split("+"):
        raise ValueError(f"{where}: in {text!r} the target is also a source; choose another subject.")
    return tuple(sources.split("+")), target


def _all_pairs(sources: Sequence[str], subjects: Sequence[str]) -> Iterator[Pair]:
    for text in sources:
        group = select_subjects(text, subjects)
        yield from ((group, target) for target in subjects if target not in group)


def _own_pairs(model: str, dataset: str, targets: Iterable[str]) -> Iterator[Pair]:
    """Yield a pair for each target that a model was not trained on; raise ValueError if there is none."""
    card = require_card(load(model), model)
    trained_on = card.training.get("subjects", ()) if card.dataset == dataset else ()
    found = [((Path(model).stem,), target) for target in targets if target not in trained_on]
    if not found:
        raise ValueError(f"{model}: was trained on every target of the setting; train it on other subjects.")
    yield from found


def select_subjects(text: str, subjects: Sequence[str]) -> tuple[str, ...]:
    """Return the subjects named by a text such as "3", "1+2" or "2..4"."""
    first, dots, last = text.partition("..")
    named = (first, last) if dots else tuple(text.split("+"))
    for subject in named:
        check_name(subject, subjects, "subject")
    if not dots:
        return named
    low, high = (list(subjects).index(end) for end in named)
    return tuple(subjects[low : high + 1])
