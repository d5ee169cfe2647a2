"""Download datasets from their official addresses, resumable and verified by hash."""

from __future__ import annotations

import shutil
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPException
from pathlib import Path
from typing import IO, Any

from sight.datasets._base import Dataset, Download
from sight.datasets._dataset_files import data_folder
from sight.registry import get

CHUNK_BYTES = 1 << 18
ATTEMPTS = 3
TIMEOUT_S = 60


def fetch(
    name: str,
    folder: Path | str | None = None,
    progress: bool = True,
    echo: Callable[[str], None] = print,
) -> tuple[Path, ...]:
    """Download a dataset into the data folder and return its files.

    Existing files are not downloaded again. An interrupted download leaves a ``.part`` file; the next attempt resumes
    it if the server still offers the same file.

    Parameters
    ----------
    name
        Registry name of the dataset.
    folder
        Where to put it; None is the data folder (`SIGHT_DATA`).
    progress
        Whether to show a progress bar.
    echo
        Called with each line to show: licence, citation, whether the hash was verified.
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
    echo("Hash verified." if download.sha256 else "Hash not published; not verified.")
    return target


def retrieve(download: Download, target: Path, progress: bool = False) -> None:
    """Download one file to `target` with pooch, which verifies the hash before the file appears."""
    import pooch

    target.parent.mkdir(parents=True, exist_ok=True)
    known_hash = None if download.sha256 is None else f"sha256:{download.sha256}"
    outer = target if download.inner_zip is None else target.with_name(f"{target.stem}.download.zip")
    logger = pooch.get_logger()
    level, _ = logger.level, logger.setLevel("ERROR")
    try:
        pooch.retrieve(
            download.url, known_hash, fname=outer.name, path=outer.parent, downloader=ResumingDownloader(progress)
        )
    except ValueError as error:
        raise ValueError(
            f"{download.url} does not have the expected sha256 {download.sha256} and was deleted: the file has "
            f"changed or was damaged in transfer; try again, and report it if the error persists."
        ) from error
    finally:
        logger.setLevel(level)
    if download.inner_zip is not None:
        _unwrap(outer, download.inner_zip, target)


class ResumingDownloader:
    """Downloader for pooch that resumes from a ``.part`` file.

    Parameters
    ----------
    progress
        Whether to show a progress bar.
    attempts
        Number of attempts after a lost connection.
    """

    def __init__(self, progress: bool = False, attempts: int = ATTEMPTS) -> None:
        self.progress, self.attempts = progress, attempts

    def __call__(self, url: str, output_file: Any, pooch: Any) -> None:  # noqa: ARG002 - the signature pooch calls
        """Write the content of `url` to `output_file`; the ``.part`` file beside it is named after the URL."""
        output = Path(output_file)
        part = output.with_name(f"{Path(url.partition('?')[0]).name}.part")
        for attempt in range(1, self.attempts + 1):
            try:
                self._resume(url, part)
                break
            except urllib.error.HTTPError:
                raise
            except OSError:
                if attempt == self.attempts:
                    raise
        part.replace(output)
        _tag_file(part).unlink(missing_ok=True)

    def _resume(self, url: str, part: Path) -> None:
        have = part.stat().st_size if part.exists() else 0
        request = urllib.request.Request(url, headers=_range(part, have))
        try:
            response = urllib.request.urlopen(request, timeout=TIMEOUT_S)
        except urllib.error.HTTPError as error:
            if error.code != 416:  # the part belongs to another file, or is complete
                raise
            error.close()
            part.unlink()
            response, have = urllib.request.urlopen(url, timeout=TIMEOUT_S), 0
        with response:
            have = have if response.status == 206 else 0
            total = have + int(response.headers.get("Content-Length") or 0)
            _tag_file(part).write_text(response.headers.get("ETag") or response.headers.get("Last-Modified") or "")
            with part.open("ab" if have else "wb") as stream, _bar(self.progress, part.stem, total, have) as advance:
                self._copy(response, stream, advance)
        if total > part.stat().st_size:
            raise ConnectionError(f"interrupted after {part.stat().st_size} of {total} bytes")

    def _copy(self, response: Any, stream: IO[bytes], advance: Callable[[int], None]) -> None:
        try:
            while chunk := response.read(CHUNK_BYTES):
                stream.write(chunk)
                advance(len(chunk))
        except HTTPException as error:
            raise ConnectionError(f"interrupted: {error}") from error


def _range(part: Path, have: int) -> dict[str, str]:
    """Return headers that request the rest of the same file; a server with another file sends it whole."""
    tag = _tag_file(part).read_text() if _tag_file(part).exists() else ""
    return {"Range": f"bytes={have}-", "If-Range": tag} if have and tag and not tag.startswith("W/") else {}


def _tag_file(part: Path) -> Path:
    return part.with_name(part.name + ".tag")


def _unwrap(outer: Path, inner_zip: str, target: Path) -> None:
    """Extract the inner zip to `target`; if there is none, the outer file becomes `target`."""
    with zipfile.ZipFile(outer) as archive:
        member = next((name for name in archive.namelist() if name.rpartition("/")[2] == inner_zip), None)
        if member is not None:
            partial = target.with_name(target.name + ".half")
            with archive.open(member) as source, partial.open("wb") as stream:
                shutil.copyfileobj(source, stream)
            partial.replace(target)
    if member is None:
        outer.replace(target)
    else:
        outer.unlink()


@contextmanager
def _bar(show: bool, label: str, total: int, done: int) -> Iterator[Callable[[int], None]]:
    if not show:
        yield lambda _: None
        return
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, TimeRemainingColumn()) as bar:
        task = bar.add_task(label, total=total or None, completed=done)
        yield lambda count: bar.advance(task, count)


def _reason(error: OSError) -> str:
    if isinstance(error, urllib.error.HTTPError):
        return f"the server returned {error.code} {error.reason}"
    if isinstance(error, urllib.error.URLError):
        return f"no connection: {error.reason}"
    return str(error) or type(error).__name__
