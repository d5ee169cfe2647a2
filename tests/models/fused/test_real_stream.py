"""A stream of HAPT: all implementations agree, online equals offline, the quantised network keeps its accuracy."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("onnx")

from sight.methods.compiled.backend import choose  # noqa: E402
from sight.methods.keel import Keel  # noqa: E402
from sight.methods.sight import SIGHT  # noqa: E402
from sight.models.export.fused import export_fused  # noqa: E402
from sight.models.export.int8 import quantise  # noqa: E402
from sight.models.export.onnx import export_onnx  # noqa: E402
from sight.models.fused_model import FusedSession  # noqa: E402
from sight.models.onnx import OnnxSource  # noqa: E402
from sight.models.train import train  # noqa: E402
from sight.registry import resolve  # noqa: E402
from sight.results.metrics import confusion, macro_f1_all  # noqa: E402
from tests.helpers import saturation  # noqa: E402
from tests.helpers.requirements import data_folder, require  # noqa: E402
from tests.models.fused.fused_helpers import run  # noqa: E402


@pytest.fixture(scope="module")
def hapt(hapt_files, tmp_path_factory):
    """Return a source trained on one subject of HAPT, and up to 1,000 windows of others in time order."""
    from sight.datasets.hapt import HAPT

    dataset = HAPT(root=hapt_files)
    trained = train(dataset.windows("1", cache=False), dataset.classes, epochs=3)
    stream = [dataset.windows(subject, cache=False) for subject in ("2", "3")]
    x = np.concatenate([windows.x for windows in stream])[:1000]
    label = np.concatenate([windows.label for windows in stream])[:1000]
    path = export_onnx(trained, tmp_path_factory.mktemp("hapt") / "plain.onnx")
    return trained, path, x, label


@pytest.mark.parametrize("method", [SIGHT(variant="authors"), Keel()], ids=["authors", "keel"])
def test_four_implementations_agree_on_a_real_stream(tmp_path, hapt, monkeypatch, method):
    trained, path, x, _ = hapt
    exported = OnnxSource(path)
    predictions = {"torch": method.clone().bind(trained).step(x)}
    for name in {"numpy", choose(type(method), np.float32).name}:
        monkeypatch.setenv("SIGHT_KERNEL", name)
        predictions[name] = method.clone().bind(exported).step(x)
    predictions["fused"] = run(FusedSession(export_fused(trained, tmp_path / "fused.onnx", method)), x)[0]
    predictions["step in torch"] = torch_step(trained, method, x[:200])
    for name, q in predictions.items():
        expected = predictions["numpy"][: len(q)]
        np.testing.assert_allclose(q, expected, rtol=0, atol=5e-5, err_msg=name)
        np.testing.assert_array_equal(q.argmax(axis=1), expected.argmax(axis=1), err_msg=name)


def torch_step(source, method, x):
    step = resolve(method.fused_step)(source.network, method.clone().bind(source))
    state = [torch.from_numpy(zeros) for zeros in method.layout.graph_zeros(*source.weight.shape).values()]
    rows = []
    with torch.inference_mode():
        for window in x:
            q, _, _, *state = step(torch.from_numpy(window[None]), *state)
            rows.append(q[0].numpy())
    return np.array(rows)


def test_online_and_offline_are_equal_bit_for_bit(hapt):
    _, path, x, _ = hapt
    adapter = SIGHT().bind(OnnxSource(path))
    whole = adapter.step(x[:300])
    single = np.concatenate([adapter.reset().step(x[:1]), *(adapter.step(x[t : t + 1]) for t in range(1, 300))])
    np.testing.assert_array_equal(whole, single)


@pytest.mark.real
def test_quantisation_keeps_accuracy_on_real_data(tmp_path, hapt):
    require(data_folder() / "hapt.zip")  # scores of synthetic wearers say little about int8
    trained, path, x, label = hapt
    small = OnnxSource(quantise(path, tmp_path / "int8.onnx", x[::5]))
    assert small.path.stat().st_size < 0.6 * path.stat().st_size
    labelled = label >= 0
    scores = [
        macro_f1_all(confusion(label[labelled], source.encode(x[labelled])[1].argmax(axis=1), 6))
        for source in (trained, small)
    ]
    assert scores[1] > scores[0] - 0.03
    assert small.classes == trained.classes
    exact, clipped = (saturation.run(small.path, x[::25], saturate) for saturate in (False, True))
    np.testing.assert_array_equal(exact, clipped)  # as on a processor without VNNI
