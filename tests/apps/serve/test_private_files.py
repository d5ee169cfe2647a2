"""Files that only their owner can read."""

from __future__ import annotations

from sight.apps.serve.private_files import create_private, make_private


def test_existing_files_become_private(tmp_path):
    path = tmp_path / "a"
    path.write_text("content")
    path.chmod(0o664)
    create_private(path)
    assert (path.read_text(), path.stat().st_mode & 0o777) == ("content", 0o600)
    make_private(tmp_path)  # a folder is left alone
    assert tmp_path.stat().st_mode & 0o100
