"""Registry of methods, datasets, encoders and stores: names to classes, which are imported when first used.

Other packages register theirs through entry points: with ``[project.entry-points."sight.methods"] mine = "mine:Mine"``
a method can be used wherever a built-in one can.
"""

from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any

from sight._util.text import choices
from sight.params import check_names, parse

#: Default method of every command.
RECOMMENDED = "keel"

#: Named sets of hyper-parameters: a method's published ones, which are the defaults of its class with thresholds as
#: shares of ln K (EATA, OFTTA and T3A state where not), and those of the SIGHT paper.
PRESETS = ("authors", "sight-paper")

TABLES: dict[str, dict[str, str]] = {
    "methods": {
        "none": "sight.methods.none:SourceOnly",
        "ema": "sight.methods.ema:EMA",
        "sticky": "sight.methods.sticky:Sticky",
        "sticky-learned": "sight.methods.sticky:StickyLearned",
        "sight": "sight.methods.sight:SIGHT",
        "keel": "sight.methods.keel:Keel",
        "keel-norm": "sight.methods.keel_norm:KeelNorm",
        "tent": "sight.methods.tent:TENT",
        "note": "sight.methods.note:NOTE",
        "sar": "sight.methods.sar:SAR",
        "rotta": "sight.methods.rotta:RoTTA",
        "accup": "sight.methods.accup:ACCUP",
        "coa-har": "sight.methods.coa_har:COAHAR",
        "rem": "sight.methods.rem:REM",
        "cotta": "sight.methods.cotta:CoTTA",
        "eata": "sight.methods.eata:EATA",
        "t3a": "sight.methods.t3a:T3A",
        "lame": "sight.methods.lame:LAME",
        "oatta": "sight.methods.oatta:OATTA",
        "oftta": "sight.methods.oftta:OFTTA",
        "tca": "sight.methods.tca:TCA",
    },
    "datasets": {
        "synthetic": "sight.datasets.synthetic:Synthetic",
        "harth": "sight.datasets.harth:HARTH",
        "har70plus": "sight.datasets.harth:HAR70plus",
        "capture24": "sight.datasets.capture24:Capture24",
        "uschad": "sight.datasets.uschad:USCHAD",
        "ucihar": "sight.datasets.ucihar:UCIHAR",
        "hapt": "sight.datasets.hapt:HAPT",
        "hugadb": "sight.datasets.hugadb:HuGaDB",
        "wisdm2019": "sight.datasets.wisdm2019:WISDM2019",
        "extrasensory": "sight.datasets.extrasensory:ExtraSensory",
        "npz": "sight.recordings.npz_recordings:Npz",
        "folder": "sight.recordings.recording_folder:Folder",
    },
    "encoders": {
        "cnn": "sight.models.encoders.cnn:CNN",
        "resnet": "sight.models.encoders.resnet:ResNet",
        "transformer": "sight.models.encoders.transformer:Transformer",
        "mlp": "sight.models.encoders.mlp:MLP",
    },
    "stores": {
        "sqlite": "sight.apps.serve.sqlite_store:SqliteStore",
        "redis": "sight.apps.serve.redis_store:RedisStore",
        "rediss": "sight.apps.serve.redis_store:RedisStore",
        "unix": "sight.apps.serve.redis_store:RedisStore",
    },
}


def names(kind: str) -> tuple[str, ...]:
    """Return the registered names of a kind ("methods", "datasets", "encoders", "stores"), built-in ones first."""
    return tuple(_table(kind))


def get(kind: str, name: str) -> Any:
    """Import and return the class registered under a name; case does not matter."""
    table = _table(kind)
    target = table.get(name.lower())
    if target is None:
        raise ValueError(f"There is no {kind[:-1]} called {name!r}; {choices(name.lower(), table)}")
    cls = resolve(target)
    if not hasattr(cls, "name"):
        raise ValueError(f'{target} has no name; write name: ClassVar[str] = "{name.lower()}" in the class.')
    return cls


def resolve(target: str) -> Any:
    """Import and return the object that a text ``module:name`` refers to."""
    module, _, attribute = target.partition(":")
    return getattr(import_module(module), attribute)


def supporting(capability: str) -> tuple[str, ...]:
    """Return the methods that can be imported and declare a capability, such as "many" or "change_trace"."""
    able = []
    for name in names("methods"):
        with suppress(ModuleNotFoundError):
            able += [name] if getattr(get("methods", name), capability, None) else []
    return tuple(able)


def method(name: str, preset: str | None = None, assignments: Iterable[str] = (), **fields: Any) -> Any:
    """Return an adapter by name.

    Parameters
    ----------
    name
        Name of the method; case does not matter.
    preset
        A named set of hyper-parameters, "authors" or "sight-paper"; `assignments` and `fields` override it.
    assignments
        Hyper-parameters as texts KEY=VALUE, as on the command line.
    fields
        Hyper-parameters.

    Raises
    ------
    ValueError
        If there is no such method, or it has no such hyper-parameter; the message lists those it has.

    Examples
    --------
    >>> method("ema", a=0.5)
    EMA(a=0.5, gap_half_life_s=30.0)
    """
    cls = get("methods", name)
    fields = parse(cls, assignments) | fields
    if preset is not None:
        if preset not in PRESETS:
            raise ValueError(f"There is no preset called {preset!r}; {choices(preset, PRESETS)}")
        fields = {**cls.presets.get(preset, {}), **fields}
    check_names(cls, fields)
    return cls(**fields)


def _table(kind: str) -> dict[str, str]:
    if kind not in TABLES:
        raise ValueError(f"There is no kind {kind!r}; {choices(kind, TABLES)}")
    built_in = TABLES[kind]
    return built_in | {name: target for name, target in _installed(kind).items() if name not in built_in}


@cache
def _installed(kind: str) -> dict[str, str]:
    """Return the names that other packages register; the search takes about 20 ms, hence the cache."""
    return {entry.name.lower(): entry.value for entry in entry_points(group=f"sight.{kind}")}
