"""The same recording in the forms in which people have it: each is read right, or refused with the remedy."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import pytest

import sight
from sight.testing import toy_card

RATE_HZ, N = 10, 600
RNG = np.random.default_rng(0)
VALUES = np.round(
    np.column_stack((RNG.normal(0, 0.3, (N, 2)), 1 + RNG.normal(0, 0.1, N), RNG.normal(0, 40, (N, 3)))), 4
)
CHANNELS = ("x", "y", "z", "gyr_x", "gyr_y", "gyr_z")
HEADER = "time,ax,ay,az,gx,gy,gz"
STD = (0.3, 0.3, 0.1, 40.0, 40.0, 40.0)
CARD = toy_card(
    channels=CHANNELS,
    units=("g",) * 3 + ("deg/s",) * 3,
    mean=(0.0, 0.0, 1.0, 0.0, 0.0, 0.0),
    std=STD,
)
SUMMER = datetime(2024, 3, 12, 23, 30, tzinfo=UTC)
TO_WINTER = datetime(2023, 10, 29, 0, 59, 30, tzinfo=UTC)  # 02:59:30 in Vienna; half a minute later it is 02:00
TO_SUMMER = datetime(2024, 3, 31, 0, 59, 30, tzinfo=UTC)  # 01:59:30 in Vienna; half a minute later it is 03:00
VIENNA = ZoneInfo("Europe/Vienna")


def moments(start):
    return [start + timedelta(seconds=i / RATE_HZ) for i in range(N)]


def local(start):
    return [moment.astimezone(VIENNA).strftime("%Y-%m-%d %H:%M:%S.%f") for moment in moments(start)]


def write(path, times, values=VALUES, header=HEADER, decimal="."):
    separator = "," if decimal == "." else ";"
    rows = (
        separator.join(map(str, (time, *row))).replace(".", decimal) for time, row in zip(times, values, strict=True)
    )
    path.write_text("\n".join([header.replace(",", separator), *rows]) + "\n")
    return path


def scaled(acceleration=1.0, rotation=1.0):
    return VALUES * ([acceleration] * 3 + [rotation] * 3)


SINCE_START = [f"{i / RATE_HZ:g}" for i in range(N)]
M_S2, RAD_S = 9.80665, np.pi / 180

#: Times, values, header and options of each form; all hold the same samples.
FORMS = {
    "seconds since start": (SINCE_START, VALUES, HEADER, {}),
    "ms since start": ([1000 * i // RATE_HZ for i in range(N)], VALUES, HEADER, {}),
    "epoch ms": ([int(1000 * m.timestamp()) for m in moments(SUMMER)], VALUES, HEADER, {"tz": "Europe/Vienna"}),
    "ISO with offset": ([m.astimezone(VIENNA).isoformat() for m in moments(SUMMER)], VALUES, HEADER, {}),
    "local times into winter": (local(TO_WINTER), VALUES, HEADER, {"tz": "Europe/Vienna"}),
    "local times into summer": (local(TO_SUMMER), VALUES, HEADER, {"tz": "Europe/Vienna"}),
    "own time format": (
        [m.strftime("%d.%m.%Y %H-%M-%S.%f") for m in moments(SUMMER)],
        VALUES,
        HEADER,
        {"tz": "UTC", "time_format": "%d.%m.%Y %H-%M-%S.%f"},
    ),
    "mg": (SINCE_START, scaled(1000), HEADER, {"unit": "mg"}),
    "milli-g": (SINCE_START, scaled(1000), HEADER, {"unit": "milli-g"}),
    **{
        spelled: (SINCE_START, scaled(M_S2), HEADER, {"unit": spelled}) for spelled in ("m/s2", "m/s^2", "m/s²", "ms-2")
    },
    "m/s² in the header": (SINCE_START, scaled(M_S2), "time,ax (m/s²),ay (m/s²),az (m/s²),gx,gy,gz", {}),
    "gyroscope in rad/s": (SINCE_START, scaled(1, RAD_S), HEADER, {"gyro_unit": "rad/s"}),
    "rad/s in the header": (SINCE_START, scaled(1, RAD_S), "time,ax,ay,az,gx [rad/s],gy [rad/s],gz [rad/s]", {}),
    "gyroscope in °/s": (SINCE_START, VALUES, HEADER, {"gyro_unit": "°/s"}),
    "one axis of another name": (SINCE_START, VALUES, "time,ax,ay,up,gx,gy,gz", {"columns": {"z": "up"}}),
    "another name of time": (SINCE_START, VALUES, "clock,ax,ay,az,gx,gy,gz", {"columns": {"time": "clock"}}),
}


@pytest.fixture(scope="module")
def truth(tmp_path_factory):
    return sight.read(write(tmp_path_factory.mktemp("truth") / "day.csv", SINCE_START), CARD)


@pytest.mark.parametrize("form", FORMS)
def test_a_form_is_read_right(form, truth, tmp_path):
    times, values, header, options = FORMS[form]
    windows = sight.read(write(tmp_path / "day.csv", times, values, header), CARD, **options)
    np.testing.assert_allclose(windows.x, truth.x, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(windows.time_s, truth.time_s, atol=1e-5)
    assert windows.warnings == ()
    assert windows.facts.samples == N
    if windows.start is not None and "tz" in options:
        assert str(windows.start.tzinfo) == options["tz"]


@pytest.mark.parametrize("form", ["seconds since start", "ms since start", "ISO with offset", "mg"])
def test_decimal_commas(form, truth, tmp_path):
    times, values, header, options = FORMS[form]
    windows = sight.read(write(tmp_path / "day.csv", times, values, header, decimal=","), CARD, **options)
    np.testing.assert_allclose(windows.x, truth.x, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", ["day.tsv", "day.tsv.gz", "day.xlsx", "dated.xlsx"])
def test_tab_separated_files_and_excel_workbooks(kind, truth, tmp_path):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(VALUES, columns=HEADER.split(",")[1:])
    times = [float(text) for text in SINCE_START]
    if kind == "dated.xlsx":
        times = [moment.replace(tzinfo=None) for moment in moments(SUMMER)]
    frame.insert(0, "time", times)
    if kind.endswith("xlsx"):
        pytest.importorskip("openpyxl")
        frame.to_excel(tmp_path / kind, index=False)
    else:
        frame.to_csv(tmp_path / kind, index=False, sep="\t")
    windows = sight.read(tmp_path / kind, CARD, tz="Europe/Vienna")
    np.testing.assert_allclose(windows.x, truth.x, rtol=1e-4, atol=1e-4)
    assert (windows.start is not None) == (kind == "dated.xlsx")


def test_a_broken_workbook_is_named(tmp_path):
    pytest.importorskip("openpyxl")
    (tmp_path / "day.xlsx").write_bytes(b"PK\x03\x04 no workbook")
    with pytest.raises(ValueError, match=r"day\.xlsx is damaged or no Excel workbook"):
        sight.read(tmp_path / "day.xlsx", CARD)


@pytest.mark.parametrize("start", [TO_WINTER, TO_SUMMER])
def test_local_times_without_a_zone_lose_no_sample_and_ask_for_it(start, tmp_path):
    windows = sight.read(write(tmp_path / "day.csv", local(start)), CARD)
    assert windows.facts.samples == N
    assert windows.facts.gaps == (start == TO_SUMMER)  # without a zone, the missing hour is a gap
    assert any("--tz" in str(warning) for warning in windows.warnings)
    assert any("go back by an hour" in str(warning) for warning in windows.warnings) == (start == TO_WINTER)


@pytest.mark.parametrize("form", ["epoch ms", "ISO with offset"])
def test_the_local_day_is_that_of_the_wearer(form, tmp_path):
    times, values, header, options = FORMS[form]
    windows = sight.read(write(tmp_path / "day.csv", times, values, header), CARD, **options)
    assert windows.start.strftime("%Y-%m-%d %H:%M") == "2024-03-13 00:30"


@pytest.mark.parametrize(
    ("times", "options", "remedy"),
    [
        ([1000 * i // RATE_HZ for i in range(N)], {"time_unit": "s"}, "--time-unit"),
        (SINCE_START, {"time_unit": "ms"}, "--time-unit"),
        ([i * 1000 for i in range(N)], {"time_unit": "s"}, "--rate 0.001"),
        ([i // 300 * 50_000_000 + i / RATE_HZ for i in range(N)], {}, "span 579 days"),
        ([f"{i // 60:02d}h{i % 60:02d}" for i in range(N)], {}, "--time-format"),
        (SINCE_START, {"unit": "ft/s2"}, "--unit"),
        (SINCE_START, {"gyro_unit": "g"}, "--gyro-unit"),
        (SINCE_START, {"columns": {"z": "up"}}, "--columns"),
        (SINCE_START, {"max_gap": 0.01, "columns": {"time": ""}}, "--rate"),
        (SINCE_START, {"label_column": "activity"}, "--label-column"),
    ],
)
def test_what_cannot_be_read_right_is_refused_with_the_remedy(times, options, remedy, tmp_path):
    with pytest.raises(ValueError, match=r"[Ee]xpected|no column|no label column") as caught:
        sight.read(write(tmp_path / "day.csv", times), CARD, **options)
    assert remedy in str(caught.value)


def test_a_file_without_times_is_read_at_a_given_rate(truth, tmp_path):
    path = write(tmp_path / "day.csv", ["soon"] * N)
    windows = sight.read(path, CARD, columns={"time": ""}, rate=RATE_HZ)
    np.testing.assert_allclose(windows.x, truth.x, rtol=1e-6)
