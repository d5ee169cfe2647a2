"""Backup of a service's data folder while the service runs, and its restoration."""

import json
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Any

from sight import __version__
from sight._util.atomic import make_folder, sync, write_json
from sight._util.hashing import file_sha256
from sight.apps.serve.private_files import create_private
from sight.apps.serve.sqlite_store import SCHEMA, check_schema

#: Name of the database in a data folder, of the file that describes a backup, and version of that file.
DATABASE, MANIFEST, FORMAT = "sight.sqlite", "backup.json", 1
#: What is copied beside the database: a file and a folder.
TOKENS, MODELS = _OTHERS = ("tokens.json", "models")
#: Name of a dated backup (UTC), and end of the name of one that is being removed.
DATED, REMOVED = "%Y-%m-%dT%H%M%SZ", ".removed"


def backup(data: Path, out: Path) -> dict[str, Any]:
    """Write a consistent copy of the database, tokens and models of a data folder to a new folder; return its manifest.

    The service may run: what it acknowledged before the call is in the copy, and it is not delayed. Models outside of
    the data folder are not copied. Raises ValueError if there is no database, `out` exists, or the copy is damaged.
    """
    database = data / DATABASE
    if not database.is_file():
        raise ValueError(f"There is no {DATABASE} in {data}; give the --data folder of a service with a SQLite store.")
    if out.exists():
        raise ValueError(f"{out} exists; give a folder that does not.")
    with _staged_folder(out) as draft:
        with closing(sqlite3.connect(f"{database.absolute().as_uri()}?mode=ro", uri=True, timeout=10.0)) as source:
            try:
                _copy_database(source, draft / DATABASE)
            except sqlite3.DatabaseError as error:
                raise ValueError(f"{database} cannot be copied ({error}).") from None
        _copy_others(data, draft)
        manifest = {
            "format": FORMAT,
            "sight_version": __version__,
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            "wearers": _check_database(draft / DATABASE),
            "files": _digests(draft),
        }
        write_json(draft / MANIFEST, manifest).chmod(0o600)
    return manifest


def backup_dated(data: Path, folder: Path, keep: int) -> tuple[Path, dict[str, Any], list[str]]:
    """Write a backup named after the time into a folder, and remove all but the newest `keep` of that folder.

    Returns the path and the manifest of the backup, and the names of those removed. Nothing but backups with such names
    is removed, and nothing if the new one fails.
    """
    out = folder / datetime.now(UTC).strftime(DATED)
    manifest = backup(data, out)
    dated = sorted(path.name for path in folder.iterdir() if _is_dated_backup(path))
    old = dated[:-keep]
    for name in old:
        os.replace(folder / name, folder / f".{name}{REMOVED}")  # no half of it looks like a backup after a kill
    for path in folder.glob(f".*{REMOVED}"):
        shutil.rmtree(path)
    return out, manifest, old


def _is_dated_backup(path: Path) -> bool:
    try:
        datetime.strptime(path.name, DATED)
    except ValueError:
        return False
    return path.is_dir() and not path.is_symlink() and (path / MANIFEST).is_file()


def restore(folder: Path, data: Path) -> dict[str, Any]:
    """Write the files that a backup lists to a new or empty data folder and return the manifest.

    Raises ValueError if `folder` is not a complete backup, a file of it is damaged, a link or not one of a backup, its
    database has anything that a service did not create, or `data` is not empty.
    """
    manifest = _read_manifest(folder)
    if data.exists() and any(data.iterdir()):
        raise ValueError(f"{data} is not empty; restore into a new folder, and move that one when the service stopped.")
    with _staged_folder(data) as draft:
        for name, digest in manifest["files"].items():
            source = folder / name
            if not source.is_file() or source.resolve() != folder.resolve() / name:
                raise ValueError(f"{folder}: {name} is missing or a link; use another backup.")
            _copy_file(source, draft / name)
            if file_sha256(draft / name) != digest:
                raise ValueError(f"{folder}: {name} is damaged; use another backup.")
        _check_database(draft / DATABASE)
    return manifest


@contextmanager
def _staged_folder(path: Path) -> Iterator[Path]:
    """Yield a new folder that only its owner can read; on success it becomes `path`, which is absent or empty."""
    make_folder(path.parent)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}.") as temporary:
        draft = Path(temporary) / "draft"
        draft.mkdir(0o700)
        yield draft
        if path.exists():
            path.rmdir()
        os.replace(draft, path)
        sync(path.parent)


def _copy_database(source: sqlite3.Connection, path: Path) -> None:
    create_private(path)
    with closing(sqlite3.connect(path)) as target:
        source.backup(target)
        target.execute("PRAGMA journal_mode = DELETE")  # one file, without a log beside it
    sync(path)


def _read_manifest(folder: Path) -> dict[str, Any]:
    try:
        manifest: dict[str, Any] = json.loads((folder / MANIFEST).read_bytes())
        version, files, _ = int(manifest["format"]), manifest["files"], (manifest["wearers"], manifest["created"])
        if not isinstance(files, dict):
            raise TypeError("expected an object")
    except (OSError, ValueError, KeyError, TypeError, RecursionError, OverflowError):
        raise ValueError(f"{folder} is not a backup of `sight serve backup`: no readable {MANIFEST}.") from None
    if version > FORMAT:
        raise ValueError(f"{folder} has format {version}, newer than format {FORMAT} of this sight; upgrade sight.")
    foreign = [name for name in files if not _is_backed_up(name)]
    if foreign or DATABASE not in files:
        raise ValueError(
            f"{folder}: expected {DATABASE}, {' and '.join(_OTHERS)} in {MANIFEST}, got {', '.join(files)[:200]}; use "
            f"another backup."
        )
    return manifest


def _is_backed_up(name: str) -> bool:
    """Return whether a name of a manifest is that of a file which `backup` copies, inside of its folder."""
    first, *others = PurePosixPath(name).parts or ("",)
    inside = PurePosixPath(name).as_posix() == name and ".." not in others
    return inside and (name in (DATABASE, TOKENS) or (first == MODELS and bool(others)))


def _check_database(path: Path) -> int:
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as database:
            check_schema(database)
            ((result,), *_) = database.execute("PRAGMA integrity_check(1)").fetchall()
            ((version,),) = database.execute("PRAGMA user_version").fetchall()
            if version > SCHEMA:
                raise sqlite3.DatabaseError(f"tables of version {version}; upgrade sight")
            if result != "ok":
                raise sqlite3.DatabaseError(result)
            return int(database.execute("SELECT COUNT(*) FROM wearers").fetchone()[0])
    except sqlite3.DatabaseError as error:
        raise ValueError(f"{path.name} is damaged ({error}); use another copy.") from None


def _copy_others(source: Path, target: Path) -> None:
    for name in _OTHERS:
        paths = [source / name, *(source / name).rglob("*")] if (source / name).is_dir() else [source / name]
        for path in paths:
            if path.is_file():
                _copy_file(path, target / path.relative_to(source))


def _copy_file(source: Path, target: Path) -> None:
    target.parent.mkdir(0o700, parents=True, exist_ok=True)
    shutil.copyfile(source, target)
    target.chmod(0o600)
    sync(target)


def _digests(folder: Path) -> dict[str, str]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): file_sha256(path) for path in files}
