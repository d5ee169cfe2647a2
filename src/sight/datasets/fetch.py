"""Download datasets from their official addresses, resumable and verified by hash."""

import shutil
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable
from functools import partial
from http.client import HTTPException
from pathlib import Path
from typing import Any

from sight._util.folder_or_zip import data_folder
from sight.recordings.recording_collection import Dataset, Download
from sight.registry import get

CHUNK_BYTES = 1 << 18
ATTEMPTS = 3
TIMEOUT_S = 60


def fetch(
    name: str, folder: Path | str | None = None, progress: bool = True, echo: Callable[[str], None] = print
) -> tuple[Path, ...]:
    """Download a dataset into the data folder and return its files.

    Existing files are not downloaded again. An interrupted download leaves a ``.part`` file; the next attempt resumes
    it if the server still offers the same file. `echo` is called with each line to show: licence, citation, whether
    the hash was verified.
    """
    dataset: type[Dataset] = get("datasets", name)
    downloads: tuple[Download, ...] = getattr(dataset, "downloads", ())
    if not downloads:
        raise ValueError(f"{name} has no download; it is generated or consists of your own files.")
    folder = Path(folder) if folder is not None else data_folder()
    echo(f"{dataset.title}, version {dataset.version}")
    echo(f"Licence: {dataset.licence}")
    echo(f"Please cite: {dataset.citation}")
    echo(f"Homepage: {dataset.homepage}")
    return tuple(_download(dataset, download, folder, progress, echo) for download in downloads)


def _download(
    dataset: type[Dataset], download: Download, folder: Path, progress: bool, echo: Callable[[str], None]
) -> Path:
    target = folder / (download.filename or f"{dataset.folder_names[0]}.zip")
    if target.exists() and (download.sha256 is None or download.inner_zip is not None):
        echo(f"{target} exists; remove it to download it again.")
        return target
    try:
        retrieve(download, target, progress)
    except OSError as error:
        remedy = dataset.where_to_put(folder)
        raise ValueError(f"{dataset.name}: could not download {download.url} ({_reason(error)}); {remedy}") from error
    echo("Hash verified." if download.sha256 else "No hash available; not verified.")
    return target


def retrieve(download: Download, target: Path, progress: bool = False) -> None:
    """Download one file to `target` with pooch, which verifies the hash before the file appears."""
    import pooch

    target.parent.mkdir(parents=True, exist_ok=True)
    known_hash = None if download.sha256 is None else f"sha256:{download.sha256}"
    outer = target if download.inner_zip is None else target.with_name(f"{target.stem}.download.zip")
    downloader = partial(_resume_download, progress=progress)
    logger = pooch.get_logger()
    level, _ = logger.level, logger.setLevel("ERROR")
    try:
        pooch.retrieve(download.url, known_hash, fname=outer.name, path=outer.parent, downloader=downloader)
    except ValueError as error:
        raise ValueError(
            f"{download.url} does not have the expected sha256 {download.sha256} and was deleted: the file has "
            f"changed or was damaged in transfer; try again, and report it if the error persists."
        ) from error
    finally:
        logger.setLevel(level)
    if download.inner_zip is not None:
        _unwrap(outer, download.inner_zip, target)


def _resume_download(url: str, output_file: Any, pooch: Any, *, progress: bool) -> None:  # noqa: ARG001 - called by pooch
    """Write the content of `url` to `output_file`; the ``.part`` file beside it is named after the URL."""
    output = Path(output_file)
    part = output.with_name(f"{Path(url.partition('?')[0]).name}.part")
    for attempt in range(1, ATTEMPTS + 1):
        try:
            _append_rest(url, part, progress)
            break
        except urllib.error.HTTPError:
            raise
        except OSError:
            if attempt == ATTEMPTS:
                raise
    part.replace(output)
    _tag_file(part).unlink(missing_ok=True)


def _append_rest(url: str, part: Path, progress: bool) -> None:
    """Append to a ``.part`` file what is missing; start again if the server has another file or cannot resume."""
    size = part.stat().st_size if part.exists() else 0
    request = urllib.request.Request(url, headers=_range_headers(part, size))
    try:
        response = urllib.request.urlopen(request, timeout=TIMEOUT_S)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code != 416:  # the part belongs to another file, or is complete
            raise
        part.unlink()
        response, size = urllib.request.urlopen(url, timeout=TIMEOUT_S), 0
    with response:
        size = size if response.status == 206 else 0
        total = size + int(response.headers.get("Content-Length") or 0)
        _tag_file(part).write_text(response.headers.get("ETag") or response.headers.get("Last-Modified") or "")
        _copy(response, part, size, total, progress)
    if total > part.stat().st_size:
        raise ConnectionError(f"interrupted after {part.stat().st_size} of {total} bytes")


def _copy(response: Any, part: Path, size: int, total: int, progress: bool) -> None:
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with (
        Progress(*columns, TimeRemainingColumn(), disable=not progress) as bar,
        part.open("ab" if size else "wb") as out,
    ):
        task = bar.add_task(part.stem, total=total or None, completed=size)
        try:
            while chunk := response.read(CHUNK_BYTES):
                out.write(chunk)
                bar.advance(task, len(chunk))
        except HTTPException as error:
            raise ConnectionError(f"interrupted: {error}") from error


def _range_headers(part: Path, size: int) -> dict[str, str]:
    """Return headers that request the rest of the same file; a server with another file sends it whole."""
    tag = _tag_file(part).read_text() if _tag_file(part).exists() else ""
    return {"Range": f"bytes={size}-", "If-Range": tag} if size and tag and not tag.startswith("W/") else {}


def _tag_file(part: Path) -> Path:
    return part.with_name(part.name + ".tag")


def _unwrap(outer: Path, inner_zip: str, target: Path) -> None:
    """Extract the inner zip to `target`; if there is none, the outer file becomes `target`."""
    with zipfile.ZipFile(outer) as archive:
        member = next((name for name in archive.namelist() if name.rpartition("/")[2] == inner_zip), None)
        if member is not None:
            partial_file = target.with_name(target.name + ".half")
            with archive.open(member) as source, partial_file.open("wb") as stream:
                shutil.copyfileobj(source, stream)
            partial_file.replace(target)
    if member is None:
        outer.replace(target)
    else:
        outer.unlink()


def _reason(error: OSError) -> str:
    if isinstance(error, urllib.error.HTTPError):
        return f"the server returned {error.code} {error.reason}"
    if isinstance(error, urllib.error.URLError):
        return f"no connection: {error.reason}"
    return str(error) or type(error).__name__
