"""Datasets, one per file, and readers of users' own recordings.

`load` returns a dataset by name, `info` describes its subjects, `sight.datasets.fetch` downloads it. Users' own files
are read by `sight.recordings.files` and `sight.recordings.folder`.
"""

from sight.recordings.dataset import Dataset, Download
from sight.recordings.dataset_by_name import info, load, windows_of
from sight.recordings.file_store import data_folder, read_columns

__all__ = ["Dataset", "Download", "data_folder", "info", "load", "read_columns", "windows_of"]
