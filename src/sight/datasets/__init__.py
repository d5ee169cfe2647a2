"""Public datasets, one per file.

`load` returns a dataset by name, `info` describes its subjects, `sight.datasets.fetch` downloads it. The base class is
in `sight.recordings.recording_collection`, because folders of users are datasets too.
"""

from sight._util.folder_or_zip import data_folder, read_columns
from sight.recordings.recording_collection import Dataset, Download, info, load, windows_of

__all__ = ["Dataset", "Download", "data_folder", "info", "load", "read_columns", "windows_of"]
