"""References to recordings that are not read yet: files, folders of files, and subjects of datasets."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sight import params, registry


@dataclass(frozen=True, kw_only=True)
class RecordingRef:
    """Reference to the recording of a subject: one or more files, or a subject of a dataset."""

    name: str  # for results and messages
    path: Path | None = None  # None for a subject of a dataset
    others: tuple[Path, ...] = ()  # further files of the same subject
    dataset: str = ""  # registry name; empty for files
    subject: str = ""
    content: Any = field(default=None, compare=False)  # pyarrow table, instead of the file at `path`

    @property
    def files(self) -> tuple[Path, ...]:
        return () if self.path is None else (self.path, *self.others)

    @property
    def file_names(self) -> str:
        return ", ".join(path.name for path in self.files)


def find_recordings(
    targets: str | Path | Sequence[str | Path], *, subject: str = "", separate: bool = False
) -> list[RecordingRef]:
    """List the recordings behind one or more targets: files, folders, or ``dataset:subject``.

    A file is one recording. A folder has one recording for each readable file in it, and one for each folder below it,
    whose files are joined unless they are `separate`. `subject` joins all files into one recording of this subject.
    """
    several = [targets] if isinstance(targets, str | Path) else list(targets)
    refs = [ref for target in several for ref in _behind(target, separate)]
    if subject:
        files = [file for ref in refs for file in ref.files]
        if len(files) < len(refs) or not files:
            raise ValueError(f"Expected files to join as subject {subject!r}, got subjects of datasets.")
        return [RecordingRef(name=subject, path=files[0], others=tuple(files[1:]), subject=subject)]
    twice = [name for name, count in Counter(ref.name for ref in refs).items() if count > 1]
    if twice and len(several) > 1:
        raise ValueError(
            f"Two recordings are named {twice[0]!r}; join the files of one subject with --subject NAME, or rename one."
        )
    return refs


def find_recording(target: str | Path | Sequence[str | Path]) -> RecordingRef:
    """Return the only recording behind a target, else raise ValueError; several files are joined."""
    several = [] if isinstance(target, str | Path) else list(target)
    refs = find_recordings(target, subject=_stem(Path(several[0])) if len(several) > 1 else "")
    if len(refs) != 1:
        raise ValueError(f"Expected one recording, got {len(refs)} in {target}; name one of them.")
    return refs[0]


def dataset_recordings(name: str, options: Mapping[str, Any]) -> list[RecordingRef]:
    subjects = open_dataset(name, options).subjects()
    return [RecordingRef(name=f"{name.lower()}-{who}", dataset=name.lower(), subject=who) for who in subjects]


def open_dataset(
    name: str, options: Mapping[str, Any], labels: Path | None = None, reading: Mapping[str, Any] | None = None
) -> Any:
    """Return a dataset by registry name with field values, or that of a user's folder with its map.

    Without `labels`, the map is ``MAP.toml`` in the folder; `reading` are reading options that override it.
    """
    if not Path(name).is_dir():
        if reading:
            raise ValueError(
                f"{next(iter(reading))} applies to a folder of your own files, but {name!r} is no folder; leave it out."
            )
        cls = registry.get("datasets", name)
        return cls(**params.parse(cls, [f"{key}={value}" for key, value in options.items()]))
    from sight.recordings.recording_collection import load

    own = {} if labels is None else {"labels": labels}
    return load("folder", **{"root": Path(name), **options, **own, **({"reading": reading} if reading else {})})


def find_subject(dataset: Any, text: str) -> str:
    """Return the subject with this name, or the only one whose name starts with it."""
    subjects: tuple[str, ...] = dataset.subjects()
    if text in subjects:
        return text
    matches = [name for name in subjects if name.lower().startswith(text.lower())]
    if len(matches) == 1:
        return matches[0]
    hint = f"it could be {', '.join(matches)}" if matches else f"subjects are {', '.join(subjects)}"
    raise ValueError(f"{dataset.name} has no subject {text!r}; {hint}.")


def _behind(target: str | Path, separate: bool) -> list[RecordingRef]:
    path = Path(target)
    if path.is_file():
        return [RecordingRef(name=_stem(path), path=path)]
    if path.is_dir():
        return _files_below(path, separate)
    name, colon, subject = str(target).partition(":")
    if colon and name.lower() in registry.names("datasets"):
        return [RecordingRef(name=f"{name.lower()}-{subject}", dataset=name.lower(), subject=subject)]
    raise ValueError(
        f"There is no file or folder {str(target)!r}; give a path, or a subject of a dataset such as synthetic:W01 "
        f"(datasets: {', '.join(registry.names('datasets'))})."
    )


def _files_below(folder: Path, separate: bool) -> list[RecordingRef]:
    """List the recordings below a folder, named after their relative path; equal names keep their suffix."""
    suffixes = _suffixes()
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name.lower().endswith(suffixes))
    if not files:
        raise ValueError(f"There is no recording in {folder}; expected files that end with {', '.join(suffixes)}.")
    groups: dict[Path, list[Path]] = {}
    for path in files:
        # An .npz holds the windows of a whole subject.
        alone = separate or path.parent == folder or path.suffix.lower() == ".npz"
        groups.setdefault(path if alone else path.parent, []).append(path)
    parts = [key.relative_to(folder).parts for key in groups]
    names = ["-".join((*above, _stem(Path(own)))) for *above, own in parts]
    return [
        RecordingRef(name=name if names.count(name) == 1 else "-".join(whole), path=first, others=tuple(others))
        for name, whole, (first, *others) in zip(names, parts, groups.values(), strict=True)
    ]


def _suffixes() -> tuple[str, ...]:
    from sight.recordings.recording_files import READABLE

    return (*READABLE, ".npz")


def _stem(path: Path) -> str:
    suffix = max((s for s in _suffixes() if path.name.lower().endswith(s)), key=len, default="")
    return path.name[: len(path.name) - len(suffix)] or path.name
