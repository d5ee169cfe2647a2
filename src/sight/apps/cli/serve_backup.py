"""``sight serve backup`` and ``sight serve restore``: copies of a data folder."""

from pathlib import Path
from typing import Annotated, Any

import typer

from sight.apps.cli._shared import console


def backup_data(
    data: Annotated[Path, typer.Argument(help="Data folder of the service, which may run.")],
    out: Annotated[Path, typer.Argument(help="Folder to create; with --keep, folder of the backups.")],
    keep: Annotated[
        int | None, typer.Option(min=1, help="Write a dated backup into OUT, and remove all but the newest so many.")
    ] = None,
) -> None:
    """Copy store, tokens and models of a data folder, also while the service runs.

    Models outside of the data folder are not copied. A Redis store is backed up with the tools of Redis.

    [bold]Examples[/]

      sight serve backup /srv/sight /backup/sight-monday

      sight serve backup /srv/sight /backup/sight --keep 14
    """
    from sight.apps.serve.backup import backup, backup_dated

    removed: list[str] = []
    if keep is None:
        manifest = backup(data, out)
    else:
        out, manifest, removed = backup_dated(data, out, keep)
    _print_backup(f"Copied to {out}", manifest)
    if removed:
        console.print(f"Removed {', '.join(removed)}.", highlight=False, soft_wrap=True)
    if not any(name.startswith("models/") for name in manifest["files"]):
        console.print("There are no models in the data folder; keep the files given with --model too.")


def restore_data(
    folder: Annotated[Path, typer.Argument(metavar="BACKUP", help="Folder written by sight serve backup.")],
    data: Annotated[Path, typer.Argument(help="New or empty data folder.")],
) -> None:
    """Check a backup and copy it to a new data folder.

    [bold]Example[/]

      sight serve restore /backup/sight-monday /srv/sight-restored
    """
    from sight.apps.serve.backup import restore

    _print_backup(f"Restored to {data}", restore(folder, data))


def _print_backup(text: str, manifest: dict[str, Any]) -> None:
    wearers, files = manifest["wearers"], ", ".join(manifest["files"])
    console.print(f"{text}: {wearers} wearers of {manifest['created']}; {files}.", highlight=False, soft_wrap=True)
