"""Bundled trained models: exported files with cards, and the function that maps a name or path to a model file."""

from functools import cache
from pathlib import Path

from sight._util.text import choices

FOLDER = Path(__file__).parent


@cache
def names() -> tuple[str, ...]:
    return tuple(sorted(file.stem for file in FOLDER.glob("*.onnx")))


def resolve(model: str | Path) -> Path:
    """Return the file of a model: of the bundled model of that name, or the path itself.

    A name has neither a suffix nor a folder; everything else is a path. A bundled name means the bundled model, also
    if a file or folder of that name exists. Another name raises ValueError.
    """
    path = Path(model)
    if path.suffix or path.name != str(path):
        return path
    if path.name not in names():
        raise ValueError(
            f"There is no bundled model {path.name!r}; {choices(path.name, names())} A model file ends with .onnx or "
            f".safetensors."
        )
    return FOLDER / f"{path.name}.onnx"
