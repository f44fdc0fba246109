"""Tags of papers are found where they are written, and nowhere else."""

import pytest

from paper_checks.claim import load
from simlab.errors import InputError
from simlab.estimators import REGISTRY
from simlab.find_tag import PAPERS, SOURCES, TaggedLine, find, labels, roots, tagged_lines


def known_tags(roots):
    return sorted({tagged.tag for tagged in tagged_lines(roots)})


MODULE = '''"""A module about ``[fade:eq-1]``."""

import functools

TABLE = {1: 2}  # [fade:table-1]
NOT_A_TAG = "[fade:eq-99]"
SLICE = [1, 2, 3][low:high]


@register("fade:eq-2")
class Weight:
    """Two tags: ``[fade:eq-3]`` and
    ``[f-grpo:lemma-3.1]``; a slice x[low:high] is none.
    """

    def update(self):
        # [casp:eq-4], [fade:eq-3] and once more [fade:eq-3]

        async def inner():
            """Deep ``[a-grae:alg-2]``."""

    @functools.partial(register, tag="simlab:lemma-2")
    def other(self):
        """``[fade:eq-3]`` again."""
        print("fade:eq-97")


undecided("fade:table-2", needs="a model")
table_3 = undecided("fade:eq-98")
'''


@pytest.fixture
def folders(tmp_path):
    """A small checkout: two package modules and one check, all carrying ``fade`` equation 3."""
    (tmp_path / "simlab" / "deep").mkdir(parents=True)
    (tmp_path / "paper_checks").mkdir()
    (tmp_path / "simlab" / "deep" / "module.py").write_text(MODULE, encoding="utf-8")
    (tmp_path / "simlab" / "last.py").write_text("# [fade:eq-3]\n", encoding="utf-8")
    (tmp_path / "simlab" / "notes.txt").write_text("[fade:eq-50]", encoding="utf-8")
    (tmp_path / "paper_checks" / "fade.py").write_text("# [fade:eq-3]\n", encoding="utf-8")
    return {"code": tmp_path / "simlab", "check": tmp_path / "paper_checks"}


def line_of(text):
    """The first line of the module that holds a text, from 1."""
    return next(number for number, line in enumerate(MODULE.split("\n"), 1) if text in line)


def test_a_tag_is_found_in_a_docstring_a_comment_a_decorator_or_a_lone_call(folders):
    for tag, written, name in (
        ("fade:eq-1", "eq-1]", ""),
        ("fade:table-1", "table-1", ""),
        ("fade:eq-2", "eq-2", "Weight"),
        ("f-grpo:lemma-3.1", "lemma-3.1", "Weight"),
        ("casp:eq-4", "eq-4", "Weight.update"),
        ("a-grae:alg-2", "alg-2", "Weight.update.inner"),
        ("simlab:lemma-2", "lemma-2", "Weight.other"),
        ("fade:table-2", "table-2", ""),
    ):
        expected = TaggedLine(tag, "code", "simlab/deep/module.py", line_of(written), name)
        assert find(*tag.split(":"), folders) == [expected]


def test_a_tag_above_a_theorem_of_coq_names_it(folders):
    text = "(** Two,\n [casp:eq-4] *)\nLemma l : [fade; eq] = [].\nTheorem first :\n(* [casp:eq-4] *)\nTheorem second."
    (folders["check"] / "proof.v").write_text(text, encoding="utf-8")
    proofs = [tagged for tagged in find("casp", "eq-4", folders) if tagged.path.endswith(".v")]
    assert [(tagged.line, tagged.name) for tagged in proofs] == [(2, "first"), (5, "second")]


def test_places_come_once_a_line_by_root_path_and_line(folders):
    assert [(tagged.kind, tagged.path, tagged.name) for tagged in find("fade", "eq-3", folders)] == [
        ("code", "simlab/deep/module.py", "Weight"),
        ("code", "simlab/deep/module.py", "Weight.update"),
        ("code", "simlab/deep/module.py", "Weight.other"),
        ("code", "simlab/last.py", ""),
        ("check", "paper_checks/fade.py", ""),
    ]
    backwards = dict(reversed(folders.items()))
    assert [tagged.kind for tagged in find("fade", "eq-3", backwards)] == ["check", "code", "code", "code", "code"]


def test_slices_plain_strings_and_other_files_carry_no_tag(folders):
    of_fade = [f"fade:{label}" for label in ("eq-1", "eq-2", "eq-3", "table-1", "table-2")]
    assert known_tags(folders) == ["a-grae:alg-2", "casp:eq-4", "f-grpo:lemma-3.1", *of_fade, "simlab:lemma-2"]


def test_a_tag_that_nothing_carries_finds_those_that_begin_with_it(folders):
    assert {tagged.tag for tagged in find("fade", "table-", folders)} == {"fade:table-1", "fade:table-2"}
    assert {tagged.tag for tagged in find("f-grpo", "lemma", folders)} == {"f-grpo:lemma-3.1"}
    with pytest.raises(InputError):
        find("f-grpo", "lemma-3.10", folders)


def test_a_figure_or_table_of_a_paper_finds_the_script_that_is_named_after_it(folders):
    for tag, name in (("fig-1", "fig1"), ("figure-1-b", "fig1"), ("fig-8", "figs7_8"), ("table-5", "tables_5_6")):
        for path in folders["code"].glob("*_*.py"):
            path.unlink()
        (folders["code"] / f"f_grpo_{name}.py").write_text("")
        lines = find("f-grpo", tag, {"figure": folders["code"]})
        assert [(line.kind, line.path.rpartition("/")[2], line.line) for line in lines] == [
            ("figure", f"f_grpo_{name}.py", 1)
        ]
    with pytest.raises(InputError, match="no tag 'fig-10'"):
        find("f-grpo", "fig-10", {"figure": folders["code"]})


def test_the_tags_of_a_paper_are_listed(folders):
    assert labels("fade", folders) == ["eq-1", "eq-2", "eq-3", "table-1", "table-2"]
    assert labels("Fade", folders, "Table-") == ["table-1", "table-2"]
    assert labels("f-grpo", folders, "lemma-3") == ["lemma-3.1"]
    with pytest.raises(InputError, match="'dapo' is unknown"):
        labels("dapo", folders)
    with pytest.raises(InputError, match="no tag 'fig' in fade; closest known: table-2, "):
        labels("fade", folders, "fig")


def test_an_unknown_tag_names_the_closest_known_ones(folders):
    with pytest.raises(InputError, match="closest known: table-1, table-2"):
        find("fade", "tabel-1", folders)
    with pytest.raises(InputError, match="'dapo' is unknown; allowed: f-grpo"):
        find("dapo", "eq-1", folders)


def test_every_tag_of_the_project_belongs_to_a_known_paper():
    of_users = {"own:signed-power"}  # tests/own_estimator.py stands for a package of theirs
    assert {tag for tag in known_tags(roots()) if tag.split(":")[0] not in SOURCES} == of_users


def test_every_paper_that_may_be_asked_for_has_tags():
    assert {tag.split(":")[0] for tag in known_tags(roots())} >= set(PAPERS)


def test_every_registered_estimator_is_found_by_its_tag():
    tags = {(tagged.tag, tagged.name) for tagged in tagged_lines({"code": roots()["code"]})}
    assert {(entry.tag, name) for name, entry in REGISTRY.items()} - tags == set()


# A tag that leads nowhere


def tags_in(*kinds):
    """Every tag written in these folders of the project."""
    return set(known_tags({kind: folder for kind, folder in roots().items() if kind in kinds}))


def test_every_tag_is_claimed_and_every_claim_is_found_where_it_is_checked():
    outside = ("arxiv:", "github:")
    judged = {tag for tag in tags_in("code", "proof", "figure", "benchmark") if not tag.startswith(outside)}
    assert judged - set(load()) == set()
    assert set(load()) == tags_in("check")


def test_a_lemma_that_is_proved_names_its_proof():
    proofs = find("f-grpo", "lemma-3.1", {"proof": roots()["proof"]})
    assert [(tagged.path, tagged.name) for tagged in proofs] == [("proofs/tail_miss.v", "tail_miss")]
