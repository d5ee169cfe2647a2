"""Training: it learns, it is reproducible bit for bit, and its statistics agree with loops."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

import sight
import sight.models.train
from sight import registry
from sight.methods.gradient.fisher_information import fisher_information
from sight.models.source_statistics import source_stats
from sight.models.train import UNSEEN_STD, _batches, _split, normalisation, train
from sight.testing import ToySource, toy_stream
from tests.helpers.networks import network_with

CLASSES = ToySource().classes
FEW = {"epochs": 2, "encoder": "resnet"}


def weights(source) -> np.ndarray:
    return np.concatenate([value.numpy().ravel() for value in source.network.state_dict().values()])


@pytest.mark.parametrize("encoder", ["cnn", "resnet", "transformer"])
def test_training_learns(encoder):
    source = train(toy_stream(n=300, seed=1), CLASSES, encoder=encoder, epochs=8, stats=False)
    unseen = toy_stream(n=200, seed=1, noise=1.2)
    fresh = toy_stream(n=400, seed=1)
    x, y = fresh.x[300:], fresh.label[300:]
    assert (source.encode(x)[1].argmax(axis=1) == y).mean() > 0.8
    assert (source.encode(unseen.x)[1].argmax(axis=1) == unseen.label).mean() > 0.8
    assert source.stats is None


def test_mlp_learns_from_vectors_with_nan():
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=400)
    x = (rng.normal(size=(3, 20))[y] * 2 + rng.normal(size=(400, 20)))[:, :, None].astype(np.float32)
    x[rng.random(x.shape) < 0.1] = np.nan
    x[:, 4] = np.nan
    source = train((x[:300], y[:300]), ("a", "b", "c"), encoder="mlp", epochs=10, rate_hz=1 / 60)
    p = source.encode(x[300:])[1]
    assert (p.argmax(axis=1) == y[300:]).mean() > 0.8
    assert (source.card.length, source.card.window_s) == (1, 60.0)
    expected = [0.0 if c == 4 else float(np.nanmedian(x[:300, c])) for c in range(20)]
    np.testing.assert_allclose(source.card.fill, expected, rtol=1e-6)
    x_loud = np.nan_to_num(x[300:])
    x_silent = x_loud.copy()
    x_loud[:, 4] = 1000.0  # a channel without training data has no effect
    np.testing.assert_allclose(source.encode(x_loud)[0], source.encode(x_silent)[0], atol=1e-4)


def test_equal_seeds_give_identical_files(tmp_path):
    windows = toy_stream(n=100)
    np.random.seed(1)  # noqa: NPY002 - global random state must not matter
    torch.manual_seed(1)
    first = train(windows, CLASSES, validation=0.2, fisher=True, **FEW)
    torch.manual_seed(2)
    before = torch.get_rng_state()
    second = train(windows, CLASSES, validation=0.2, fisher=True, **FEW)
    assert torch.equal(torch.get_rng_state(), before)
    assert np.array_equal(weights(first), weights(second))
    assert np.array_equal(first.stats.class_means, second.stats.class_means)
    assert all(np.array_equal(first.fisher[name], second.fisher[name]) for name in first.fisher)
    files = [source.save(tmp_path / f"{n}.safetensors") for n, source in enumerate((first, second))]
    assert files[0].read_bytes() == files[1].read_bytes()
    other = train(windows, CLASSES, validation=0.2, seed=1, **FEW)
    assert not np.array_equal(weights(first), weights(other))


def test_unlabelled_windows_are_ignored():
    windows = toy_stream(n=80)
    rng = np.random.default_rng(0)
    noise = dataclasses.replace(
        windows, x=1e3 * rng.normal(size=windows.x.shape).astype(np.float32), label=np.full(80, -1)
    )
    plain, mixed = train(windows, CLASSES, **FEW), train([windows, noise], CLASSES, **FEW)
    assert np.array_equal(weights(plain), weights(mixed))
    assert (mixed.stats.count, mixed.stats.subjects) == (80, 1)


def test_statistics_contain_the_number_of_subjects():
    windows = toy_stream(n=40)
    arrays = train((windows.x, windows.label), CLASSES, rate_hz=20, **FEW)
    assert (train([windows] * 3, CLASSES, **FEW).stats.subjects, arrays.stats.subjects) == (3, 0)


def test_card_describes_the_training(tmp_path):
    seen = []
    source = train(
        [toy_stream(n=60), toy_stream(n=50, seed=2)],
        CLASSES,
        validation=0.25,
        channels=("x", "y", "z"),
        units="g",
        dataset="toys",
        on_epoch=lambda epoch, figures: seen.append((epoch, dict(figures))),
        **FEW,
    )
    card = source.card
    assert [epoch for epoch, _ in seen] == [1, 2]
    assert set(seen[0][1]) == {"loss", "accuracy", "macro_f1"}
    assert card.training["macro_f1"] == [round(figures["macro_f1"], 6) for _, figures in seen]
    assert card.training["best_epoch"] == 1 + int(np.argmax(card.training["macro_f1"]))
    assert (card.rate_hz, card.window_s, card.stride_s, card.length) == (10.0, 2.0, 1.0, 20)
    assert (card.channels, card.units, card.dataset) == (("x", "y", "z"), ("g", "g", "g"), "toys")
    twin = sight.load(source.save(tmp_path / "m.safetensors"))
    assert twin.card == card
    x = toy_stream(n=20).x
    assert np.array_equal(twin.encode(x)[1], source.encode(x)[1])


def test_best_epoch_is_restored():
    """With a learning rate that is too high, the kept weights have the score of the best epoch."""
    windows = toy_stream(n=200)
    source = train(windows, CLASSES, encoder="resnet", epochs=6, lr=0.3, validation=0.3)
    history = source.card.training
    _, held_out = _split(windows.label, 0.3, 0)
    accuracy = (source.encode(windows.x[held_out])[1].argmax(axis=1) == windows.label[held_out]).mean()
    assert accuracy == pytest.approx(history["accuracy"][history["best_epoch"] - 1], abs=1e-6)
    assert len(set(history["macro_f1"])) > 1


@pytest.fixture
def interrupt(monkeypatch):
    """Return a function that lets Ctrl-C arrive at a step of the training."""

    def at(step):
        count, original = [0], sight.models.train._step

        def stepped(*args):
            count[0] += 1
            if count[0] == step:
                raise KeyboardInterrupt
            return original(*args)

        monkeypatch.setattr("sight.models.train._step", stepped)

    return at


def test_interrupted_training_keeps_the_last_complete_epoch(interrupt):
    windows = toy_stream(n=128)  # two steps an epoch
    complete = train(windows, CLASSES, **FEW)
    interrupt(6)
    stopped = train(windows, CLASSES, encoder="resnet", epochs=9, keep_on_interrupt=True)
    assert stopped.card.training["stopped_after_epoch"] == 2
    assert stopped.card.training["epochs"] == 9
    assert len(stopped.card.training["loss"]) == 2
    assert np.array_equal(weights(stopped), weights(complete))


def test_interrupted_training_keeps_the_best_epoch(interrupt):
    windows = toy_stream(n=200)
    setting = {"encoder": "resnet", "lr": 0.3, "validation": 0.3}
    scores = train(windows, CLASSES, epochs=4, **setting).card.training["macro_f1"]
    interrupt(3 * 4 + 2)  # 140 windows: three steps an epoch
    stopped = train(windows, CLASSES, epochs=6, keep_on_interrupt=True, **setting)
    assert stopped.card.training["stopped_after_epoch"] == 4
    assert stopped.card.training["macro_f1"] == scores
    best = stopped.card.training["best_epoch"]
    assert best == 1 + int(np.argmax(scores))
    assert best < 4, "the test needs a best epoch before the last one"


@pytest.mark.parametrize(("step", "keep"), [(2, True), (6, False)])
def test_an_interrupt_is_raised_without_a_complete_epoch_and_by_default(interrupt, step, keep):
    interrupt(step)
    with pytest.raises(KeyboardInterrupt):
        train(toy_stream(n=128), CLASSES, encoder="resnet", epochs=9, keep_on_interrupt=keep)


def test_split_is_stratified_and_keeps_every_class():
    y = np.repeat([0, 1, 2, 3], [100, 40, 10, 1])
    kept, held_out = _split(y, 0.2, seed=0)
    assert np.bincount(y[held_out], minlength=4).tolist() == [20, 8, 2, 0]
    assert sorted([*kept, *held_out]) == list(range(151))
    assert not np.array_equal(held_out, _split(y, 0.2, seed=1)[1])
    assert len(_split(y, 0.0, seed=0)[1]) == 0
    with pytest.raises(ValueError, match="from 0 to below 1, got 1"):
        _split(y, 1.0, seed=0)


@pytest.mark.parametrize(("n", "sizes"), [(129, [64, 65]), (128, [64, 64]), (130, [64, 64, 2]), (65, [65]), (1, [1])])
def test_batches_never_have_one_window(n, sizes):
    batches = list(_batches(torch.arange(n), 64))
    assert [len(batch) for batch in batches] == sizes
    assert sorted(torch.cat(batches).tolist()) == list(range(n))


def test_training_with_one_window_left_over():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(65, 4, 1)).astype(np.float32)  # one value a channel: a batch of one has no variance
    source = train((x, np.arange(65) % 2), ("a", "b"), encoder="mlp", epochs=1, rate_hz=1.0)
    assert np.isfinite(weights(source)).all()


def test_normalisation_of_usual_constant_and_empty_channels():
    rng = np.random.default_rng(0)
    x = rng.normal(3, 2, size=(50, 3, 10)).astype(np.float32)
    x[:, 1] = 9.81
    mean, std, fill = normalisation(x)
    assert fill is None
    np.testing.assert_allclose(mean, [x[:, 0].mean(), 9.81, x[:, 2].mean()], rtol=1e-5)
    np.testing.assert_allclose(std, [x[:, 0].std(), 1, x[:, 2].std()], rtol=1e-5)
    x[:, 2] = np.nan
    assert normalisation(x)[1][2] == UNSEEN_STD
    assert normalisation(x)[2][2] == 0


def test_statistics_agree_with_a_loop():
    windows = toy_stream(n=70)
    label = np.where(windows.label == 3, 2, windows.label)  # class 3 has no windows
    source = train((windows.x, label), CLASSES, rate_hz=10.0, **FEW)
    z = source.encode(windows.x)[0]
    stats = source_stats(source, windows.x, label)
    for k in range(5):
        own = [z[i] for i in range(70) if label[i] == k] or list(z)
        np.testing.assert_allclose(stats.class_means[k], np.mean(own, axis=0), atol=1e-5)
        assert stats.prior[k] == pytest.approx(np.mean(label == k))
    np.testing.assert_allclose(stats.feature_mean, z.mean(axis=0), atol=1e-5)
    assert np.array_equal(stats.prior, source.stats.prior)


def norm_names(network):
    """Return the names of the parameters of norm layers: scales, and biases beside them."""
    scales = {n.rpartition(".")[0] for n, p in network.named_parameters() if p.ndim == 1 and not n.endswith("bias")}
    return {f"{name}.{kind}" for name in scales for kind in ("weight", "bias")}


def squared_gradients(network, loss, names):
    network.zero_grad()
    loss.backward()
    return {name: p.grad.numpy() ** 2 for name, p in network.named_parameters() if name in names}


def confident_loss(logits):
    """Return the mean cross-entropy towards the predicted class."""
    return -logits.log_softmax(dim=1).max(dim=1).values.mean()


@pytest.mark.parametrize("encoder", ["cnn", "transformer"])
def test_fisher_of_windows_and_of_batches_agree_with_loops(encoder):
    windows = toy_stream(n=150)
    source = train(windows, CLASSES, encoder=encoder, epochs=1, fisher=True)
    names, x = norm_names(source.network), torch.from_numpy(windows.x)
    assert set(source.fisher) == {f"{kind}.{name}" for kind in ("authors", "per_window") for name in names}
    network = source.network
    single = [squared_gradients(network, confident_loss(network(x[i : i + 1])), names) for i in range(150)]
    network = network_with(source, "batch").requires_grad_(True)
    order = np.random.default_rng(0).permutation(150)
    batches = [
        squared_gradients(network, confident_loss(network(x[order[first : first + 64]])), names)
        for first in (0, 64, 128)
    ]
    for kind, squares in (("per_window", single), ("authors", batches)):
        for name in names:
            expected = np.mean([own[name] for own in squares], axis=0)
            np.testing.assert_allclose(source.fisher[f"{kind}.{name}"], expected, rtol=2e-3, atol=1e-9, err_msg=name)


def test_fisher_is_that_of_windows_not_trained_on():
    windows = toy_stream(n=200)
    held = train(windows, CLASSES, validation=0.25, fisher=True, **FEW)
    plain = train(windows, CLASSES, validation=0.25, **FEW)
    assert np.array_equal(weights(held), weights(plain))
    rows = _split(windows.label, 0.25, 0)[1]
    expected = fisher_information(held.network, windows.x[rows], seed=0)
    assert all(np.array_equal(held.fisher[name], value) for name, value in expected.items())
    everything = train(windows, CLASSES, fisher=True, **FEW)
    assert [source.card.training.get("fisher") for source in (held, everything, plain)] == [
        "held-out windows",
        "training windows",
        None,
    ]
    notes = [registry.method("eata").bind(source).notes() for source in (held, everything)]
    assert notes[0] == ()
    assert "training windows" in notes[1][0]


def test_fisher_uses_2000_windows_at_most(monkeypatch):
    windows = toy_stream(n=30)
    source = train(windows, CLASSES, **FEW)
    monkeypatch.setattr("sight.methods.gradient.fisher_information.FISHER_WINDOWS", 10)
    few = fisher_information(source.network, windows.x, seed=0)
    rows = np.sort(np.random.default_rng(0).permutation(30)[:10])
    alone = fisher_information(source.network, windows.x[rows], seed=5)
    for name, value in few.items():
        np.testing.assert_allclose(value, alone[name], rtol=1e-4, atol=1e-10)


def test_invalid_inputs_raise():
    windows = toy_stream(n=20)
    with pytest.raises(ValueError, match="rate_hz"):
        train((windows.x, windows.label), CLASSES)
    with pytest.raises(ValueError, match="labels from 0 to 1, got 20"):
        train(windows, ("a", "b"))
    with pytest.raises(ValueError, match="of one shape"):
        train([windows, toy_stream(ToySource(length=30), n=20)], CLASSES)
    with pytest.raises(ValueError, match="two or more windows"):
        train((windows.x, np.full(20, -1)), CLASSES, rate_hz=1.0)
    with pytest.raises(ValueError, match="'cnn'"):
        train(windows, CLASSES, encoder="cmn")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device on this machine")
def test_training_on_cuda():
    windows = toy_stream(n=300)
    source = train(windows, CLASSES, epochs=8, device="cuda", fisher=True)
    assert source.device.type == "cuda"
    on_device = source.encode(windows.x)[1]
    assert (on_device.argmax(axis=1) == windows.label).mean() > 0.8
    np.testing.assert_allclose(source.to("cpu").encode(windows.x)[1], on_device, atol=1e-3)
