"""Public datasets, one per file.

`load` returns a dataset by name, `info` describes its subjects, `sight.datasets.fetch` downloads it. The base class is
in `sight.recordings.dataset`, because folders of users are datasets too.
"""

from sight.recordings.dataset import Dataset, Download, info, load, windows_of
from sight.recordings.file_store import data_folder, read_columns

__all__ = ["Dataset", "Download", "data_folder", "info", "load", "read_columns", "windows_of"]
