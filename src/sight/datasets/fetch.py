"""Download corpora from their official places: licence first, resumed where it broke off, checked by hash."""

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

from sight.datasets._base import Dataset, Download, where_to_put
from sight.datasets._dataset_files import data_folder
from sight.registry import get

CHUNK_BYTES = 1 << 18
ATTEMPTS = 3
TIMEOUT_S = 60


def fetch(
    name: str,
    folder: Path | str | None = None,
    progress: bool = True,
    say: Callable[[str], None] = print,
) -> tuple[Path, ...]:
    """Download a corpus into the data folder and return the files that are now there.

    Parameters
    ----------
    name
        Registry name of the corpus.
    folder
        Where to put it; None is the folder of `SIGHT_DATA`.
    progress
        Whether to show a bar.
    say
        Takes the lines to show: licence, citation, whether the hash was verified.

    Notes
    -----
    What is there already is not downloaded again. A download that breaks off leaves a ``.part`` file, from which
    the next attempt goes on if the server still offers the same file.
    """
    dataset: type[Dataset] = get("datasets", name)
    downloads: tuple[Download, ...] = getattr(dataset, "downloads", ())
    if not downloads:
        raise ValueError(f"{name} is not downloaded from anywhere; it is made here or comes from your own files.")
    folder = Path(folder) if folder is not None else data_folder()
    say(f"{dataset.title}, version {dataset.version}")
    say(f"Licence: {dataset.licence}")
    say(f"Please cite: {dataset.citation}")
    say(f"Home: {dataset.homepage}")
    return tuple(_one(dataset, download, folder, progress, say) for download in downloads)


def _one(dataset: type[Dataset], download: Download, folder: Path, progress: bool, say: Callable[[str], None]) -> Path:
    target = folder / (download.file or f"{dataset.places[0]}.zip")
    if target.exists() and (download.sha256 is None or download.inside is not None):
        say(f"{target} is there already; remove it to download it again.")
        return target
    try:
        retrieve(download, target, progress)
    except OSError as error:
        remedy = where_to_put(dataset, folder)
        raise ValueError(f"{dataset.name}: could not download {download.url} ({_reason(error)}); {remedy}") from error
    say("Hash verified." if download.sha256 else "Hash not known; not verified.")
    return target


def retrieve(download: Download, target: Path, progress: bool = False) -> None:
    """Download one file to `target`, through pooch, which checks the hash before the file appears."""
    import pooch

    target.parent.mkdir(parents=True, exist_ok=True)
    wanted = None if download.sha256 is None else f"sha256:{download.sha256}"
    outer = target if download.inside is None else target.with_name(f"{target.stem}.download.zip")
    logger = pooch.get_logger()
    level, _ = logger.level, logger.setLevel("ERROR")
    try:
        pooch.retrieve(download.url, wanted, fname=outer.name, path=outer.parent, downloader=Resuming(progress))
    except ValueError as error:
        raise ValueError(
            f"{download.url} arrived with another hash than sha256 {download.sha256}, so it was not kept: "
            f"the file changed or was damaged on the way; try again, or report it if it stays so."
        ) from error
    finally:
        logger.setLevel(level)
    if download.inside is not None:
        _unwrap(outer, download.inside, target)


class Resuming:
    """Downloads for pooch: keeps what arrived in a ``.part`` file and asks only for the rest.

    Parameters
    ----------
    progress
        Whether to show a bar.
    attempts
        How often one call goes on by itself after the connection broke.
    """

    def __init__(self, progress: bool = False, attempts: int = ATTEMPTS) -> None:
        self.progress, self.attempts = progress, attempts

    def __call__(self, url: str, output_file: Any, pooch: Any) -> None:  # noqa: ARG002 - the signature pooch calls
        """Write the content of `url` to the temporary `output_file`; the part lies beside it, named by the url."""
        output = Path(output_file)
        part = output.with_name(f"{Path(url.partition('?')[0]).name}.part")
        for attempt in range(1, self.attempts + 1):
            try:
                self._continue(url, part)
                break
            except urllib.error.HTTPError:
                raise
            except OSError:
                if attempt == self.attempts:
                    raise
        part.replace(output)
        _tag_file(part).unlink(missing_ok=True)

    def _continue(self, url: str, part: Path) -> None:
        have = part.stat().st_size if part.exists() else 0
        request = urllib.request.Request(url, headers=_range(part, have))
        try:
            response = urllib.request.urlopen(request, timeout=TIMEOUT_S)
        except urllib.error.HTTPError as error:
            if error.code != 416:  # the part is not a beginning of this file, or already all of it
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
            raise ConnectionError(f"it broke off after {part.stat().st_size} of {total} bytes")

    def _copy(self, response: Any, stream: IO[bytes], advance: Callable[[int], None]) -> None:
        try:
            while chunk := response.read(CHUNK_BYTES):
                stream.write(chunk)
                advance(len(chunk))
        except HTTPException as error:
            raise ConnectionError(f"it broke off: {error}") from error


def _range(part: Path, have: int) -> dict[str, str]:
    """Ask for the rest of the very file the part is from; a server that offers another then sends it whole."""
    tag = _tag_file(part).read_text() if _tag_file(part).exists() else ""
    return {"Range": f"bytes={have}-", "If-Range": tag} if have and tag and not tag.startswith("W/") else {}


def _tag_file(part: Path) -> Path:
    return part.with_name(part.name + ".tag")


def _unwrap(outer: Path, inside: str, target: Path) -> None:
    """Take the inner zip out of one that only wraps it; a file that is itself the data stays as it is."""
    with zipfile.ZipFile(outer) as archive:
        found = next((name for name in archive.namelist() if name.rpartition("/")[2] == inside), None)
        if found is not None:
            half = target.with_name(target.name + ".half")
            with archive.open(found) as source, half.open("wb") as stream:
                shutil.copyfileobj(source, stream)
            half.replace(target)
    if found is None:
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
        return f"the server answers {error.code} {error.reason}"
    if isinstance(error, urllib.error.URLError):
        return f"no connection: {error.reason}"
    return str(error) or type(error).__name__
