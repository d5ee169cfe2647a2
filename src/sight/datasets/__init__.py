"""Datasets, one per file, and readers of users' own recordings.

`load` returns a dataset by name, `info` describes its subjects, `sight.datasets.fetch` downloads it. Users' own files
are read by `sight.datasets.user_files` and `sight.datasets.folder`.
"""

from sight.datasets._base import Dataset, Download
from sight.datasets._by_name import info, load, windows_of
from sight.datasets._dataset_files import data_folder, read_columns

__all__ = ["Dataset", "Download", "data_folder", "info", "load", "read_columns", "windows_of"]
