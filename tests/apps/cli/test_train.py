"""``sight train``: checks before training, and Ctrl-C during it."""

from __future__ import annotations

import json

import pytest

import sight.models.train
from tests.helpers.commands import output_of, run_sight

SMALL = ["--data", "synthetic", "--subjects", "W01", "--option", "hours=0.03", "--encoder", "resnet"]


def test_an_output_that_cannot_be_written_fails_before_anything_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr("sight.recordings.read.registry.get", lambda *_: pytest.fail("data were read"))
    (tmp_path / "file").write_text("not a folder")
    printed = output_of("train", *SMALL, "-o", tmp_path / "file" / "model.safetensors", code=2)
    assert "cannot be written" in printed


@pytest.fixture
def interrupted(monkeypatch):
    """Let Ctrl-C arrive in the third epoch."""
    epochs, batches = [], sight.models.train._batches

    def at_third(*args):
        epochs.append(args)
        if len(epochs) == 3:
            raise KeyboardInterrupt
        return batches(*args)

    monkeypatch.setattr("sight.models.train._batches", at_third)


@pytest.mark.parametrize("options", [[], ["--validation", "0.2"]])
def test_ctrl_c_writes_the_best_epoch_so_far(tmp_path, interrupted, options):
    path = tmp_path / "model.safetensors"
    printed = output_of("train", *SMALL, "--epochs", 8, *options, "-o", path)
    training = json.loads(run_sight("inspect", path, "--json").output)["training"]
    assert training["stopped_after_epoch"] == len(training["loss"]) == 2
    kept = training["best_epoch"] if options else 2
    assert f"Stopped after epoch 2 of 8; the model of epoch {kept} was kept" in printed


def test_progress_shows_validation_scores(tmp_path):
    printed = output_of("train", *SMALL, "--epochs", 1, "--validation", "0.2", "-o", tmp_path / "m.safetensors")
    assert "validation accuracy" in printed
    assert "in epoch 1" in printed


def folder_with(tmp_path, *diaries):
    """A folder with a recording of two minutes and a diary for each of the given texts."""
    for number, diary in enumerate(diaries):
        rows = "".join(f"{i / 20:.2f},{(i // 40) % 2 / 10},0,1\n" for i in range(2400))
        (tmp_path / f"s{number}.csv").write_text("time,x,y,z\n" + rows)
        (tmp_path / f"s{number}-diary.csv").write_text(f"start,end,label\n{diary}")
    (tmp_path / "MAP.toml").write_text(
        'diary = "{subject}-diary.csv"\n[labels]\nsit = "sit"\nwalk = "walk"\nrun = "run"\n'
    )
    return tmp_path


def test_labels_are_counted_before_training(tmp_path):
    folder = folder_with(tmp_path, "0,60,sit\n60,120,WALK\n", "0,0.4,walk\n")
    arguments = ["train", "--data", folder, "--epochs", 1, "--encoder", "resnet", "-o", tmp_path / "m.safetensors"]
    printed = output_of(*arguments)
    assert "Windows: sit 60, walk 59, run 0; unlabelled 119." in printed
    assert "No window has the label run." in printed
    assert "s1 has no labelled window." in printed


def test_two_classes_are_needed(tmp_path):
    folder = folder_with(tmp_path, "0,60,sit\n")
    printed = output_of("train", "--data", folder, "-o", tmp_path / "m.safetensors", code=2)
    assert "at least two classes, got sit 60, walk 0, run 0" in printed
    assert not (tmp_path / "m.safetensors").exists()
