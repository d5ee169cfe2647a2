"""From a file to windows: tables, device files, timestamps, diaries, labels and signal processing."""
