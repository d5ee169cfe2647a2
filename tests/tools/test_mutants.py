"""Mutation tests: each change is one change, samples are stable, and the list of equivalent changes is current."""

from __future__ import annotations

import tomllib

from tools.mutations import mutants as mutants_of

from tools import mutants

SOURCE = '''
"""Module with 1 + 1 in its docstring."""

LIMIT = 3


def first(a: int, b: int = 2) -> int:
    """Return a - b."""
    if a < b and not b:
        raise ValueError(f"Expected {1 + 1}.")
    print(a)
    return a[1:b] + (a if b else -1)
'''


def changed_lines(source):
    return {(mutant.kind, mutant.after) for mutant in mutants_of("first.py", source)}


def test_every_kind_of_change_is_made_and_messages_are_left_alone():
    changes = changed_lines(SOURCE)
    assert {
        ("constant", "LIMIT = (4)"),
        ("default", "def first(a: int, b: int = (3)) -> int:"),
        ("comparison", "if (a <= b) and not b:"),
        ("boolean", "if (a < b or not b):"),
        ("boolean", "if a < b and (b):"),
        ("statement", "pass"),
        ("return", "return None"),
        ("slice", "return a[:b] + (a if b else -1)"),
        ("arithmetic", "return (a[1:b] - (a if b else -1))"),
        ("boolean", "return a[1:b] + ((-1 if b else a))"),
    } <= changes
    assert not any("Expected" in after or '"""' in after for _, after in changes)


def test_every_mutant_of_a_module_is_valid_code():
    for file in ("results/segments.py", "apps/serve/sqlite_store.py"):
        source = (mutants.ROOT / "src/sight" / file).read_text("utf-8")
        for mutant in mutants_of(file, source):
            changed = source[: mutant.start] + mutant.text + source[mutant.end :]
            assert changed != source
            compile(changed, file, "exec")


def test_an_edit_elsewhere_does_not_change_which_mutants_are_chosen():
    edited = SOURCE.replace("LIMIT = 3", "LIMIT = 3\nOTHER = 5")
    one, two = (
        sorted(mutants_of("first.py", source), key=lambda mutant: mutant.rank(1)) for source in (SOURCE, edited)
    )
    assert [mutant.after for mutant in one] == [mutant.after for mutant in two if "OTHER" not in mutant.after]


def test_equivalent_changes_exist_and_have_a_reason():
    for entry in tomllib.loads(mutants.EQUIVALENT.read_text("utf-8"))["equivalent"]:
        source = (mutants.ROOT / "src/sight" / entry["file"]).read_text("utf-8")
        found = {(mutant.before, mutant.after) for mutant in mutants_of(entry["file"], source)}
        assert (entry["before"], entry["after"]) in found, entry
        assert entry["reason"]


def test_all_targets_and_tests_exist():
    for file, tests in mutants.TARGETS.items():
        assert (mutants.ROOT / "src/sight" / file).exists()
        assert all((mutants.ROOT / test.split("::")[0]).exists() for test in tests.split()), file
